//! A mount that is served, by several threads.

use crate::served::Served;
use fuser::{Config, Session, SessionACL};
use std::io;
use std::os::fd::OwnedFd;

/// Threads that serve, of which one does unless it is held up: see `turns`.
const THREADS: usize = 4;

/// The other end of a mount, greeted.
pub struct Connection(Session<Served>);

impl Connection {
    /// Agrees with the host's kernel on how it asks. `mount` is the other end, an open
    /// /dev/fuse; `threads`: for measurements.
    ///
    /// Errors: what the host's kernel says; ENOTCONN if it is unmounted already.
    pub fn new(served: Served, mount: OwnedFd, threads: Option<usize>) -> io::Result<Connection> {
        let mut config = Config::default();
        // Who may use it is the host's kernel's affair.
        config.acl = SessionACL::All;
        config.n_threads = Some(threads.unwrap_or(THREADS));
        let (turns, prefetch) = (served.turns.clone(), served.prefetch.clone());
        let (other, writable) = (mount.try_clone()?, served.manner.writable);
        let session = Session::from_fd(served, mount, config.acl, config)?;
        turns.begin(other);
        if !writable {
            prefetch.begin(session.notifier());
        }
        Ok(Connection(session))
    }

    /// Until it is unmounted, by whomever. All threads that served have ended then, and
    /// what was served is closed, unless this is an error.
    pub fn serve(self) -> io::Result<()> {
        self.0.run()
    }
}
