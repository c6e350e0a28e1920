//! What went wrong, for whom it matters, and the exit code it becomes.

use crate::names;
use crate::session;
use crate::sys::Errno;
use std::fmt;

/// Some files failed, or something was left behind under --strict.
pub const SOME_FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// The image cannot be opened or mounted.
pub const NO_IMAGE: u8 = 3;
/// `--time-limit`; what timeout(1) says.
pub const OUT_OF_TIME: u8 = 124;
/// Stopped by a signal.
pub const INTERRUPTED: u8 = 130;

const NOT_SHARED: &str =
    "if it is yours, give it to tane sh as an image or with --share DIR (or --no-jail)";

/// An error that ends the command: the thing and, if there is one, the remedy.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(USAGE, message)
    }

    pub fn image(message: impl Into<String>) -> Self {
        Failure::new(NO_IMAGE, message)
    }

    /// An argument that is no address; see [`tane::Address`].
    pub fn address(error: &tane::Error) -> Self {
        Failure::usage(said(error))
    }

    /// What the library says of an image: `disk.img: is empty: …`.
    pub fn of_image(error: &tane::Error) -> Self {
        let name = error.path().map(|path| format!("{}: ", path.display()));
        let mut message = name.unwrap_or_default() + &said(error);
        if error.errno() == libc::EACCES && session::confines_session() {
            message = format!("{message}: {NOT_SHARED}");
        }
        Failure::image(message)
    }

    /// Everything else about a single file.
    pub fn file(path: &[u8], error: Errno) -> Self {
        Failure::new(
            SOME_FAILED,
            format!("{}: {}", names::plain(path), remedy(error)),
        )
    }

    /// The reader of our output has gone; nobody wants to hear about it.
    pub fn closed_pipe() -> Self {
        Failure::new(0, "")
    }

    pub fn interrupted() -> Self {
        Failure::new(INTERRUPTED, "interrupted")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        if e.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::closed_pipe();
        }
        let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
        Failure::new(SOME_FAILED, format!("standard output: {errno}"))
    }
}

/// The error without what was done to what.
fn said(error: &tane::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// An error with what to do about it, where that is known.
pub fn remedy(error: Errno) -> String {
    let hint = match error.0 {
        libc::ENOSPC => "free some space or choose a larger destination",
        libc::EROFS => "the file system there is read-only",
        libc::EMFILE | libc::ENFILE => "raise the limit on open files (ulimit -n)",
        libc::EUCLEAN => "the file system is damaged: check it with its fsck",
        libc::EACCES if session::confines_session() => NOT_SHARED,
        libc::EBADMSG => "a checksum is wrong: check the file system with its fsck",
        _ => return error.to_string(),
    };
    format!("{error}: {hint}")
}
