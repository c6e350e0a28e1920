//! What went wrong, as it passes from one process to another.

/// An errno with what people should read about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Positive.
    pub errno: i32,
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Failure {
            errno,
            text: text.into(),
        }
    }

    /// What a system call said, and what was being done.
    pub fn of_errno(errno: i32, action: &str) -> Self {
        let error = std::io::Error::from_raw_os_error(errno);
        Failure::new(errno, format!("{action}: {error}"))
    }

    pub(crate) fn malformed() -> Self {
        let text = "the worker's answer is malformed: its kernel may have been taken over";
        Failure::new(libc::EIO, text)
    }

    pub(crate) fn of_io(error: &std::io::Error, action: &str) -> Self {
        let errno = tane::errno_or_guess(error);
        Failure::new(errno, format!("{action}: {error}"))
    }
}

impl From<tane::Error> for Failure {
    fn from(error: tane::Error) -> Self {
        Failure::new(error.errno(), error.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Of what people read: no control characters, and an end.
pub(crate) fn readable(text: &[u8]) -> String {
    tane::images::readable(text, 4096)
}
