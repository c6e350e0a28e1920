//! The machine under a Linux kernel that runs inside this process.
//!
//! ```text
//! kernel.rs    Kernel: system calls, devices, halt
//! boot.rs      Builder: what a kernel is made with, and its first moments
//! inner.rs     a kernel's state on this side
//! image.rs     the ELF image: checks, mapping, relocation
//! memory.rs    one memfd of RAM and the windows beside it
//! address.rs   physical and virtual addresses
//! area.rs      what host and kernel share beside RAM: CPUs, slots, tables
//! cpu.rs       a virtual CPU: its lock and its gates
//! bias.rs      how one thread keeps that lock between its calls
//! barrier.rs   what one thread has all others do
//! call.rs      a system call: the fast way, and by message
//! spin.rs      how long a waiting thread looks before it sleeps
//! errands.rs   what it does for other CPUs when it comes out of one
//! thread.rs    host threads and the kernel tasks that serve them
//! thread_slot.rs the slot of one: its requests and their answers
//! service.rs   one thread per virtual CPU for timers and device interrupts
//! patience.rs  how soon they send a signal, and another
//! signals.rs   faults and injected interrupts
//! ops.rs       what the kernel asks of its host
//! clock.rs     the host's clocks, or time that stands still
//! log.rs       the kernel's log
//! abi.rs       the contract with the image (asm/host.h)
//! shared.rs    how its structures are accessed
//! ```
//!
//! Everything of the kernel's lies in one memfd mapped at one address: nothing
//! in this process's heap, thread-local storage or stacks. Dropping the last
//! [`Kernel`] handle gives all of it back.
//!
//! Imports of ours: none.

pub mod abi;
mod address;
mod ahead;
mod area;
mod barrier;
mod bias;
mod boot;
mod call;
mod clock;
mod cpu;
mod errands;
mod futex;
mod image;
mod inner;
mod kernel;
mod log;
mod memory;
mod ops;
mod patience;
mod service;
mod shared;
mod signals;
mod spin;
mod thread;
mod thread_slot;
#[cfg(tane_tsan)]
mod tsan;

pub use address::{Physical, Virtual};
pub use bias::prepare;
pub use boot::{BootError, Builder};
pub use clock::Deterministic;
pub use image::{Image, ImageError};
pub use kernel::{Doorbell, Interrupter, Kernel, Layout};
