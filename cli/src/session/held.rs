//! What a command opens before its jail closes, for what is done with it after its Linux has
//! met the image: the image's own file, and one that programs of the host work on. With
//! them open, nothing has to be opened by a name any more.

use super::asker::is_readable;
use super::opener::Opener;
use super::{scratch, Access};
use crate::compare::told::Told;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use tane::images::Spool;
use tane_make::open_at_once;

struct Held {
    images: Vec<(PathBuf, File)>,
    /// Empty, in the directory for temporary files.
    temporary: Option<(PathBuf, File)>,
    /// What an image is made of, once for each time that it is named.
    sources: Vec<(PathBuf, io::Result<File>)>,
    /// Lines to who tells what is in directories, once for each time that they are named.
    told: Vec<(PathBuf, File)>,
    /// One for each file system that archives go to.
    spools: Vec<Spool>,
}

static HELD: Mutex<Held> = Mutex::new(Held {
    images: Vec::new(),
    temporary: None,
    sources: Vec::new(),
    told: Vec::new(),
    spools: Vec::new(),
});

fn held<T>(work: impl FnOnce(&mut Held) -> T) -> T {
    work(&mut HELD.lock().unwrap_or_else(|e| e.into_inner()))
}

fn named(image: &Path, access: Access) -> io::Result<File> {
    tane::images::open_host_file(image, access == Access::Write, 0)
}

/// Before the jail closes. What cannot be opened is told when somebody needs it.
pub(super) fn hold(image: &Path, access: Access) {
    // A fifo would have it wait.
    let may = image
        .metadata()
        .is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
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

/// Who opens what lies in directories of which an image is made, if that is not this process.
static OPENER: OnceLock<Opener> = OnceLock::new();

/// The files of which an image is made, and files without a name to unpack them into, one for
/// each of so many file systems.
pub(super) fn hold_sources(sources: &[PathBuf], systems: usize) {
    // Where there is no room for one, that is told when something is to be unpacked.
    let place = scratch::place();
    let spools = (0..systems).map_while(|_| Spool::new(&place).ok());
    let spools = spools.collect();
    // Who writes to two pipes in turn is not waited for.
    let all = sources
        .iter()
        .map(|path| (path.clone(), open_at_once(path)));
    let all: Vec<_> = all.collect();
    held(|held| (held.sources, held.spools) = (all, spools));
}

/// What is in directories this process opens.
pub(super) fn open_by(opener: Opener) {
    let _ = OPENER.set(opener);
}

/// One of them.
pub fn source(path: &Path) -> io::Result<File> {
    let known = held(|held| {
        let at = held.sources.iter().position(|(known, _)| known == path)?;
        Some(held.sources.remove(at).1)
    });
    let Some(known) = known else {
        return File::open(path);
    };
    let file = known?;
    // A pipe that has no name any more has all its writers.
    if file.metadata()?.file_type().is_fifo() && path.canonicalize().is_ok() {
        await_writer(&file)?;
    }
    // SAFETY: no memory involved.
    unsafe {
        let now = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, now & !libc::O_NONBLOCK);
    }
    Ok(file)
}

/// Before that its end would be the end.
fn await_writer(pipe: &File) -> io::Result<()> {
    while !is_readable(&mut [(pipe.as_raw_fd(), libc::POLLIN)])? {
        if interrupt::requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(())
}

/// One in a directory of them. That it was read is not to be seen, where that may be so.
pub fn source_in(dir: &Path, name: &Path) -> io::Result<File> {
    let path = dir.join(name);
    match OPENER.get() {
        Some(opener) => match opener.open(&path, false, libc::O_NOATIME) {
            // It is somebody else's.
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => opener.open(&path, false, 0),
            other => other,
        },
        None => open_at_once(&path),
    }
}

/// At the other end of this line somebody tells what is in a directory.
pub(super) fn tell_by(dir: PathBuf, line: File) {
    held(|held| held.told.push((dir, line)));
}

/// What is in one, if this process does not look into it.
pub fn told(dir: &Path) -> Option<Told> {
    held(|held| {
        let at = held.told.iter().position(|(known, _)| known == dir)?;
        Some(Told::new(held.told.remove(at).1))
    })
}

/// A file to unpack into.
pub fn spool() -> io::Result<Spool> {
    held(|held| held.spools.pop()).map_or_else(|| Spool::new(&scratch::place()), Ok)
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
