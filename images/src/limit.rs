//! How long something may take.

use std::io;
use std::time::{Duration, Instant};

/// An end to waiting.
pub(crate) struct Limit {
    since: Instant,
    after: Duration,
}

impl Limit {
    /// So long from now.
    pub fn new(after: Duration) -> Limit {
        Limit {
            since: Instant::now(),
            after,
        }
    }

    /// An error, if it has passed.
    pub fn check(&self, error: impl FnOnce(Duration) -> io::Error) -> io::Result<()> {
        match self.since.elapsed() < self.after {
            true => Ok(()),
            false => Err(error(self.after)),
        }
    }
}

/// That of a server which has done this for so long.
pub(crate) fn expired(what: &str, after: Duration) -> io::Error {
    let text = format!("{what} for {after:?}: given up");
    io::Error::new(io::ErrorKind::TimedOut, text)
}
