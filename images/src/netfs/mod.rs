//! A connection to a server of files, for a kernel's own client of them: no disk is made of
//! it, and nothing is said on it here.
//!
//! ```text
//! address.rs    which files of which server
//! ```

mod address;

pub(crate) use address::schemes;
use address::Address;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What a server of files talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// 9P2000.L, which Linux calls the file system 9p.
    NineP,
}

/// A connection to a server of files on which nothing was said yet, and what its address says
/// of them. So whoever will have no network can make it before.
pub struct NetFsConnection {
    address: Address,
    socket: OwnedFd,
    silence: Duration,
}

impl NetFsConnection {
    /// Connect to the server of an address. `silence`: how long that may take, and each answer
    /// of the server.
    ///
    /// Errors name the address: InvalidInput it is none; those of connecting.
    pub fn new(address: &str, silence: Duration) -> io::Result<NetFsConnection> {
        let address = Address::parse(address)?;
        let made = address.server.connect(silence);
        let socket = made.map_err(|e| io::Error::new(e.kind(), format!("{address}: {e}")))?;
        Ok(NetFsConnection {
            address,
            socket,
            silence,
        })
    }

    /// The address, as it was written.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What its server talks.
    pub fn protocol(&self) -> Protocol {
        Protocol::NineP
    }

    /// As whom one comes, if the address says so.
    pub fn user(&self) -> Option<&str> {
        self.address.user.as_deref()
    }

    /// What the server calls the tree of files; empty: its only one.
    pub fn tree(&self) -> &[u8] {
        &self.address.tree
    }

    /// How long an answer may take.
    pub fn silence(&self) -> Duration {
        self.silence
    }

    /// The socket, whose calls end after a second: read(2) and write(2) are all it takes.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

impl fmt::Debug for NetFsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetFsConnection({})", self.address)
    }
}
