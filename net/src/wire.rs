//! The contract between a network device and what is at the other end of its wire.

use crate::header::Offloads;
use crate::packet::Packet;
use std::io;
use std::sync::Weak;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Done,
    /// It is lost, as on any network: nobody is there, or it makes no sense to them.
    Dropped,
    /// There is no room for it now. The same packet may be offered again once
    /// [`Port::room`] or [`Wire::room`] was called.
    Later,
}

/// What is at the other end of a device's wire.
///
/// Methods may be called from several threads at once, but [`Self::send`] from one at a
/// time. None but [`Self::connect`] and [`Self::disconnect`] may block: they are called
/// with a virtual CPU held.
pub trait Wire: Send + Sync {
    /// A device is here from now on. Errors: EBUSY another one is.
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()>;

    /// The device is gone. When this returns no thread of the wire's is left. May block.
    fn disconnect(&self);

    /// Take a packet. Its buffers are the device's again when this returns.
    fn send(&self, packet: &Packet) -> Sent;

    /// The device has room again for what it put off.
    fn room(&self);

    /// What of the work on packets is done here, however that is: the device offers it
    /// to its driver.
    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}

/// A device as what is at the other end sees it.
///
/// Methods may be called from any thread, but not from within [`Wire::send`].
pub trait Port: Send + Sync {
    /// Give the device a packet. What its driver does not take over is done here.
    /// Never blocks for long.
    fn deliver(&self, packet: &Packet) -> Sent;

    /// There is room again for what was put off.
    fn room(&self);

    /// Whether anybody is there.
    fn link(&self, up: bool);
}
