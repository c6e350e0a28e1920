//! Virtio over memory that kernel and host share (`struct tane_virtio` in
//! asm/host.h), for any device type.

mod attach;
mod device;
mod memory;
mod queue;
mod slot;
mod transport;

pub use attach::{AttachError, Attached};
pub use device::{Device, Interrupt};
pub use memory::GuestMemory;
pub use queue::{Broken, Chain, Queue, QueueLayout};
pub use slot::Slot;
pub use transport::Transport;
