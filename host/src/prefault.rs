//! Memory that a kernel will surely use, got from the host before it does.
//!
//! A page that is touched for the first time costs whoever touches it one or two
//! microseconds: the host finds and clears one. A thread of its own touches them
//! meanwhile, where there is a processor for it.

use crate::address::Physical;
use crate::inner::Inner;
use std::sync::Arc;
use std::thread::JoinHandle;

/// At a time, in bytes: the host's lock of the address space is held for as long, and
/// the kernel may end between two.
const STEP: u64 = 64 << 10;

/// Touches the first `bytes` of what the kernel can use, which it uses about first.
/// None: there is no other processor.
pub fn spawn(kernel: &Arc<Inner>, bytes: u64) -> std::io::Result<Option<JoinHandle<()>>> {
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return Ok(None);
    }
    // Not an owner: the last handle's drop joins this thread.
    let kernel = Arc::as_ptr(kernel) as usize;
    let thread = std::thread::Builder::new()
        .name("tane-prefault".into())
        .stack_size(64 << 10)
        .spawn(move || {
            crate::thread::block_signals();
            // SAFETY: the kernel outlives its threads.
            touch(unsafe { &*(kernel as *const Inner) }, bytes);
        });
    thread.map(Some)
}

fn touch(kernel: &Inner, bytes: u64) {
    let start = kernel.header.image_end;
    let end = start.saturating_add(bytes).min(kernel.memory.shown.end.0);
    for at in (start..end).step_by(STEP as usize) {
        if kernel.is_dead() {
            return;
        }
        kernel.memory.populate(Physical(at), STEP.min(end - at));
    }
}
