//! Changes to a disk that are made as a whole or not at all: they go to a file
//! beside the image first, and whenever the process or the power ends while they are
//! copied from there, who opens the image next for writing finishes that.
//!
//! The file is made ahead, because a jail lets nobody make or remove files: what says
//! that there is something to be done is its header, not its being there.

mod log;

use crate::backend::{check_range, Backend};
use crate::buffers::{buffer_mut, gather, scatter, slice, total, Buffers};
use crate::errors::{named, other};
use crate::host_files::open_host_file;
use crate::lock::{LockWait, Waiting};
use crate::remote::is_remote;
use log::{Header, Log};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

/// What is copied at once, in bytes.
const PIECE: usize = 1 << 20;
/// How often to try, and how long to wait each time, until whoever removes the file
/// of a process that was killed is done.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// The file beside an image, and what is recorded in it.
pub struct Redo {
    image: PathBuf,
    path: PathBuf,
    file: File,
    /// What the image is, as long as it is open.
    below: Mutex<Option<Weak<dyn Backend>>>,
    log: RwLock<Option<Log>>,
}

/// Its name, for an image that is a file.
pub fn redo_path(image: &Path) -> Option<PathBuf> {
    if is_remote(image) {
        return None;
    }
    let real = match image.canonicalize() {
        Ok(real) => real.metadata().is_ok_and(|m| m.is_file()).then_some(real)?,
        Err(_) => {
            let parent = image.parent().filter(|p| !p.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
            parent.join(image.file_name()?)
        }
    };
    let mut name = real.file_name()?.to_owned();
    name.push(".tane-redo");
    Some(real.with_file_name(name))
}

/// Which file it is: a copy, or another one of that name, is not.
fn identity(image: &Path) -> io::Result<(u64, u64)> {
    let found = image.metadata()?;
    let born = found.created().ok();
    let born = born.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    Ok((found.ino(), born.map_or(0, |t| t.as_nanos() as u64)))
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    open_host_file(path, write, libc::O_NOFOLLOW | libc::O_NONBLOCK)
}

/// What is to be done to the image, if anything is.
fn pending(image: &Path, write: bool) -> io::Result<Option<(File, Header, PathBuf)>> {
    // An empty one is about to go, or to be filled by who has the image locked.
    let is_filled = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.len() > 0);
    let Some(path) = redo_path(image).filter(is_filled) else {
        return Ok(None);
    };
    let file = open(&path, write).map_err(|e| named(&path, e))?;
    let Some(header) = Header::read(&file)? else {
        return Ok(None);
    };
    // SAFETY: no memory involved.
    let trusted = [image.metadata()?.uid(), unsafe { libc::geteuid() }, 0];
    if !trusted.contains(&file.metadata()?.uid()) {
        let text = "belongs to somebody else; remove it, or have its owner open the image";
        return Err(other(format!("{}: {text}", path.display())));
    }
    if header.identity != identity(image)? {
        let text = "is about a file that was replaced; remove it";
        return Err(other(format!("{}: {text}", path.display())));
    }
    Ok(Some((file, header, path)))
}

/// An error if a change of the image has begun and not ended.
pub(crate) fn check(image: &Path) -> io::Result<()> {
    match pending(image, false)? {
        None => Ok(()),
        Some((_, _, path)) => Err(other(format!(
            "a change to it was interrupted, and {} has the rest: tane fsck --repair, as \
             whatever opens it for writing, finishes it",
            path.display()
        ))),
    }
}

/// Finish it. True if there was something to finish.
pub(crate) fn finish(image: &Path, disk: &dyn Backend) -> io::Result<bool> {
    let Some((file, header, path)) = pending(image, true)? else {
        return Ok(false);
    };
    apply(&file, &header, disk).map_err(|e| named(&path, e))?;
    Ok(true)
}

fn apply(file: &File, header: &Header, disk: &dyn Backend) -> io::Result<()> {
    if header.size > disk.size() {
        return Err(other("is about a larger disk; remove it if that is so"));
    }
    let raw = crate::Raw::from_file(file.try_clone()?, crate::Access::default())?;
    let mut piece = vec![0; PIECE];
    for (start, extent) in header.extents(file)? {
        check_range(disk.size(), start, extent.len)?;
        if extent.is_zero() {
            disk.write_zeroes(start, extent.len, true)?;
            continue;
        }
        crate::backend::in_steps(start, extent.len, PIECE as u64, |at, len| {
            let buffers = [buffer_mut(&mut piece[..len])];
            raw.read(&buffers, extent.at + (at - start))?;
            disk.write(&buffers, at)
        })?;
    }
    disk.flush()?;
    // Nothing is to be done any more.
    file.set_len(0)?;
    file.sync_all()
}

impl Redo {
    /// Make the file beside an image that is about to be opened for writing. Who has
    /// one there already is waited for, for a moment or as `lock_wait` says.
    pub fn beside(image: &Path, lock_wait: Option<&LockWait>) -> io::Result<Redo> {
        let path = redo_path(image).ok_or_else(|| other("is no file of this host"))?;
        let mut waiting = Waiting::new(lock_wait);
        for attempt in 0.. {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = options.custom_flags(flags).open(&path);
            let file = file.map_err(|e| named(&path, e))?;
            // SAFETY: no memory involved.
            let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
            let is_there = path
                .metadata()
                .is_ok_and(|m| file.metadata().is_ok_and(|own| own.ino() == m.ino()));
            if locked == 0 && is_there {
                if let Some(dir) = path.parent() {
                    File::open(dir)?.sync_all()?;
                }
                return Ok(Redo {
                    image: image.to_owned(),
                    path,
                    file,
                    below: Mutex::default(),
                    log: RwLock::default(),
                });
            }
            let what = || {
                format!(
                    "{}: is being changed by another program: waiting until it ends",
                    image.display()
                )
            };
            match lock_wait {
                None if attempt < TRIES => std::thread::sleep(PAUSE),
                Some(_) if waiting.once_more(image, what)? => {}
                _ => break,
            }
        }
        Err(other(format!(
            "{}: is in use by another program",
            path.display()
        )))
    }

    /// What [`Redo::remove`] takes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Remove the file, unless there is something to be finished. For a process
    /// that outlives the one which called [`Redo::beside`], and has its descriptor.
    pub fn remove(&self) {
        if Header::read(&self.file).is_ok_and(|header| header.is_none()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The disk whose changes are recorded once [`Redo::begin`] says so.
    pub fn over(self: &Arc<Self>, below: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let mut known = self.below.lock().unwrap_or_else(|e| e.into_inner());
        *known = Some(Arc::downgrade(&below));
        let redo = self.clone();
        Arc::new(Recorded { redo, below })
    }

    /// From now on the image does not change.
    pub fn begin(&self) -> io::Result<()> {
        // What an earlier process left and nobody is to finish.
        self.file.set_len(0).map_err(|e| named(&self.path, e))?;
        *self.log.write().unwrap_or_else(|e| e.into_inner()) = Some(Log::default());
        Ok(())
    }

    /// Forget what was recorded: the image stays as it was.
    pub fn abandon(&self) {
        *self.log.write().unwrap_or_else(|e| e.into_inner()) = None;
        let _ = self.file.set_len(0);
    }

    /// All that was recorded is in the image when this returns; whenever it is
    /// interrupted, all of it will be or nothing is.
    pub fn commit(&self) -> io::Result<()> {
        let name = |e| named(&self.path, e);
        let mut log = self.log.write().unwrap_or_else(|e| e.into_inner());
        let below = self.below.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let below = below.and_then(|below| below.upgrade());
        let (Some(recorded), Some(below)) = (&*log, below) else {
            return Err(other("nothing is recorded"));
        };
        let of = identity(&self.image)?;
        let header = recorded.seal(&self.file, below.size(), of).map_err(name)?;
        apply(&self.file, &header, &*below).map_err(|e| {
            let rest = self.path.display();
            let text = format!(
                "{e}; {rest} has what is left, and who opens it for writing next finishes that"
            );
            io::Error::new(e.kind(), text)
        })?;
        *log = None;
        Ok(())
    }
}

impl std::fmt::Debug for Redo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redo({})", self.path.display())
    }
}

/// A disk whose changes are recorded at times.
struct Recorded {
    redo: Arc<Redo>,
    below: Arc<dyn Backend>,
}

impl Recorded {
    /// `record`, while that is what is done; else `pass`.
    fn change(
        &self,
        offset: u64,
        len: u64,
        record: impl FnOnce(&mut Log, &File) -> io::Result<()>,
        pass: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut log = self.redo.log.write().unwrap_or_else(|e| e.into_inner());
        let Some(log) = &mut *log else {
            return pass();
        };
        check_range(self.size(), offset, len)?;
        record(log, &self.redo.file).map_err(|e| named(&self.redo.path, e))
    }

    fn is_recording(&self) -> bool {
        // Somebody who holds it is recording.
        self.redo.log.try_read().map_or(true, |log| log.is_some())
    }
}

impl Backend for Recorded {
    fn size(&self) -> u64 {
        self.below.size()
    }

    fn read_only(&self) -> bool {
        self.below.read_only()
    }

    fn block_sizes(&self) -> (u32, u32) {
        self.below.block_sizes()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let log = self.redo.log.read().unwrap_or_else(|e| e.into_inner());
        let Some(log) = &*log else {
            return self.below.read(to, offset);
        };
        let len = total(to) as u64;
        check_range(self.size(), offset, len)?;
        log.pieces(offset, len, |at, len, from| {
            let to = slice(to, (at - offset) as usize, len as usize);
            let Some(from) = from else {
                return self.below.read(&to, at);
            };
            let mut bytes = vec![0; len as usize];
            log::read(&self.redo.file, from, &mut bytes)?;
            // SAFETY: guest memory, see `Buffers`.
            unsafe { scatter(&bytes, &to) };
            Ok(())
        })
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let len = total(from);
        let record = |log: &mut Log, file: &File| {
            let mut bytes = vec![0; len];
            // SAFETY: guest memory, see `Buffers`.
            unsafe { gather(from, &mut bytes) };
            log.write(file, offset, &bytes)
        };
        self.change(offset, len as u64, record, || {
            self.below.write(from, offset)
        })
    }

    /// What is recorded becomes durable as a whole, by [`Redo::commit`].
    fn flush(&self) -> io::Result<()> {
        match self.is_recording() {
            true => Ok(()),
            false => self.below.flush(),
        }
    }

    /// A hint, which is not worth recording.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(
            offset,
            len,
            |_, _| Ok(()),
            || self.below.discard(offset, len),
        )
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        let record = |log: &mut Log, _: &File| {
            log.zero(offset, len);
            Ok(())
        };
        let pass = || self.below.write_zeroes(offset, len, may_unmap);
        self.change(offset, len, record, pass)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        self.below.grow(size)
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        match self.is_recording() {
            true => Ok(false),
            false => self.below.try_read(to, offset),
        }
    }
}
