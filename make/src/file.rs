//! An image that goes away if it is not finished.

use crate::error::{Error, Result};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Between an image's name and what tells its unfinished files from each other.
const MARK: &str = ".tane-";
/// So many files of one process's number are tried for one image.
const MOST: u32 = 10_000;

fn name_of(image: &Path) -> &OsStr {
    image.file_name().unwrap_or(OsStr::new("image"))
}

fn on_a_server() -> io::Error {
    let text = "is on a server, where no file is made: make it here, or write to an export of \
                NBD that is there (tane mkfs, tane cp)";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// The files of an image that is being made, wherever somebody meets them: it, and those
/// that it is made in.
pub(crate) struct Own {
    dir: (u64, u64),
    name: Vec<u8>,
}

impl Own {
    /// None: its directory cannot be looked at.
    pub fn of(image: &Path) -> Option<Own> {
        let dir = image.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).metadata().ok()?;
        Some(Own {
            dir: (dir.dev(), dir.ino()),
            name: name_of(image).as_bytes().to_vec(),
        })
    }

    /// Whether an entry of this name can be one of them.
    pub fn may_be(&self, name: &[u8]) -> bool {
        let Some(rest) = name.strip_prefix(&self.name[..]) else {
            return false;
        };
        let is_part = |rest: &[u8]| {
            let number = rest.split(|b| *b == b'.').next().unwrap_or_default();
            number.first().is_some_and(u8::is_ascii_digit)
                && number.iter().all(|b| b.is_ascii_digit() || *b == b'-')
        };
        rest.is_empty() || rest.strip_prefix(MARK.as_bytes()).is_some_and(is_part)
    }

    /// Whether they are in this directory, by its device and inode.
    pub fn are_in(&self, dir: (u64, u64)) -> bool {
        self.dir == dir
    }
}

/// Where an image goes that may replace what has its name: the file itself, if that is a
/// link to one.
///
/// Errors: EINVAL if it is a device, a directory or anything else that is no file; ENOENT
/// if it is a link that leads nowhere.
pub fn replaceable(image: &Path) -> Result<PathBuf> {
    let Ok(found) = image.symlink_metadata() else {
        return Ok(image.to_owned());
    };
    let path = match found.is_symlink() {
        true => image.canonicalize().map_err(|e| Error::of(image, &e))?,
        false => image.to_owned(),
    };
    match path.is_file() {
        true => Ok(path),
        false => {
            let text = "is no regular file, and is not replaced by one";
            Err(Error::about(image, &text, Some(libc::EINVAL)))
        }
    }
}

/// A file that goes away with this, unless it gets its name.
pub struct Unfinished {
    /// Where it is meanwhile.
    pub path: PathBuf,
    /// A jail has no names.
    file: File,
}

impl Unfinished {
    /// Empty, beside where it will be. `part` tells it from others of this process.
    pub fn create(image: &Path, part: &str) -> Result<Unfinished> {
        if tane::is_remote(image) {
            return Err(Error::of(image, &on_a_server()));
        }
        let (own, pid) = (name_of(image), std::process::id());
        let mut file = File::options();
        let file = file.read(true).write(true).create_new(true);
        let mut number = 0;
        loop {
            let mut name = own.to_owned();
            name.push(match number {
                0 => format!("{MARK}{pid}.{part}"),
                number => format!("{MARK}{pid}-{number}.{part}"),
            });
            let path = image.with_file_name(name);
            match file.open(&path) {
                Ok(file) => return Ok(Unfinished { path, file }),
                // Another thread's, or of one that was killed under the same number, as the
                // first process of each container has.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < MOST => number += 1,
                Err(e) => return Err(Error::of(&path, &e)),
            }
        }
    }

    /// So many zeroes.
    pub fn resize(&self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(|e| self.fail(&e))
    }

    /// For reading and writing; where it is read next is the same for all of them.
    pub fn open(&self) -> Result<File> {
        self.file.try_clone().map_err(|e| self.fail(&e))
    }

    /// The host's error with it.
    pub fn fail(&self, e: &io::Error) -> Error {
        Error::of(&self.path, e)
    }

    /// In bytes.
    pub fn size(&self) -> Result<u64> {
        let found = self.file.metadata();
        found.map(|found| found.len()).map_err(|e| self.fail(&e))
    }

    /// All of it is durable when this returns.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.fail(&e))
    }

    /// Gives it its name, whatever has it.
    pub fn finish(self, image: &Path) -> Result<()> {
        std::fs::rename(&self.path, image).map_err(|e| self.fail(&e))
    }

    /// Gives it its name, which nothing has: EEXIST if something has got it meanwhile.
    pub fn finish_new(self, image: &Path) -> Result<()> {
        match rename_new(&self.path, image) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Err(exists(image)),
            other => other.map_err(|e| self.fail(&e)),
        }
    }
}

/// That of an image that is there, and not to be replaced.
pub(crate) fn exists(image: &Path) -> Error {
    Error::Failed(format!("{}: exists already", image.display()), libc::EEXIST)
}

/// Renames, and replaces nothing: EEXIST if something has that name.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let names = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let [old, new] = names;
    let (old, new) = (old?, new?);
    let (here, only) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: the strings live as long as the call.
    if unsafe { libc::renameat2(here, old.as_ptr(), here, new.as_ptr(), only) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // Not every file system knows that it is not to replace.
        e if e.raw_os_error() == Some(libc::EINVAL) => match to.symlink_metadata().is_ok() {
            true => Err(io::Error::from_raw_os_error(libc::EEXIST)),
            false => std::fs::rename(from, to),
        },
        e => Err(e),
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where the next byte that is in no hole is; None if there is none.
pub fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    match seek(file, from, libc::SEEK_DATA) {
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        other => other.map(Some),
    }
}

fn seek(file: &File, from: u64, whence: i32) -> io::Result<u64> {
    // SAFETY: moves the position of a file, which nobody uses.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from as i64, whence) };
    u64::try_from(at).map_err(|_| io::Error::last_os_error())
}

/// What follows `from` without a hole before it or in it; None if nothing does.
pub fn next_extent(file: &File, from: u64) -> io::Result<Option<Range<u64>>> {
    let Some(start) = next_data(file, from)? else {
        return Ok(None);
    };
    Ok(Some(start..seek(file, start, libc::SEEK_HOLE)?))
}

/// Copies a file to `start` of another one that has holes there; holes stay.
pub fn copy_data(from: &File, to: &File, start: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Some(data) = next_extent(from, at)? {
        let end = data.end;
        at = data.start;
        while at < end {
            let piece = &mut buffer[..(end - at).min(1 << 20) as usize];
            from.read_exact_at(piece, at)?;
            to.write_all_at(piece, start + at)?;
            at += piece.len() as u64;
        }
    }
    Ok(())
}
