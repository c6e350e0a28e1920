//! fork(2) of a process that has kernels. The child has a copy of every handle, and
//! all of the kernel's memory, but none of the threads that serve it. A kernel that is
//! shared gets a process for the child, before the host makes the child itself; one that
//! is not stays the parent's.

use crate::bias;
use crate::cpu;
use crate::inner::{self, Inner, Known};
use crate::member::Copy;
use crate::provisions;
use crate::signals;
use crate::spin;
use crate::thread;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::Arc;

/// How many forks lie between this process and its first kernel.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A fork that this thread is in.
struct Fork {
    /// What was made for it, by kernel.
    made: Vec<(Arc<Inner>, Copy)>,
    errno: i32,
    /// What other threads may have locked is free in the child. None: the thread is in
    /// another fork, and has them.
    locks: Option<(signals::Registry, Known, provisions::Locked)>,
}

thread_local! {
    /// More than one: another library's handler forks.
    static UNDER_WAY: RefCell<Vec<Fork>> = const { RefCell::new(Vec::new()) };
    /// By kernel's id, the process that this thread's last fork made; 0: none.
    static LAST: RefCell<Vec<(u64, i32)>> = const { RefCell::new(Vec::new()) };
}

/// Who registers the handlers: nobody yet, the process of that number, or it is done.
static WATCHER: AtomicI32 = AtomicI32::new(NOBODY);
const NOBODY: i32 = 0;
const DONE: i32 = -1;

/// To be called before the first kernel exists.
///
/// No `Once`: the first fork may come while another thread registers, and in the child
/// nobody would ever finish that. There it was not done: libc lets nobody register during a
/// fork, and who had already has `prepare` wait for the end of it.
pub fn watch() {
    if WATCHER.load(Ordering::Acquire) == DONE {
        return;
    }
    // SAFETY: always succeeds.
    let own = unsafe { libc::getpid() };
    loop {
        let now = WATCHER.load(Ordering::Acquire);
        if now == DONE {
            return;
        }
        // One of this process's threads is at it.
        let waits = now == own;
        if !waits
            && WATCHER
                .compare_exchange(now, own, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            break;
        }
        std::thread::yield_now();
    }
    // SAFETY: the handlers are functions of the program, which stays.
    unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    WATCHER.store(DONE, Ordering::Release);
}

/// Kernels of another value belong to a parent process.
pub fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Which process of that kernel's this thread's last fork has made.
pub fn last(id: u64) -> Option<i32> {
    let find = |last: &RefCell<Vec<(u64, i32)>>| {
        let last = last.try_borrow().ok()?;
        last.iter().find(|(kernel, _)| *kernel == id).copied()
    };
    Some(LAST.try_with(find).ok()??.1)
}

fn errno() -> &'static mut i32 {
    // SAFETY: this thread's own, which nobody else refers to meanwhile.
    unsafe { &mut *libc::__errno_location() }
}

fn under_way<T>(work: impl FnOnce(&mut Vec<Fork>) -> T) -> Option<T> {
    let work =
        |forks: &RefCell<Vec<Fork>>| forks.try_borrow_mut().ok().map(|mut all| work(&mut all));
    UNDER_WAY.try_with(work).ok().flatten()
}

extern "C" fn prepare() {
    let before = *errno();
    // In the child nobody would ever finish what another thread has begun.
    while WATCHER.load(Ordering::Acquire) != DONE {
        std::thread::yield_now();
    }
    bias::prepare();
    spin::prepare();
    // In a doorbell a call would wait for itself.
    let inside = cpu::is_inside();
    let mut last = Vec::new();
    let made = inner::shared().into_iter().filter_map(|kernel| {
        let copy = (!inside).then(|| kernel.prepare_fork().ok()).flatten();
        let pid = copy.as_ref().map_or(0, |copy| copy.pid);
        last.push((kernel.id, pid));
        Some((kernel, copy?))
    });
    let made = made.collect();
    LAST.try_with(|to| to.replace(last)).ok();
    under_way(|forks| {
        let outer = forks.is_empty();
        forks.push(Fork {
            made,
            errno: before,
            locks: outer.then(|| (signals::lock(), inner::lock(), provisions::lock())),
        });
    });
    // Only a fork that fails writes it before `in_parent`.
    *errno() = 0;
}

extern "C" fn in_parent() {
    let now = *errno();
    let failed = matches!(
        now,
        libc::EAGAIN | libc::ENOMEM | libc::ENOSYS | libc::EPERM
    );
    let Some(fork) = under_way(Vec::pop).flatten() else {
        return;
    };
    drop(fork.locks);
    for (kernel, copy) in fork.made {
        if failed {
            forget(kernel.id);
        }
        kernel.after_fork(&copy, failed);
    }
    *errno() = if failed { now } else { fork.errno };
}

/// No process of that kernel's came of the last fork.
fn forget(id: u64) {
    let clear = |last: &RefCell<Vec<(u64, i32)>>| {
        let mut last = last.borrow_mut();
        last.iter_mut()
            .filter(|(kernel, _)| *kernel == id)
            .for_each(|(_, pid)| *pid = 0);
    };
    LAST.try_with(clear).ok();
}

extern "C" fn in_child() {
    let forks = FORKS.fetch_add(1, Ordering::Relaxed) + 1;
    thread::in_child();
    // Not the owner of a CPU that this thread's original keeps.
    cpu::set_gs(0);
    let Some(fork) = under_way(Vec::pop).flatten() else {
        return;
    };
    drop(fork.locks);
    for (kernel, copy) in fork.made {
        kernel.become_copy(&copy, forks);
    }
    *errno() = fork.errno;
}
