//! A Linux error number, printed the way people know it.

use std::fmt;

/// A bare error number, before anyone said what it was about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What calls give.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// True when nothing further can be written to the same place.
    pub fn ends_writing(self) -> bool {
        matches!(self.0, libc::EROFS | libc::ESHUTDOWN)
    }

    /// True when something else may still be written there, but hardly for long.
    pub fn strains_writing(self) -> bool {
        matches!(
            self.0,
            libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EIO
        )
    }

    /// True when a file cannot get a further name, but a copy of it could be made.
    pub fn forbids_links(self) -> bool {
        matches!(
            self.0,
            libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS | libc::EMLINK | libc::EXDEV
        )
    }

    /// True when the other side has no notion of what was asked for.
    pub fn is_unsupported(self) -> bool {
        matches!(self.0, libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

impl std::error::Error for Errno {}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        let end = text.rfind(" (os error").unwrap_or(text.len());
        let mut chars = text[..end].chars();
        match chars.next() {
            Some(first) => write!(f, "{}{}", first.to_lowercase(), chars.as_str()),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({self})", self.0)
    }
}
