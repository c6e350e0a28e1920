//! A connection to a server of files, for a kernel's own client of them: no disk is made of
//! it, and nothing is said on it here.
//!
//! ```text
//! address.rs    which files of which server
//! nfs.rs        the same of NFS
//! identity.rs   whom a server is told that comes
//! ```

mod address;
mod identity;
mod nfs;

use crate::server::Server;
pub(crate) use address::schemes;
use address::Address;
pub use identity::Identity;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What a server of files talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// 9P2000.L, which Linux calls the file system 9p.
    NineP,
    /// NFS of version 4, which Linux calls nfs4.
    Nfs,
}

/// A connection to a server of files on which nothing was said yet, and what its address says
/// of them. So whoever will have no network can make it before.
pub struct NetFsConnection {
    address: Address,
    identity: Identity,
    socket: OwnedFd,
    silence: Duration,
}

impl NetFsConnection {
    /// Connect to the server of an address. `silence`: how long that may take, and each answer
    /// of the server.
    ///
    /// Errors name the address: InvalidInput it is none; NotFound the host knows no such user,
    /// where the server wants his number; those of connecting.
    pub fn new(address: &str, silence: Duration) -> io::Result<NetFsConnection> {
        let address = Address::parse(address)?;
        let about = |e: io::Error| io::Error::new(e.kind(), format!("{address}: {e}"));
        let identity = match (&address.user, address.protocol) {
            (Some(user), Protocol::Nfs) => Identity::of(user).map_err(about)?,
            _ => Identity::own(),
        };
        let socket = address.server.connect(silence).map_err(about)?;
        Ok(NetFsConnection {
            address,
            identity,
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
        self.address.protocol
    }

    /// As whom one comes, if the address says so.
    pub fn user(&self) -> Option<&str> {
        self.address.user.as_deref()
    }

    /// The same in numbers, for a server that is told numbers: the user of the address, as this
    /// host knows him, else the one whose process this is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The host whose server it is, if it is not this one's by a socket in the file system.
    pub fn host(&self) -> Option<&str> {
        match &self.address.server {
            Server::Tcp(host, _) => Some(host),
            Server::Unix(_) => None,
        }
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
