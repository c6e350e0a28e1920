//! What a device is to its transport.

use super::queue::Queue;
use super::slot::Slot;
use std::io;
use std::sync::Arc;
use tane_host::Saved;

/// The device's way to the kernel's interrupt controller. Implemented by
/// whoever owns the virtual CPUs.
pub trait Interrupt: Send + Sync {
    /// Set the line's pending bit. `inside`: called from within a notification,
    /// so that whoever is inside the CPU will look by itself; otherwise the CPU
    /// must be told. Never blocks.
    fn raise(&self, inside: bool);
}

/// A device type, behind the registers that [`Transport`](crate::Transport)
/// keeps. One kernel at a time uses it, but from any of its threads.
pub trait Device: Send + Sync {
    /// Its type (virtio 1.2, 5).
    fn id(&self) -> u32;

    /// The feature bits of its type; those of rings are the transport's.
    fn features(&self) -> u64;

    /// The type's configuration structure, at most 256 bytes, little endian.
    fn config(&self) -> Vec<u8>;

    /// For each queue, at most 8, the most entries it may have.
    fn queue_sizes(&self) -> Vec<u16>;

    /// The driver is ready. A queue that the driver did not set up is `None`.
    /// `features` are those that it accepted.
    fn activate(&self, features: u64, queues: Vec<Option<Queue>>, slot: Arc<Slot>);

    /// Queue `index` has new buffers. Called with a virtual CPU held, while
    /// active or not: it never waits for anything that may take long.
    fn notify(&self, index: usize);

    /// Whether requests are under way that this device will answer by itself, or
    /// answers that the driver has not seen: as long, there is more for the kernel to
    /// wait for than its timers. Called with a virtual CPU held; never blocks.
    fn is_busy(&self) -> bool {
        false
    }

    /// Answer what is under way, then forget the queues and the slot: when this
    /// returns, nothing touches guest memory any more. May block.
    fn reset(&self);

    /// What it is now, for a checkpoint of the kernel; it is not busy, and stays so until
    /// this returns. An error says why it cannot go back to that.
    fn save(&self) -> io::Result<Box<dyn Saved>> {
        let text = "this kind of device cannot go back to what it was: remove it first";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    /// Reset, and give threads and the like back. May be activated again.
    fn stop(&self) {
        self.reset();
    }
}
