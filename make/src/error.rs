//! Why an image is not made.

use std::fmt;
use std::io;
use std::path::Path;
use tane_linux::Errno;

/// What went wrong, with what it is about and, where there is one, the remedy.
#[derive(Debug)]
pub enum Error {
    /// Something is asked for that makes no sense, or that nobody here makes.
    Usage(String),
    /// A file, or a program of the host's.
    Failed(String, i32),
    /// A file of the image.
    File(Vec<u8>, Errno),
    /// The Linux that writes, or what it is to write.
    Kernel(String, i32),
    /// What the library says of the new disk.
    Disk(tane::Error),
    /// Somebody wanted it to stop.
    Interrupted,
    /// What the means themselves said; passed on as it is.
    Means(Box<dyn std::error::Error + Send + Sync>),
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The host's error with a file.
    pub fn of(path: &Path, e: &io::Error) -> Error {
        Error::about(path, e, e.raw_os_error())
    }

    /// What is wrong with a file that is read.
    pub(crate) fn about(path: &Path, e: &dyn fmt::Display, errno: Option<i32>) -> Error {
        let text = format!("{}: {e}", path.display());
        Error::Failed(text, errno.unwrap_or(libc::EIO))
    }

    pub(crate) fn failed(text: impl Into<String>) -> Error {
        Error::Failed(text.into(), libc::EIO)
    }

    /// The Linux error number, positive; errno(3). EIO where there is none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Usage(_) => libc::EINVAL,
            Error::Failed(_, errno) | Error::Kernel(_, errno) => *errno,
            Error::File(_, errno) => errno.0,
            Error::Disk(e) => e.errno(),
            Error::Interrupted => libc::EINTR,
            Error::Means(_) => libc::EIO,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text) | Error::Failed(text, _) | Error::Kernel(text, _) => {
                f.write_str(text)
            }
            Error::File(path, errno) => {
                write!(f, "{}: {errno}", String::from_utf8_lossy(path))
            }
            Error::Disk(e) => e.fmt(f),
            Error::Interrupted => f.write_str("interrupted"),
            Error::Means(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
