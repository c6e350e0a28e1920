//! What went wrong: an errno, what was being done, and to what.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tane_images::Locked;

pub(crate) use tane_linux::Errno;

/// What a bare errno was about.
pub(crate) trait Context {
    fn during(self, action: &'static str) -> Error;
    fn on(self, action: &'static str, path: &Path) -> Error;
}

impl Context for Errno {
    fn during(self, action: &'static str) -> Error {
        Error::new(self.0, action)
    }

    fn on(self, action: &'static str, path: &Path) -> Error {
        Error::new(self.0, action).with_path(path)
    }
}

/// An error of this library: a Linux errno with its context.
///
/// It reads like `mount /dev/vda1 as ext4: Structure needs cleaning (os error
/// 117): ext4: …`, and converts into [`io::Error`] with `?`; [`Error::of`] gets
/// it back out of one.
pub struct Error(Box<Detail>);

struct Detail {
    errno: i32,
    action: &'static str,
    path: Option<PathBuf>,
    /// What the kernel or the loader said beside the number.
    text: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A sentence for people, in place of what an errno is called.
#[derive(Debug)]
struct Plain(String);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Plain {}

/// The result of most calls of this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(errno: i32, action: &'static str) -> Self {
        Error(Box::new(Detail {
            errno,
            action,
            path: None,
            text: None,
            source: None,
        }))
    }

    pub(crate) fn from_source(
        errno: i32,
        action: &'static str,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let mut error = Self::new(errno, action);
        error.0.source = Some(Box::new(source));
        error
    }

    /// An error whose text says all there is to say beside what was being done.
    pub fn plain(errno: i32, action: &'static str, text: impl Into<String>) -> Self {
        Self::from_source(errno, action, Plain(text.into()))
    }

    /// An error that somebody else told, in words that say all there is to say.
    pub fn told(errno: i32, text: impl Into<String>) -> Self {
        Self::plain(errno, "", text)
    }

    /// The same error, of what is called this.
    pub fn with_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    pub(crate) fn with_text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.text = Some(text);
        }
        self
    }

    /// The Linux error number, positive; errno(3).
    pub fn errno(&self) -> i32 {
        self.0.errno
    }

    /// The portable class of the error.
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.0.errno).kind()
    }

    /// What was being done: the name of the operation; empty where another process told
    /// the error.
    pub fn action(&self) -> &str {
        self.0.action
    }

    /// What it was done to, as the caller named it.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// What the kernel or the loader said beside the number.
    pub fn text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    /// The error of this library inside an [`io::Error`], if it has one.
    pub fn of(error: &io::Error) -> Option<&Error> {
        error.get_ref()?.downcast_ref()
    }
}

/// The errno of any [`io::Error`], whether this library or the standard one
/// made it.
pub fn errno_of(error: &io::Error) -> Option<i32> {
    error
        .raw_os_error()
        .or_else(|| Error::of(error).map(Error::errno))
        .or_else(|| error.get_ref()?.is::<Locked>().then_some(libc::ENOKEY))
}

/// Like [`errno_of`], for errors that have a kind but lost their number too.
pub fn errno_or_guess(error: &io::Error) -> i32 {
    use io::ErrorKind::*;
    errno_of(error).unwrap_or(match error.kind() {
        NotFound => libc::ENOENT,
        PermissionDenied => libc::EACCES,
        AlreadyExists => libc::EEXIST,
        WouldBlock => libc::EAGAIN,
        Interrupted => libc::EINTR,
        ResourceBusy => libc::EBUSY,
        IsADirectory => libc::EISDIR,
        ReadOnlyFilesystem => libc::EROFS,
        StorageFull => libc::ENOSPC,
        InvalidInput | InvalidData => libc::EINVAL,
        Unsupported => libc::EOPNOTSUPP,
        OutOfMemory => libc::ENOMEM,
        // Of `jail::Hidden`.
        QuotaExceeded => libc::EMFILE,
        // Of servers that images are on.
        ConnectionRefused => libc::ECONNREFUSED,
        ConnectionReset => libc::ECONNRESET,
        ConnectionAborted => libc::ECONNABORTED,
        NotConnected => libc::ENOTCONN,
        BrokenPipe => libc::EPIPE,
        TimedOut => libc::ETIMEDOUT,
        HostUnreachable => libc::EHOSTUNREACH,
        NetworkUnreachable => libc::ENETUNREACH,
        NetworkDown => libc::ENETDOWN,
        _ => libc::EIO,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = &self.0;
        if let (true, Some(source)) = (detail.action.is_empty(), &detail.source) {
            return source.fmt(f);
        }
        f.write_str(detail.action)?;
        if let Some(path) = &detail.path {
            write!(f, " {}", path.display())?;
        }
        match &detail.source {
            Some(source) => write!(f, ": {source}")?,
            // The host's words for it are about sockets.
            None if detail.errno == libc::ESHUTDOWN => f.write_str(": the kernel has ended")?,
            None => write!(f, ": {}", io::Error::from_raw_os_error(detail.errno))?,
        }
        match &detail.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_done_to_what() {
        let error = Errno(libc::ENOENT).on("open", Path::new("/a"));
        let text = error.to_string();
        assert!(text.starts_with("open /a: No such file"), "{text}");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_error_whose_number_is_lost_has_that_of_its_kind() {
        for errno in [
            libc::ENOENT,
            libc::ENOSPC,
            libc::ECONNREFUSED,
            libc::ECONNRESET,
            libc::ECONNABORTED,
            libc::ENOTCONN,
            libc::EPIPE,
            libc::ETIMEDOUT,
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::ENETDOWN,
        ] {
            let numbered = io::Error::from_raw_os_error(errno);
            let named = io::Error::new(numbered.kind(), format!("nbd://h/x: {numbered}"));
            assert_eq!(errno_or_guess(&named), errno, "{named}");
        }
    }

    #[test]
    fn the_errno_survives_the_way_through_io_error() {
        let error = io::Error::from(Errno(libc::EXDEV).during("rename"));
        assert_eq!(errno_of(&error), Some(libc::EXDEV));
        assert_eq!(
            errno_of(&io::Error::from(Errno(libc::EIO))),
            Some(libc::EIO)
        );
    }
}
