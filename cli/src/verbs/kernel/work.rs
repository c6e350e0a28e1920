//! Where images are built: a directory of this command's own, in which it removes things.

use crate::failure::{Failure, Result, NO_IMAGE};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_kernel_build::layout;

/// What marks one; programs that make backups know the name, and its first line.
const TAG: &str = "CACHEDIR.TAG";
const TEXT: &str = "\
Signature: 8a477f597d28d172789f06886806bc55
# `tane kernel build` builds here, and removes what it has no use for any more. Nothing
# else has a place here; all of it can be removed, and then the next build takes longer.
";

/// The one that is meant.
pub fn find(named: Option<&Path>) -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let cache = || {
        let own = variable("XDG_CACHE_HOME").map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))
    };
    let named = named.map(Path::to_owned);
    let Some(work) = named.or_else(|| Some(cache()?.join("tane/kernel"))) else {
        let text = "no HOME and no XDG_CACHE_HOME to build in";
        return Err(Failure::new(NO_IMAGE, text).remedy("name a directory by --work"));
    };
    let work = std::path::absolute(&work).map_err(|e| Failure::of_host(&work, &e))?;
    if !is_plain(&work) {
        let text = format!(
            "{}: Linux cannot be built below a name with spaces, colons or signs",
            work.display()
        );
        return Err(Failure::new(NO_IMAGE, text).remedy("name another directory by --work"));
    }
    Ok(work)
}

/// Whether make and Linux's scripts can have it in their commands.
pub fn is_plain(path: &Path) -> bool {
    let odd = |byte: &u8| {
        byte.is_ascii_whitespace()
            || byte.is_ascii_control()
            || b":\"'\\$`#;&|<>()*?[]".contains(byte)
    };
    !path.as_os_str().as_bytes().iter().any(odd)
}

/// Somebody's files are not to be among what is removed: it is new, empty or marked.
pub fn claim(work: &Path) -> Result<()> {
    let elsewhere = "name a new or empty directory by --work";
    layout::create_dir(work).map_err(|text| Failure::new(NO_IMAGE, text).remedy(elsewhere))?;
    let tag = work.join(TAG);
    // Other programs mark theirs by the same name; and later words of ours may be others.
    if std::fs::read_to_string(&tag).is_ok_and(|text| text.contains("`tane kernel build`")) {
        return Ok(());
    }
    let failed = |e: std::io::Error| Failure::of_host(work, &e);
    // Another build that has begun at the same time, or was killed then.
    let is_begun = tag.metadata().is_ok_and(|found| found.len() == 0);
    for entry in std::fs::read_dir(work).map_err(failed)? {
        let other = entry.map_err(failed)?.path();
        if is_begun && other == tag {
            continue;
        }
        let text = format!(
            "{}: is there, and {} is no directory that `tane kernel build` has made",
            other.display(),
            work.display()
        );
        let failure = Failure::new(NO_IMAGE, text).about(work.as_os_str().as_bytes());
        return Err(failure.remedy(elsewhere));
    }
    std::fs::write(&tag, TEXT).map_err(|e| Failure::of_host(&tag, &e))
}
