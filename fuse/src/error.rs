//! Why something cannot be shown to the host.

use std::fmt;
use std::io;
use std::path::Path;

/// What went wrong, with the directory or device it is about, and what to do about it.
#[derive(Debug)]
pub struct Error {
    text: String,
    errno: i32,
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(text: impl Into<String>, errno: i32) -> Self {
        Error {
            text: text.into(),
            errno,
        }
    }

    /// The host's error about a path, and what more is to be said.
    pub(crate) fn of(path: &Path, e: &io::Error) -> Self {
        Error::new(format!("{}: {e}", path.display()), errno(e))
    }

    /// The Linux error number, positive; errno(3). EIO where the helper that mounts for
    /// who is not root has only said it in words.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

pub(crate) fn errno(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(match e.kind() {
        io::ErrorKind::PermissionDenied => libc::EACCES,
        _ => libc::EIO,
    })
}
