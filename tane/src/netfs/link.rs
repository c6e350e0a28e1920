//! What leads to a server, whatever is talked on it.

use crate::error::Result;
use crate::mount::Mount;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A server may have to write all that it has: so many times as long as anything else.
pub const LONGER: u32 = 20;

/// A connection of the host's, and what carries it into a kernel.
pub trait Link: Send + Sync {
    /// Why nothing comes from the server any more, if nothing does.
    fn lost(&self) -> Option<String>;

    /// Nothing is mounted by it any more, once its client has closed what it has of it.
    fn let_go(&self);
}

/// A link, and what was mounted by it.
pub type Outcome = (Arc<dyn Link>, Result<Mount>);

/// Whether a call has only ended so that one asks whether to go on.
pub fn is_tick(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind())
}

pub fn over() -> String {
    String::from("the server has ended the connection")
}

pub fn silent(what: &str, limit: Duration) -> String {
    format!("the server {what} for {limit:?}: given up")
}

pub fn gone(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            String::from("the server has broken the connection off")
        }
        io::ErrorKind::TimedOut => {
            String::from("the connection is lost: the server's host does not answer any more")
        }
        _ => format!("the connection is lost: {error}"),
    }
}
