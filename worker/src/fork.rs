//! What holds after a fork of the caller: the child has the memory and descriptors
//! of its parent's workers, and must leave them alone. Its copies of the lifelines
//! are closed at once, so that workers see the end of the process that they serve.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering::SeqCst};
use std::sync::Once;

/// More workers than that live at once only if some lifeline stays open in children.
const KNOWN: usize = 1024;

static LIFELINES: [AtomicI32; KNOWN] = [const { AtomicI32::new(-1) }; KNOWN];
/// A word in a page that a child finds empty (MADV_WIPEONFORK).
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static ONCE: Once = Once::new();

/// In the child, where nothing may be called that takes a lock.
extern "C" fn in_child() {
    // SAFETY: async-signal-safe calls.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for line in &LIFELINES {
            let fd = line.swap(-1, SeqCst);
            if fd >= 0 && null >= 0 {
                // Whoever owns the number closes it some day.
                libc::dup3(null, fd, libc::O_CLOEXEC);
            }
        }
        if null >= 0 {
            libc::close(null);
        }
    }
}

fn mark() -> Option<&'static AtomicU32> {
    ONCE.call_once(|| {
        // SAFETY: a new page, and a handler that stays.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, protection, kind, -1, 0);
            if page != libc::MAP_FAILED && libc::madvise(page, 4096, libc::MADV_WIPEONFORK) == 0 {
                MARK.store(page.cast(), SeqCst);
            }
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    // SAFETY: null, or the page, which stays.
    unsafe { MARK.load(SeqCst).as_ref() }
}

/// What tells this process from its forks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The process that calls.
    pub fn of_this() -> Owner {
        let id = std::process::id();
        if let Some(mark) = mark() {
            mark.store(id, SeqCst);
        }
        Owner(id)
    }

    /// Whether it is the one that calls.
    pub fn is_this(self) -> bool {
        // SAFETY: null, or the page, which stays.
        match unsafe { MARK.load(SeqCst).as_ref() } {
            Some(mark) => mark.load(SeqCst) == self.0,
            None => std::process::id() == self.0,
        }
    }
}

/// A lifeline that children are not to hold.
pub fn remember(line: &impl AsRawFd) {
    let fd = line.as_raw_fd();
    for place in &LIFELINES {
        if place.compare_exchange(-1, fd, SeqCst, SeqCst).is_ok() {
            return;
        }
    }
}

/// It is about to be closed.
pub fn forget(fd: RawFd) {
    for place in &LIFELINES {
        if place.compare_exchange(fd, -1, SeqCst, SeqCst).is_ok() {
            return;
        }
    }
}
