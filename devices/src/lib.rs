//! Virtio devices for a Linux kernel that runs inside this process (virtio 1.2).
//!
//! ```text
//! virtio/         what all devices have; knows none of them
//!   memory.rs       guest memory: physical addresses to pointers, checked
//!   queue.rs        the device's side of a split virtqueue (2.7)
//!   device.rs       what a device type implements; its interrupt line
//!   slot.rs         a device's registers in the memory shared with the kernel
//!   transport.rs    registers and doorbells become calls of the device
//!   attach.rs       into a running kernel, and out of it
//! pool.rs         threads that wait for the host in a device's stead
//! blk/            the block device (5.2)
//!   device.rs       its queues: what is answered at once, what by the pool
//!   config.rs       its features and configuration
//!   request.rs      one request: parse, do, answer (5.2.6)
//!   saved.rs        what it was at a checkpoint
//!   counters.rs     what it has done
//!   fuzz.rs         the entry of the fuzzer
//! net/            the network device (5.1)
//!   device.rs       its queues, and what it is to its wire
//!   config.rs       its features and configuration
//!   transmit.rs     the queue of what is sent; what nobody takes is dropped in time
//!   receive.rs      the queue of what comes: mergeable buffers, work not taken over
//!   control.rs      the control queue: addresses, modes, offloads
//!   filter.rs       which frames are for the driver
//!   counters.rs     what it has done
//!   fuzz.rs         the entry of the fuzzer
//! ```
//!
//! A driver is trusted with its own memory and nothing else: whatever it puts
//! into a queue, the device answers with an error or asks for a reset; it never
//! reads or writes outside guest memory, never loops and never remembers more
//! than a queue has entries. Guest memory changes at any time, so it is accessed
//! through atomics, volatile words, and copies that the compiler cannot see.
//!
//! # Checking the unsafe parts
//! ```text
//! MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-disable-weak-memory-emulation" \
//!     cargo +nightly miri test -p tane-devices --test rings --test hostile_disk
//! RUSTFLAGS=-Zsanitizer=address cargo +nightly test -p tane-devices \
//!     --target x86_64-unknown-linux-gnu --test virtio_blk --test lifecycle \
//!     --test hostile_disk --test rings
//! cargo +nightly fuzz run virtqueue        # in fuzz/
//! ```
//! Miri knows no memfd, so it runs what needs no disk of memory; and it does not
//! model weak memory where both sides access words of different sizes, as rings
//! and bytes here do. `tests/fuzzed.rs` and `tests/hostile_disk.rs` do what the
//! fuzzer does, on stable Rust.
//!
//! Imports of ours: `tane-buffers`, `tane-host`, `tane-images`, `tane-net`.

mod blk;
mod net;
mod pool;
mod virtio;

#[doc(hidden)]
pub use blk::fuzz_queue;
pub use blk::{requests, Block, BlockOptions, Counters};
#[doc(hidden)]
pub use net::fuzz_net;
pub use net::{Mac, Net, NetCounters, NetOptions};
pub use virtio::{
    AttachError, Attached, Broken, Chain, Device, GuestMemory, Interrupt, Queue, QueueLayout, Slot,
    Transport,
};
