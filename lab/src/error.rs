//! What can go wrong.

use std::fmt;

/// Why something of this crate did not work.
#[derive(Debug)]
pub enum Error {
    /// What the kernel answered.
    Kernel(tane::Error),
    /// What it answered to whoever reads or writes its files.
    File(std::io::Error),
    /// The image was built without tracers.
    NoTracers,
    /// The image was built without modules.
    NoModules,
    /// The kernel refused this, a probe or a name of a function, and said why.
    Refused {
        /// What was asked for.
        what: String,
        /// What the kernel says of it.
        why: String,
    },
    /// The kernel's record is not what its own description says.
    Record(&'static str),
}

/// The result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::NoTracers => f.write_str("this kernel has no tracers: boot the image lab"),
            Self::NoModules => f.write_str("this kernel loads no modules: boot the image lab"),
            Self::Refused { what, why } => write!(f, "{what}: {why}"),
            Self::Record(what) => write!(f, "the kernel's record cannot be read: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel(error) => Some(error),
            Self::File(error) => Some(error),
            _ => None,
        }
    }
}

impl From<tane::Error> for Error {
    fn from(error: tane::Error) -> Self {
        Self::Kernel(error)
    }
}
