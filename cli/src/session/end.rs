//! An end of a copy or comparison: an image, or the host.

use super::{Access, Session, HOST};
use crate::failure::Result;
use crate::session::Global;
use tane::Address;
use tane_linux::{Root, Sys};

/// An image that is open, or the host.
pub enum End {
    Host,
    Image(Session),
}

impl End {
    pub fn open(at: &Address, access: Access, global: &Global) -> Result<End> {
        match at {
            Address::Host(_) => Ok(End::Host),
            Address::Image(at) => Session::open(at, access, global).map(End::Image),
        }
    }

    pub fn root(&self) -> Result<Root<'_>> {
        match self {
            End::Host => {
                let host: Sys = Sys(&HOST);
                host.raise_open_files();
                // What is made has the mode that is asked for.
                host.umask(0);
                Ok(Root::host(host))
            }
            End::Image(session) => session.root(),
        }
    }

    /// Where the host has the bytes of an image's files: see [`Session::host_blocks`].
    pub fn host_blocks(&self) -> Option<&tane::HostBlocks> {
        match self {
            End::Host => None,
            End::Image(session) => session.host_blocks(),
        }
    }

    pub fn close(self) -> Result<()> {
        match self {
            End::Host => Ok(()),
            End::Image(session) => session.close(),
        }
    }
}
