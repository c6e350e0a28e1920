//! Files of the host that hold a disk image, and are to be replaced: who looks, by what this
//! process may do itself.

use super::guard::{refuses, unseen, Guard};
use super::{confines_session, is_kept_from, is_without_jail};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane_linux::Errno;

/// Before a kernel runs and before a jail is entered, but in a session whose jail has closed:
/// this process looks, in that one.
pub fn guard(place: &Path, global: &Global) -> Result<Guard> {
    Guard::of(place, is_without_jail(global) || confines_session())
}

/// An error if this file of the host is there and holds an image. `hint`: what might
/// have been meant.
pub fn spare(path: &Path, hint: &str, global: &Global) -> Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let fail = |text: String| Failure::new(SOME_FAILED, format!("{}: {text}", path.display()));
    let held = guard(path, global)?.held(b"");
    let name = path.as_os_str().as_bytes();
    if held.is_err() && is_kept_from(name) {
        return Err(Failure::file(name, Errno(libc::EACCES)));
    }
    match held.map_err(|e| fail(unseen(&e)))? {
        Some(what) => Err(fail(refuses(&what) + hint)),
        None => Ok(()),
    }
}
