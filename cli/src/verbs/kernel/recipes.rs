//! What images are made of beside Linux: the port, fragments, and which image has which.

use super::work::is_plain;
use crate::failure::{Failure, Result, NO_IMAGE};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane_kernel_build::{command, layout, Fingerprint};

const ARCHIVE: &str = "kernel.tar.xz";

/// A directory that has what a checkout's kernel/ has.
pub fn find(named: Option<&Path>, work: &Path) -> Result<PathBuf> {
    let found = match named {
        Some(path) => path.to_owned(),
        None => installed()?,
    };
    let found = found
        .canonicalize()
        .map_err(|e| Failure::of_host(&found, &e))?;
    if found.is_dir() && !is_plain(&found) {
        let text = format!(
            "{}: images cannot be made of what is below a name with spaces, colons or signs",
            found.display()
        );
        return Err(Failure::new(NO_IMAGE, text).remedy("give it another name, or pack it"));
    }
    let directory = match found.is_dir() {
        true => found.clone(),
        false => unpacked(&found, work)?,
    };
    if directory.join("configs/images").is_file() && directory.join("arch/tane/Kconfig").is_file() {
        return Ok(directory);
    }
    let text = format!("{}: images are not made of what is in it", found.display());
    Err(Failure::new(NO_IMAGE, text).remedy(remedy()))
}

fn remedy() -> String {
    format!(
        "what they are made of is an installation's share/tane/{ARCHIVE}, or a checkout's kernel/"
    )
}

/// Beside the command; or the checkout that the command was built in and still is.
fn installed() -> Result<PathBuf> {
    let places = tane::places_beside();
    let found = places.iter().map(|place| place.join(ARCHIVE));
    if let Some(found) = found.into_iter().find(|path| path.is_file()) {
        return Ok(found);
    }
    if let Some(checkout) = checkout() {
        return Ok(checkout.join("kernel"));
    }
    let list: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
    let text = format!(
        "no {ARCHIVE}, of which images are made, in {}",
        list.join(", ")
    );
    let remedy = "`make install` in tane's source puts it there, or name one by --recipes";
    Err(Failure::new(NO_IMAGE, text).remedy(remedy))
}

/// The checkout that the command was built in and still is.
pub fn checkout() -> Option<&'static Path> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let own = std::env::current_exe().and_then(|own| own.canonicalize());
    let is_there = own.ok()?.starts_with(checkout) && checkout.join("kernel").is_dir();
    is_there.then_some(checkout)
}

/// What is in an archive, unpacked once. As in a checkout it lies in `kernel`, and `build`
/// beside it: compilers write names of files into what they make, which is the same then.
fn unpacked(archive: &Path, work: &Path) -> Result<PathBuf> {
    let bytes = std::fs::read(archive).map_err(|e| Failure::of_host(archive, &e))?;
    let mut print = Fingerprint::new();
    print.field(bytes);
    let (place, stamp) = (work.join("kernel"), work.join("kernel.stamp"));
    if place.is_dir() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == print.text()) {
        return Ok(place);
    }
    let unpack = || {
        let fresh = work.join("kernel.new");
        for old in [&fresh, &place] {
            match std::fs::remove_dir_all(old) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("{}: {e}", old.display()));
                }
                _ => {}
            }
        }
        layout::create_dir(&fresh)?;
        // Newer than what was compiled of others: make goes by the time.
        let mut tar = Command::new("tar");
        tar.env_remove("TAR_OPTIONS");
        tar.args(["-x", "-m", "--no-same-owner", "--force-local"]);
        tar.args(["--strip-components=1", "-C"]);
        command::output(tar.arg(&fresh).arg("-f").arg(archive))?;
        let moved = std::fs::rename(&fresh, &place);
        moved.map_err(|e| format!("{}: {e}", place.display()))?;
        layout::write(&stamp, &print.text())
    };
    unpack().map_err(|text: String| {
        let text = format!("{}: {}", archive.display(), text.trim_end());
        Failure::new(NO_IMAGE, text).remedy(remedy())
    })?;
    Ok(place)
}
