//! What holds after a fork of the caller: the child has the memory of its parent's workers,
//! and must leave them alone. Of their lifelines it has no copies (`tane_jail::Hidden`), so
//! that workers see the end of the process that they serve.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst};
use std::sync::Once;

/// A word in a page that a child finds empty (MADV_WIPEONFORK).
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static ONCE: Once = Once::new();

fn mark() -> Option<&'static AtomicU32> {
    ONCE.call_once(|| {
        // SAFETY: a new page.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, protection, kind, -1, 0);
            if page != libc::MAP_FAILED && libc::madvise(page, 4096, libc::MADV_WIPEONFORK) == 0 {
                MARK.store(page.cast(), SeqCst);
            }
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
