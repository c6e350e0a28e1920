//! Where the kernel image is when nobody says.

use crate::error::{Error, Result};
use std::env;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names of an image file, best first.
const NAMES: [&str; 2] = ["tane-default.elf", "tane-tiny.elf"];

/// The kernel image that is booted if none is named: the file that the
/// environment variable `TANE_IMAGE` names, whether it exists or not; else the
/// first of `tane-default.elf` and `tane-tiny.elf` found beside the executable or
/// the shared library this code is in, in `tane`, `../lib/tane` and
/// `../share/tane` from there, or where the sources were built.
///
/// ENOENT if there is none; the error names the places.
pub fn default_image() -> Result<PathBuf> {
    if let Some(path) = env::var_os("TANE_IMAGE").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let places = places();
    let found = places
        .iter()
        .flat_map(|place| NAMES.map(|name| place.join(name)))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        let list: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        let text = format!(
            "no {} in {}; set TANE_IMAGE to the kernel image",
            NAMES.join(" or "),
            list.join(", ")
        );
        Error::new(libc::ENOENT, "find the kernel image").with_text(text)
    })
}

/// The tiny kernel image, if it lies beside the [`default_image`], and nobody has
/// named another: it starts in half the time and knows ext2, ext3, ext4 and FAT. See
/// [`DiskImage::is_plain`](crate::DiskImage::is_plain).
pub fn tiny_image() -> Option<PathBuf> {
    tiny_image_beside(&default_image().ok()?)
}

/// The same, of who has looked for the [`default_image`] already.
pub fn tiny_image_beside(default: &Path) -> Option<PathBuf> {
    if env::var_os("TANE_IMAGE").is_some_and(|path| !path.is_empty()) {
        return None;
    }
    let tiny = default.with_file_name(NAMES[1]);
    tiny.is_file().then_some(tiny)
}

/// The kernel image that can be looked into (`tane-lab`), which lies beside the
/// [`default_image`].
///
/// ENOENT if there is none; the error names the place.
pub fn lab_image() -> Result<PathBuf> {
    beside("lab")
}

/// The kernel image that knows file systems of servers (`tane-remote`), and no disks, which
/// lies beside the [`default_image`].
///
/// ENOENT if there is none; the error names the place.
pub fn remote_image() -> Result<PathBuf> {
    beside("remote")
}

fn beside(name: &str) -> Result<PathBuf> {
    let path = default_image()?.with_file_name(format!("tane-{name}.elf"));
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("no kernel image {name}: {}", path.display());
    Err(Error::new(libc::ENOENT, "find the kernel image").with_text(text))
}

/// The kernel image that counts the ways through the code of file systems (`tane-fuzz`), if
/// it lies beside the [`default_image`].
pub fn fuzz_image() -> Option<PathBuf> {
    let path = default_image().ok()?.with_file_name("tane-fuzz.elf");
    path.is_file().then_some(path)
}

/// Where files of this library are looked for: beside the executable or the shared
/// library this code is in, and in `tane`, `../lib/tane` and `../share/tane` from
/// there.
pub fn places_beside() -> Vec<PathBuf> {
    let mut places = Vec::new();
    let programs = [env::current_exe().ok(), this_library()];
    for program in programs.into_iter().flatten() {
        let Ok(program) = program.canonicalize() else {
            continue;
        };
        let Some(dir) = program.parent() else {
            continue;
        };
        places.extend([dir.to_owned(), dir.join("tane")]);
        if let Some(prefix) = dir.parent() {
            places.extend([prefix.join("lib/tane"), prefix.join("share/tane")]);
        }
    }
    let mut seen = Vec::new();
    places.retain(|place| {
        !seen.contains(place) && {
            seen.push(place.clone());
            true
        }
    });
    places
}

fn places() -> Vec<PathBuf> {
    let mut places = places_beside();
    if let Some(source) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() {
        places.push(source.join("build/images"));
    }
    places
}

/// The file this code was loaded from: a shared library, or the program again.
fn this_library() -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let here = this_library as *const libc::c_void;
    // SAFETY: an address of this code; the result is checked before use, and
    // the name lives as long as the library is loaded.
    unsafe {
        if libc::dladdr(here, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        let name = (!name.is_null()).then(|| CStr::from_ptr(name))?;
        Some(OsStr::from_bytes(name.to_bytes()).into())
    }
}
