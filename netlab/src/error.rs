//! Why a laboratory does not run.

use std::fmt;
use std::path::PathBuf;

/// What went wrong, with what it is about and, where there is one, the remedy.
#[derive(Debug)]
pub enum Error {
    /// The file says something that makes no sense, or that this image cannot do.
    Topology {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        text: String,
    },
    /// A file of the host's.
    File(PathBuf, std::io::Error),
    /// A kernel did not do what it was to.
    Node(String, tane::Error),
    /// Somebody wanted it to stop.
    Interrupted,
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the file is to be mended.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Topology { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology { path, line, text } => write!(f, "{}:{line}: {text}", path.display()),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Node(name, error) => write!(f, "node {name}: {error}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
