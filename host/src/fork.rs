//! fork(2) of a process that has kernels. The child has a copy of every handle, and
//! all of the kernel's memory, but none of the threads that serve it. A kernel that is
//! shared gets a process for the child, before the host makes the child itself; one that
//! is not stays the parent's.

use crate::cpu;
use crate::inner::{self, Inner};
use crate::member::Copy;
use crate::thread;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

/// How many forks lie between this process and its first kernel.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// What was made for the fork that this thread is in, by kernel.
type Made = Vec<(Arc<Inner>, Copy)>;

thread_local! {
    static MADE: RefCell<Made> = const { RefCell::new(Vec::new()) };
    /// By kernel's id, the process that this thread's last fork made; 0: none.
    static LAST: RefCell<Vec<(u64, i32)>> = const { RefCell::new(Vec::new()) };
}

/// To be called before the first kernel exists.
pub fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: the handlers are functions of the program, which stays.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
    });
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

fn take() -> Made {
    let made = MADE.try_with(|made| {
        made.try_borrow_mut()
            .map(|mut made| std::mem::take(&mut *made))
    });
    made.ok().and_then(Result::ok).unwrap_or_default()
}

extern "C" fn prepare() {
    // In a doorbell a call would wait for itself.
    if !cpu::is_inside() {
        let mut last = Vec::new();
        let made = inner::shared().into_iter().filter_map(|kernel| {
            let copy = kernel.prepare_fork().ok();
            let pid = copy.as_ref().map_or(0, |copy| copy.pid);
            last.push((kernel.id, pid));
            Some((kernel, copy?))
        });
        let made: Made = made.collect();
        LAST.try_with(|to| to.replace(last)).ok();
        MADE.try_with(|to| to.replace(made)).ok();
    }
    // SAFETY: this thread's own. Only a fork that fails writes it before `in_parent`.
    unsafe { *libc::__errno_location() = 0 };
}

extern "C" fn in_parent() {
    // SAFETY: this thread's own.
    let failed = matches!(
        unsafe { *libc::__errno_location() },
        libc::EAGAIN | libc::ENOMEM | libc::ENOSYS | libc::EPERM
    );
    for (kernel, copy) in take() {
        kernel.after_fork(&copy, failed);
    }
}

extern "C" fn in_child() {
    let forks = FORKS.fetch_add(1, Ordering::Relaxed) + 1;
    thread::in_child();
    // Not the owner of a CPU that this thread's original keeps.
    cpu::set_gs(0);
    for (kernel, copy) in take() {
        kernel.become_copy(&copy, forks);
    }
}
