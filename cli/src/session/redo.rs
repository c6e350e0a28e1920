//! Volumes that are written back as a whole: see [`tane::images::Redo`].

use super::{scratch, Access};
use crate::session::Global;
use crate::tell;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use tane::images::{redo_path, Redo};
use tane::ImagePath;

/// Of the image that this command changes.
static REDO: OnceLock<Arc<Redo>> = OnceLock::new();

/// The image's volumes will be written back. Before a kernel runs, and before a jail is
/// entered, which lets nobody make or remove files.
pub fn prepare(at: &ImagePath, global: &Global) {
    let is_file = at.within.is_none() && (at.image.is_file() || global.overlay.is_some());
    if global.forgets() || !is_file || REDO.get().is_some() {
        return;
    }
    let written = global.overlay.as_deref().unwrap_or(&at.image);
    // Several disks have no single file, and a disk of the host no place for one.
    let made = match global.with.is_empty() {
        true => Redo::beside(written, global.patience().as_ref()),
        false => Err(io::Error::other("the image consists of several disks")),
    };
    let swept = made.and_then(|redo| {
        let redo = Arc::new(redo);
        let removed = redo.clone();
        let own = redo.descriptor().as_raw_fd();
        scratch::at_the_end(vec![own], move || removed.remove())?;
        Ok(redo)
    });
    match swept {
        Ok(redo) => drop(REDO.set(redo)),
        Err(e) if global.verbose => {
            tell::note(&format!(
                "what is written back cannot be taken up again if it is interrupted: {e}"
            ));
        }
        Err(_) => {}
    }
}

/// The image is about to be written, and what an interrupted change left is finished
/// and removed.
pub fn tidy(at: &ImagePath, global: &Global) {
    let written = global.overlay.as_deref().unwrap_or(&at.image);
    if redo_path(written).is_some_and(|path| path.exists()) {
        prepare(at, global);
    }
}

/// For the disk that is opened.
pub fn of(access: Access) -> Option<Arc<Redo>> {
    REDO.get().filter(|_| access == Access::Write).cloned()
}

/// What `work` writes is in the image as a whole, or not at all.
pub fn as_a_whole(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let Some(redo) = REDO.get() else {
        return work();
    };
    redo.begin()?;
    match work() {
        Ok(()) => redo.commit(),
        Err(e) => {
            redo.abandon();
            Err(e)
        }
    }
}
