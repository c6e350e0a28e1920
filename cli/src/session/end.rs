//! An end of a copy or comparison: an image, or the host.

use super::{Access, Session, HOST};
use crate::args::Global;
use crate::failure::Result;
use crate::sys::{Root, Sys};
use tane::Address;

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
                Sys(&HOST).raise_open_files();
                Ok(Root::host(Sys(&HOST)))
            }
            End::Image(session) => session.root(),
        }
    }

    pub fn close(self) -> Result<()> {
        match self {
            End::Host => Ok(()),
            End::Image(session) => session.close(),
        }
    }
}
