//! Files that a server has, by Linux's own client of them. The connection is the host's; the
//! kernel has a socket that leads to it, and no network but that to itself.
//!
//! ```text
//! ninep/       9p: the client is given its socket
//! nfs/         NFS: the client connects to a listener
//! link.rs      what both have
//! ```

mod link;
mod nfs;
mod ninep;

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount::{Mount, On};
use crate::mount_options::MountOptions;
use link::Link;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tane_images::{NetFsConnection, Protocol};

/// The server that a mount's files are of.
#[derive(Clone)]
pub struct FileServer {
    address: PathBuf,
    link: Arc<dyn Link>,
}

impl FileServer {
    /// A sentence, if nothing comes from it any more. Files have been told EIO, ECONNRESET or
    /// the like, which says less.
    pub fn lost(&self) -> Option<String> {
        let why = self.link.lost()?;
        Some(format!("{}: {why}", self.address.display()))
    }

    fn error(&self, action: &'static str) -> Option<Error> {
        let why = self.link.lost()?;
        Some(Error::plain(libc::ENOTCONN, action, why).with_path(&self.address))
    }
}

impl fmt::Debug for FileServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileServer({})", self.address.display())
    }
}

/// What a mount has of its server: the link is let go of with it.
#[derive(Debug)]
struct Served(FileServer);

impl On for Served {
    fn unmounted(&self) -> Result<()> {
        self.end().map_or(Ok(()), Err)
    }

    fn end(&self) -> Option<Error> {
        self.0.error("unmount")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.link.let_go();
    }
}

impl Kernel {
    /// Mount the files that a server has, over a connection on which nothing was said yet. It
    /// takes a kernel image that knows 9p and NFS ([`remote_image`](crate::remote_image)), in this
    /// process. All calls are made as the user that the address names, else as `user`; with NFS,
    /// which has numbers, as [`NetFsConnection::identity`].
    ///
    /// An answer that takes longer than [`NetFsConnection::silence`] ends the connection, for
    /// good: all further calls fail, and [`Mount::server`] has the reason. After fsync data is
    /// where the server keeps it.
    ///
    /// Errors: ENODEV the kernel does not know the protocol; ENOTCONN the server has ended the connection, or
    /// did not answer; else what it said, as EACCES or ENOENT.
    pub fn mount_netfs(
        &self,
        connection: NetFsConnection,
        user: &str,
        options: &MountOptions,
    ) -> Result<Mount> {
        let address = PathBuf::from(connection.address());
        let (link, mounted) = match connection.protocol() {
            Protocol::NineP => ninep::mount(self, connection, user, options)?,
            Protocol::Nfs => nfs::mount(self, connection, options)?,
        };
        let server = FileServer { address, link };
        match mounted {
            Ok(mount) => Ok(mount.on(Served(server))),
            Err(error) => Err(server
                .error("mount")
                .unwrap_or_else(|| error.with_path(&server.address))),
        }
    }
}

impl Mount {
    /// The server whose files these are, if it was mounted by [`Kernel::mount_netfs`].
    pub fn server(&self) -> Option<&FileServer> {
        self.is_on::<Served>().map(|served| &served.0)
    }
}
