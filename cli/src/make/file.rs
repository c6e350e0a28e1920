//! An image that goes away if it is not finished.

use crate::failure::{Failure, Result, SOME_FAILED};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub struct Unfinished {
    pub path: PathBuf,
}

impl Unfinished {
    /// Empty, beside where it will be. `part` tells it from others of this process.
    pub fn create(image: &Path, part: &str) -> Result<Unfinished> {
        let mut name = image.file_name().unwrap_or(OsStr::new("image")).to_owned();
        name.push(format!(".tane-{}.{part}", std::process::id()));
        let new = Unfinished {
            path: image.with_file_name(name),
        };
        let mut file = File::options();
        let file = file.write(true).create_new(true).open(&new.path);
        file.map_err(|e| new.fail(&e)).map(|_| new)
    }

    /// So many zeroes.
    pub fn resize(&self, size: u64) -> Result<()> {
        self.open()?.set_len(size).map_err(|e| self.fail(&e))
    }

    pub fn open(&self) -> Result<File> {
        let file = File::options().read(true).write(true).open(&self.path);
        file.map_err(|e| self.fail(&e))
    }

    pub fn fail(&self, e: &io::Error) -> Failure {
        Failure::new(SOME_FAILED, format!("{}: {e}", self.path.display()))
    }

    pub fn len(&self) -> Result<u64> {
        let found = self.path.metadata();
        found.map(|found| found.len()).map_err(|e| self.fail(&e))
    }

    /// All of it is durable when this returns.
    pub fn sync(&self) -> Result<()> {
        self.open()?.sync_data().map_err(|e| self.fail(&e))
    }

    /// Gives it its name.
    pub fn finish(self, image: &Path) -> Result<()> {
        std::fs::rename(&self.path, image).map_err(|e| self.fail(&e))
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
