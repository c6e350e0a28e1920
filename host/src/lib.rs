//! The machine under a Linux kernel that runs inside this process.
//!
//! ```text
//! kernel.rs    Kernel: system calls, devices, halt
//! boot.rs      Builder: what a kernel is made with, and its first moments
//! inner.rs     a kernel's state on this side
//! image.rs     the ELF image: checks, mapping, relocation
//! memory.rs    one memfd of RAM and the windows beside it
//! checkpoint.rs what a kernel goes back to
//! moment.rs    calls that are done between two of its ways back, or not at all
//! levels.rs    what it was, and how it becomes that
//! quiet.rs     a kernel in which nothing happens
//! mirror.rs    its memory as it was
//! written.rs   which pages were written since
//! frames.rs    which were shown elsewhere
//! provisions.rs images and memory files taken before a jail
//! address.rs   physical and virtual addresses
//! area.rs      what host and kernel share beside RAM: CPUs, slots, tables
//! cpu.rs       a virtual CPU: its lock and its gates
//! bias.rs      how one thread keeps that lock between its calls
//! barrier.rs   what one thread has all others do
//! call.rs      a system call: the fast way, and by message
//! call_kept.rs the fastest way, of a thread that keeps its CPU
//! program.rs   threads of programs and modules, which jump to the gate
//! registry.rs  what handlers of signals find without locks
//! lend.rs      pages of files that are shown in the window of a module's
//! lend_faults.rs what is to be shown of them when it is read
//! lend_runs.rs  by how many mappings
//! spin.rs      how long a waiting thread looks before it sleeps
//! errands.rs   what it does for other CPUs when it comes out of one
//! thread.rs    host threads and the kernel tasks that serve them
//! thread_slot.rs the slot of one: its requests and their answers
//! service.rs   one thread per virtual CPU for timers and device interrupts
//! backoff.rs   how soon they send a signal, and another
//! signals.rs   faults and injected interrupts
//! run.rs       host threads that run the program of a process, and come in for it
//! run_counts.rs what programs asked for, counted
//! run_trace.rs who is shown it
//! run_carriers.rs which of them runs which program's thread
//! run_guest.rs what there is of such a thread beside its task
//! run_parked.rs whether it waits for an answer that somebody else brings
//! run_block.rs what each host thread keeps beside its stack
//! run_enter.rs the way into the program and back
//! run_gate.rs  the short way of calls that were rewritten to jumps
//! run_back.rs  where they go on when they took the long one
//! intercept.rs who rewrites them
//! run_handlers.rs what signal handlers do when it comes in
//! ops.rs       what the kernel asks of its host
//! clock.rs     the host's clocks, or time that stands still
//! lead.rs      whose time somebody leads: several kernels on one clock
//! log.rs       the kernel's log
//! processes.rs the processes that share a kernel
//! fork.rs      how they come to be
//! member.rs    what each does because of the others
//! supervise.rs what the first of them does for the others
//! reap.rs      what it does when one has ended
//! ended.rs     how one of them ended
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
mod area;
mod backoff;
mod barrier;
mod bias;
mod boot;
mod call;
mod call_kept;
mod checkpoint;
mod clock;
mod cpu;
mod ended;
mod errands;
mod fork;
mod frames;
mod futex;
mod host_vdso;
mod image;
mod inner;
mod intercept;
mod kernel;
mod lead;
mod lend;
mod lend_faults;
mod lend_runs;
mod levels;
mod log;
mod member;
mod memory;
mod mirror;
mod moment;
mod ops;
mod prefault;
mod processes;
mod program;
mod provisions;
mod quiet;
mod reap;
mod registry;
mod run;
mod run_back;
mod run_block;
mod run_carriers;
mod run_counts;
mod run_enter;
mod run_gate;
mod run_guest;
mod run_handlers;
mod run_parked;
mod run_rewritten;
mod run_trace;
mod service;
mod shared;
mod signals;
mod spin;
mod supervise;
mod thread;
mod thread_slot;
#[cfg(tane_tsan)]
mod tsan;
mod written;

pub use address::{Physical, Virtual};
pub use bias::prepare;
pub use boot::{BootError, Builder, MEMORY};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use clock::Deterministic;
pub use image::{Image, ImageError};
pub use intercept::{Interception, ProgramCode, ProgramText, GATE};
pub use kernel::{Doorbell, Interrupter, Kernel, Layout, Saved};
pub use lend::Loan;
pub use lend_faults::show_lent;
pub use program::{Diversion, Program, BELOW};
pub use provisions::provide;
pub use registry::{Registry, Taken};
pub use run::SpawnError;
pub use run_counts::{CallCount, ProgramCounts};
pub use run_trace::{CallEnd, ProgramCall, ProgramTracer};
pub use signals::{look_first, Look, MAX_KERNELS};
pub use thread::ensure_signal_stack;
