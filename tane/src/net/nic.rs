//! A network interface card of a kernel's.

use super::link::Link;
use crate::disk::attach_error;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Machine;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use tane_devices::{Attached, Mac, Net, NetCounters, NetOptions};
use tane_net::Wire;

/// A network interface card that a kernel has, and the interface that Linux made of it.
/// Dropping it takes it away.
pub struct Nic {
    link: Link,
    attached: Attached<Net>,
}

impl Kernel {
    /// Give the kernel a network interface card at the end of a wire. Its interface is
    /// there when this returns: down, and without an address.
    ///
    /// Errors: ENOSPC no device slot is free; ENODEV the kernel's image has no driver
    /// for it (`default` has).
    pub fn add_nic(&self, wire: Arc<dyn Wire>, options: &NetOptions) -> Result<Nic> {
        const ACTION: &str = "add a network interface card";
        let Machine::Tane(machine) = self.machine() else {
            return Err(Error::new(libc::ENOTSUP, ACTION)
                .with_text("the host's kernel has cards of its own"));
        };
        let device = Net::new(wire, options.clone());
        let attached =
            Attached::new(machine, device).map_err(|error| attach_error(ACTION, error))?;
        let name = self.find_nic(attached.slot())?;
        let link = self.link(&name)?;
        if options.transmit.checksum && options.transmit.uso {
            // Linux's driver leaves it off unless told, and its driver may be too old.
            link.set_feature("tx-udp-segmentation", true).ok();
        }
        Ok(Nic { link, attached })
    }

    /// tane-virtio.SLOT/virtioN/net/ethN: its last name.
    fn find_nic(&self, slot: usize) -> Result<String> {
        let lost = |text: &str| {
            Error::new(libc::ENODEV, "find the new network interface card").with_text(text)
        };
        let base = PathBuf::from(format!("/devices/platform/tane-virtio.{slot}"));
        let sysfs = self.tree("/sys")?;
        let virtio = sysfs
            .read_dir(&base)?
            .flatten()
            .find(|entry| entry.file_name().as_encoded_bytes().starts_with(b"virtio"))
            .ok_or_else(|| lost("its slot has no device"))?;
        let net = base.join(virtio.file_name()).join("net");
        let entries = sysfs.read_dir(&net);
        let entries = entries.map_err(|_| lost("the image has no driver for it"))?;
        let mut names = entries.flatten().map(|entry| entry.into_file_name());
        let name = names.next().ok_or_else(|| lost("it has no interface"))?;
        Ok(name.to_string_lossy().into_owned())
    }
}

impl Nic {
    /// Its Ethernet address, as it was made.
    pub fn mac(&self) -> Mac {
        self.attached.device().mac()
    }

    /// What it has done so far.
    pub fn counters(&self) -> &NetCounters {
        self.attached.device().counters()
    }

    /// Whether somebody is at the other end of the wire.
    pub fn link_is_up(&self) -> bool {
        self.attached.device().link_is_up()
    }

    /// What the kernel's driver or the wire got wrong last.
    pub fn last_error(&self) -> Option<String> {
        self.attached.device().last_error()
    }

    /// Have the kernel tell the network where it is, as after a move.
    pub fn announce(&self) {
        self.attached.device().announce();
    }
}

impl Deref for Nic {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nic({} of {:?})", self.link.name(), self.link.kernel())
    }
}
