//! What went wrong, for whom it matters, and the exit code it becomes.

use crate::interrupt;
use crate::names;
use serde_json::{json, Value};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use tane_linux::Errno;

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
    "this session may not open it: give it to tane sh as an image or with --share DIR";

/// An error that ends the command: the thing and, if there is one, the remedy.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    /// Begins with what it is about.
    pub message: String,
    /// What it is about, where that is one file or image.
    path: Option<Vec<u8>>,
    errno: Option<i32>,
    remedy: Option<String>,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            path: None,
            errno: None,
            remedy: None,
        }
    }

    /// What to do about it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same, of what is called this.
    pub fn of(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self.about(name.as_bytes())
    }

    /// What it is about, which the message names already.
    pub fn about(mut self, path: &[u8]) -> Self {
        self.path = Some(path.into());
        self
    }

    /// What the kernel's error was, if it is one.
    pub fn errno(mut self, error: Option<Errno>) -> Self {
        self.errno = error.map(|e| e.0);
        self
    }

    fn remedy_of(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.remedy(hint),
            None => self,
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(USAGE, message)
    }

    pub fn image(message: impl Into<String>) -> Self {
        Failure::new(NO_IMAGE, message)
    }

    /// An argument that is no address; see [`tane::Address`].
    pub fn address(argument: &OsStr, error: &tane::Error) -> Self {
        Failure::usage(said(error)).remedy_of(names::without_slash(argument.as_bytes()))
    }

    /// What the library says of an image: `disk.img: is empty: …`.
    pub fn of_image(error: &tane::Error) -> Self {
        // Without the key that somebody was asked for, too.
        let errno = error.errno();
        if matches!(errno, libc::EINTR | libc::ENOKEY) && interrupt::requested() {
            return Failure::interrupted();
        }
        let Some(path) = error.path() else {
            let failure = Failure::image(said(error)).errno(Some(Errno(error.errno())));
            return failure.with_key(error.errno());
        };
        let bytes = path.as_os_str().as_bytes();
        let failure = Failure::image(format!("{}: {}", path.display(), said(error)));
        let hint = hint(bytes, Errno(error.errno()));
        let hint = hint.filter(|_| matches!(error.errno(), libc::EACCES | libc::ENOENT));
        failure
            .about(bytes)
            .errno(Some(Errno(error.errno())))
            .remedy_of(hint)
            .with_key(error.errno())
    }

    /// The same, with how a key is given if that is what is missing.
    pub fn with_key(self, errno: i32) -> Self {
        match errno {
            libc::ENOKEY => self.remedy("--passphrase-file or --key-file opens it"),
            _ => self,
        }
    }

    /// A file of the host that the command itself needs.
    pub fn of_host(path: &Path, error: &std::io::Error) -> Self {
        let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
        let failure = Failure::image(format!("{}: {errno}", path.display()));
        failure
            .about(path.as_os_str().as_bytes())
            .errno(Some(errno))
    }

    /// Everything else about a single file.
    pub fn file(path: &[u8], error: Errno) -> Self {
        let failure = Failure::new(SOME_FAILED, format!("{}: {error}", names::plain(path)));
        let hint = hint(path, error);
        failure.about(path).errno(Some(error)).remedy_of(hint)
    }

    /// A command line that makes no sense: what is wrong, and how it is written.
    pub fn of_command_line(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.split("\n\n").map(|part| {
            let words: Vec<_> = part.split_whitespace().collect();
            words.join(" ")
        });
        let wrong = parts.next().unwrap_or_default();
        let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong).to_owned();
        let rest: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        Failure::usage(wrong).remedy(rest.join("; "))
    }

    /// The reader of our output has gone; nobody wants to hear about it.
    pub fn closed_pipe() -> Self {
        Failure::new(0, "")
    }

    pub fn interrupted() -> Self {
        Failure::new(INTERRUPTED, "interrupted")
    }

    /// docs/messages.schema.json
    pub fn json(&self) -> Value {
        let object = json!({
            "message": self.message,
            "code": self.code,
            "errno": self.errno,
            "path": null,
            "remedy": self.remedy,
        });
        let Value::Object(mut object) = object else {
            return object;
        };
        if let Some(path) = &self.path {
            names::put(&mut object, "path", path);
        }
        object.into()
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// What the library says of an image.
impl From<tane::Error> for Failure {
    fn from(e: tane::Error) -> Self {
        Failure::of_image(&e)
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
pub fn remedy(path: &[u8], error: Errno) -> String {
    match hint(path, error) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

static KEPT: OnceLock<fn(&[u8]) -> bool> = OnceLock::new();

/// Who knows whether this process, which is jailed, may not open a file.
pub fn set_kept_from(is_kept: fn(&[u8]) -> bool) {
    let _ = KEPT.set(is_kept);
}

fn is_kept_from(path: &[u8]) -> bool {
    KEPT.get().is_some_and(|is_kept| is_kept(path))
}

/// What to do about an error with this file.
fn hint(path: &[u8], error: Errno) -> Option<String> {
    let hint = match error.0 {
        libc::ENOSPC => "free some space or choose a larger destination",
        libc::EMFILE | libc::ENFILE => "raise the limit on open files (ulimit -n)",
        libc::EUCLEAN => "the file system is damaged: check it with its fsck",
        libc::EBADMSG => "a checksum is wrong: check the file system with its fsck",
        libc::EACCES if is_kept_from(path) => NOT_SHARED,
        libc::ENOENT => return names::without_slash(path),
        _ => return None,
    };
    Some(hint.into())
}
