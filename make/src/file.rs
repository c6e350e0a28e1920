//! An image that goes away if it is not finished.

use crate::error::{Error, Result};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file that goes away with this, unless it gets its name.
pub struct Unfinished {
    /// Where it is meanwhile.
    pub path: PathBuf,
}

impl Unfinished {
    /// Empty, beside where it will be. `part` tells it from others of this process.
    pub fn create(image: &Path, part: &str) -> Result<Unfinished> {
        let mut name = image.file_name().unwrap_or(OsStr::new("image")).to_owned();
        name.push(format!(".tane-{}.{part}", std::process::id()));
        let path = image.with_file_name(name);
        let mut file = File::options();
        let file = file.write(true).create_new(true).open(&path);
        // What is there already is another thread's, and stays.
        file.map_err(|e| Error::of(&path, &e))?;
        Ok(Unfinished { path })
    }

    /// So many zeroes.
    pub fn resize(&self, size: u64) -> Result<()> {
        self.open()?.set_len(size).map_err(|e| self.fail(&e))
    }

    /// For reading and writing.
    pub fn open(&self) -> Result<File> {
        let file = File::options().read(true).write(true).open(&self.path);
        file.map_err(|e| self.fail(&e))
    }

    /// The host's error with it.
    pub fn fail(&self, e: &io::Error) -> Error {
        Error::of(&self.path, e)
    }

    /// In bytes.
    pub fn size(&self) -> Result<u64> {
        let found = self.path.metadata();
        found.map(|found| found.len()).map_err(|e| self.fail(&e))
    }

    /// All of it is durable when this returns.
    pub fn sync(&self) -> Result<()> {
        self.open()?.sync_data().map_err(|e| self.fail(&e))
    }

    /// Gives it its name, whatever has it.
    pub fn finish(self, image: &Path) -> Result<()> {
        std::fs::rename(&self.path, image).map_err(|e| self.fail(&e))
    }

    /// Gives it its name, which nothing has: EEXIST if something has got it meanwhile.
    pub fn finish_new(self, image: &Path) -> Result<()> {
        match rename_new(&self.path, image) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Err(exists(image)),
            // Not every file system knows that it is not to replace.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                match image.symlink_metadata().is_ok() {
                    true => Err(exists(image)),
                    false => self.finish(image),
                }
            }
            other => other.map_err(|e| self.fail(&e)),
        }
    }
}

/// That of an image that is there, and not to be replaced.
pub(crate) fn exists(image: &Path) -> Error {
    Error::Failed(format!("{}: exists already", image.display()), libc::EEXIST)
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (from, to) = (from?, to?);
    let (here, only) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: the strings live as long as the call.
    match unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), only) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
