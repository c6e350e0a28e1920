//! Addresses that a process which talks to servers may open, as whoever starts it says.

use crate::failure::Result as Answered;
use crate::objects::lock;
use crate::wire::{Reader, Wire, Writer};
use std::io;
use std::sync::{Arc, Mutex};
use tane::images::{is_beside, is_nbd, Backend, NbdConnection, NbdExport, SILENCE};

/// An address, and whether what is there may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub address: String,
    pub write: bool,
}

impl Named {
    pub fn is_nbd(&self) -> bool {
        is_nbd(self.address.as_ref())
    }

    /// Whether this is what a worker asks for.
    pub fn allows(&self, address: &str, write: bool) -> bool {
        let is_it = self.address == address || !self.is_nbd() && is_beside(&self.address, address);
        is_it && (self.write || !write)
    }
}

impl Wire<'_> for Named {
    fn put(&self, to: &mut Writer) -> Answered<()> {
        self.address.put(to)?;
        self.write.put(to)
    }

    fn get(from: &mut Reader) -> Answered<Self> {
        Ok(Named {
            address: Wire::get(from)?,
            write: Wire::get(from)?,
        })
    }
}

/// What was connected to before the jail was entered, in which there are no connections
/// to be made.
pub(super) struct Exports(Vec<(String, Mutex<Export>)>);

enum Export {
    Connected(NbdConnection),
    Open(NbdExport),
    /// Why it cannot be used.
    Lost(io::ErrorKind, String),
}

impl Export {
    fn lost(error: &io::Error) -> Export {
        Export::Lost(error.kind(), error.to_string())
    }

    /// Agreed on, if it is not.
    fn open(&mut self) {
        let lost = Export::Lost(io::ErrorKind::NotConnected, String::new());
        *self = match std::mem::replace(self, lost) {
            Export::Connected(made) => match made.open() {
                Ok(export) => Export::Open(export),
                Err(e) => Export::lost(&e),
            },
            as_it_was => as_it_was,
        };
    }
}

impl Exports {
    /// Connect to the servers of those that are exports. [`Self::agree`] is to follow soon:
    /// servers end connections on which nobody says anything (qemu-nbd after 10 s).
    pub fn connect(named: &[Named]) -> Exports {
        let mut exports = Exports(Vec::new());
        for named in named.iter().filter(|named| named.is_nbd()) {
            let address = &named.address;
            if exports.of(address).is_none() {
                let made = NbdConnection::new(address, SILENCE);
                let export = made.map_or_else(|e| Export::lost(&e), Export::Connected);
                exports.0.push((address.clone(), Mutex::new(export)));
            }
        }
        exports
    }

    /// For each of them what agrees with its server on what it is.
    pub fn agree(&self) -> impl Iterator<Item = impl FnOnce() + Send + use<'_>> {
        self.0.iter().map(|(_, export)| || lock(export).open())
    }

    /// Tell the servers that it is the end. A server that is about to agree is not waited for.
    pub fn farewell(&self) {
        for (_, export) in &self.0 {
            if let Ok(Export::Open(open)) = export.try_lock().as_deref() {
                open.farewell();
            }
        }
    }

    fn of(&self, address: &str) -> Option<&Mutex<Export>> {
        let mut all = self.0.iter();
        let found = all.find(|(known, _)| known == address)?;
        Some(&found.1)
    }

    /// The export at this address, once and again.
    pub fn disk(
        &self,
        address: &str,
        write: bool,
        say: &dyn Fn(&str),
    ) -> io::Result<Arc<dyn Backend>> {
        let export = self.of(address).ok_or(io::ErrorKind::PermissionDenied)?;
        let mut export = lock(export);
        export.open();
        match &*export {
            Export::Open(open) => open.disk(write, say),
            Export::Lost(kind, text) => Err(io::Error::new(*kind, text.clone())),
            Export::Connected(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
