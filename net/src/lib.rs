//! What can be at the other end of a network device: one trait, one file per kind.
//!
//! ```text
//! wire.rs       Wire and Port: the contract between a device and its other end
//! header.rs     what stands before a frame: the work that is left (virtio 1.2, 5.1.6)
//! packet.rs     a frame and a header that were looked at
//! segment.rs    the work itself: checksums, segments of TCP and UDP
//! pair.rs       another device of this process
//! tap.rs        the host's network, by a tap interface
//! socket.rs     QEMU's framing on Unix sockets: passt, gvproxy, QEMU
//!   pump.rs       the thread that reads a descriptor
//!   thread.rs     threads that take no signals of the program's
//! capture.rs    pcapng of what passes any of them
//! user/         no wire: sockets of the host's, and who may have which
//! fuzz.rs       the entry of the fuzzer
//! ```
//!
//! Neither side is trusted. A packet exists only after its length, its header and its
//! headers of Ethernet, IP and TCP were found to agree; everything else is dropped, as
//! on any network. Guests change their memory at any time, so what is computed of a
//! packet is computed of a copy.
//!
//! Imports of ours: `tane-buffers`.

mod capture;
mod fuzz;
pub mod header;
mod packet;
mod pair;
mod pump;
mod segment;
mod socket;
mod tap;
pub mod thread;
pub mod user;
mod wire;

pub use capture::Capture;
#[doc(hidden)]
pub use fuzz::fuzz_packet;
pub use header::{Header, Offloads};
pub use packet::{Malformed, Packet, ETHERNET, MAX_FRAME};
pub use pair::Pair;
pub use segment::{adapt, count, Scratch};
pub use socket::{Datagram, Stream};
pub use tap::Tap;
pub use wire::{Port, Sent, Wire};
