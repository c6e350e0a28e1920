//! The image's file: its format, and the locks that it is used under.

use super::super::{held, Access};
use super::failed;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use std::fs::File;
use std::io;
use std::path::Path;
use tane::images::{Format, Lock, Raw};
use tane::{is_remote, ImagePath};

/// The container that the image's file is, where that file is what is written to.
pub fn container(at: &ImagePath, global: &Global) -> Option<Format> {
    if global.overlay.is_some() || at.within.is_some() || is_remote(&at.image) {
        return None;
    }
    let found = || {
        let raw = Raw::from_file(
            held::open(&at.image, Access::Read)?,
            tane::images::Access::default(),
        )?;
        tane::images::detect(&raw)
    };
    global.format.or_else(|| found().ok())
}

/// Whether the file has the disk's bytes as they are, and is what is written to.
pub(super) fn is_raw(at: &ImagePath, global: &Global) -> bool {
    container(at, global) == Some(Format::Raw)
}

/// The image's file, with the locks that every verb takes, for as long as both live.
pub fn locked(image: &Path, access: Access) -> Result<(File, Lock)> {
    let write = access == Access::Write;
    let file = held::open(image, access);
    let file = file.map_err(|e| failed(image, &e))?;
    // In between nobody is waited for: what was found out about the image is to hold.
    let lock = Lock::take(&file, image, write, None);
    let lock = lock.map_err(|e| Failure::new(SOME_FAILED, e.to_string()))?;
    Ok((file, lock))
}

/// The locks of an image that is not written but replaced by another one, so that nobody
/// goes on with what has no name any more.
pub fn lock_replaced(image: &Path, global: &Global) -> Result<Lock> {
    let file = held::open(image, Access::Read).map_err(|e| failed(image, &e))?;
    let lock = Lock::take(&file, image, true, global.patience().as_ref());
    lock.map_err(|e| match e.kind() {
        io::ErrorKind::Interrupted => Failure::interrupted(),
        _ => Failure::image(e.to_string()),
    })
}
