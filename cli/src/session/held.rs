//! What a command opens before its jail closes, for what is done with it after its Linux has
//! met the image: the image's own file, and one that programs of the host work on. With
//! them open, nothing has to be opened by a name any more.

use super::{scratch, Access};
use crate::failure::{Failure, Result, SOME_FAILED};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

struct Held {
    images: Vec<(PathBuf, File)>,
    /// Empty, in the directory for temporary files.
    temporary: Option<(PathBuf, File)>,
}

static HELD: Mutex<Held> = Mutex::new(Held {
    images: Vec::new(),
    temporary: None,
});

fn held<T>(work: impl FnOnce(&mut Held) -> T) -> T {
    work(&mut HELD.lock().unwrap_or_else(|e| e.into_inner()))
}

fn named(image: &Path, access: Access) -> io::Result<File> {
    let write = access == Access::Write;
    File::options().read(true).write(write).open(image)
}

/// Before the jail closes. What cannot be opened is told when somebody needs it.
pub(super) fn hold(image: &Path, access: Access) {
    // A fifo would have it wait.
    let may = image.metadata().is_ok_and(|found| {
        use std::os::unix::fs::FileTypeExt;
        found.is_file() || found.file_type().is_block_device()
    });
    if let Some(file) = may.then(|| named(image, access).ok()).flatten() {
        held(|held| held.images.push((image.to_owned(), file)));
    }
}

/// The same, for [`temporary`].
pub(super) fn hold_temporary() -> Result<()> {
    let made = made()?;
    held(|held| held.temporary = Some(made));
    Ok(())
}

/// The image's file, for reading, and for writing where the verb writes.
pub fn open(image: &Path, access: Access) -> io::Result<File> {
    let known = held(|held| {
        let found = held.images.iter().find(|(path, _)| path == image);
        found.map(|(_, file)| file.try_clone())
    });
    known.unwrap_or_else(|| named(image, access))
}

/// An empty file with a name, for programs.
pub(super) fn temporary() -> Result<(PathBuf, File)> {
    held(|held| held.temporary.take()).map_or_else(made, Ok)
}

fn made() -> Result<(PathBuf, File)> {
    // In a jail the one before still has its name.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = scratch::directory()?.join(format!("volume{number}"));
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).create_new(true);
    let fail = |e: io::Error| Failure::new(SOME_FAILED, format!("{}: {e}", path.display()));
    let file = options.open(&path).map_err(fail)?;
    Ok((path, file))
}
