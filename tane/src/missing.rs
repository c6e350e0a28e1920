//! Pages of a mapping that nobody can give any more.
//!
//! The kernel shows the pages of its user window when the program touches them.
//! It may be gone by then, or the disk may not hand the page out, or the file
//! may have become shorter: where Linux would send SIGBUS, which ends the
//! process. Here the program gets a page of its own in that place, with what
//! could still be read there or else zeroes, and the mapping remembers it.
//!
//! The handler lies below the one of the machine: installed before the first
//! kernel, it is asked after the kernel has said no.

use crate::region::PAGE;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::Mutex;
use tane_host::{Registry, Taken};

/// One mapping.
#[derive(Default)]
struct Entry {
    start: AtomicUsize,
    /// 0 while there is nothing to watch.
    end: AtomicUsize,
    writable: AtomicBool,
    missed: AtomicBool,
    /// One thread at a time puts pages in.
    filling: AtomicBool,
}

static ENTRIES: Registry<Entry> = Registry::new();

/// As long as it lives, its range cannot end the process.
pub(crate) struct Watch(Taken<Entry>);

impl Watch {
    /// `len` in bytes, whole pages.
    pub fn new(start: usize, len: usize, writable: bool) -> Watch {
        let entry = ENTRIES.take();
        entry.missed.store(false, Ordering::Relaxed);
        entry.writable.store(writable, Ordering::Relaxed);
        entry.start.store(start, Ordering::Relaxed);
        entry.end.store(start + len, Ordering::Release);
        Watch(entry)
    }

    /// Whether a page had to be made up.
    pub fn missed(&self) -> bool {
        self.0.missed.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let entry = &self.0;
        let start = entry.start.load(Ordering::Relaxed);
        let end = entry.end.swap(0, Ordering::AcqRel);
        if self.missed() {
            // The kernel does not know of our pages, and would leave them there
            // for the next mapping of this place.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let flags = flags | libc::MAP_NORESERVE | libc::MAP_FIXED;
            let (at, none) = (start as *mut libc::c_void, libc::PROT_NONE);
            // SAFETY: the mapping that is about to go; back to reserved.
            unsafe { libc::mmap(at, end - start, none, flags, -1, 0) };
        }
    }
}

/// Puts a page of ours there. Only calls that a signal handler may make.
fn fill(entry: &Entry, address: usize, write: bool) -> bool {
    let page = (address - address % PAGE) as *mut libc::c_void;
    while entry.filling.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
    entry.missed.store(true, Ordering::Release);
    // SAFETY: a new page, which takes the place of one that could not be shown.
    let filled = unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let new = libc::mmap(ptr::null_mut(), PAGE, prot, flags, -1, 0);
        if new == libc::MAP_FAILED {
            false
        } else {
            let to = [libc::iovec {
                iov_base: new,
                iov_len: PAGE,
            }];
            let from = [libc::iovec {
                iov_base: page,
                iov_len: PAGE,
            }];
            // What can be read is shown read-only: the write was refused.
            let pid = libc::getpid();
            let copied = libc::process_vm_readv(pid, to.as_ptr(), 1, from.as_ptr(), 1, 0);
            if copied == PAGE as isize && !write {
                // Another thread was first.
                libc::munmap(new, PAGE);
                true
            } else {
                if !entry.writable.load(Ordering::Relaxed) {
                    libc::mprotect(new, PAGE, libc::PROT_READ);
                }
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(new, PAGE, PAGE, flags, page) == page
            }
        }
    };
    entry.filling.store(false, Ordering::Release);
    filled
}

/// # Safety
/// The host calls it with what it gives to handlers (sigaction(2)).
unsafe extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the context of this thread, and what happened to it; of a signal that is
    // no fault the address is not used.
    let (regs, code, address) = unsafe {
        let context = &raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        (*context, (*info).si_code, (*info).si_addr() as usize)
    };
    let error = regs[libc::REG_ERR as usize];
    let (write, fetch) = (error & 2 != 0, error & 16 != 0);
    if code > 0 && !fetch {
        let watched = ENTRIES.iter().find(|entry| {
            let end = entry.end.load(Ordering::Acquire);
            (entry.start.load(Ordering::Relaxed)..end).contains(&address)
        });
        let allowed = |entry: &&Entry| !write || entry.writable.load(Ordering::Relaxed);
        if let Some(entry) = watched.filter(allowed) {
            // SAFETY: errno belongs to the code that faulted.
            let errno = unsafe { *libc::__errno_location() };
            let filled = fill(entry, address, write);
            // SAFETY: the same.
            unsafe { *libc::__errno_location() = errno };
            if filled {
                return;
            }
        }
    }
    // SAFETY: what the host gave us.
    unsafe { chain(signal, info, context) };
}

/// Not ours: the handler that was there before. Without one, the instruction
/// faults again and ends the process as it would have without us.
///
/// # Safety
/// As for [`handler`].
unsafe fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: stays while our handler is installed.
    let (action, flags) = match unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() } {
        Some(previous) => (previous.sa_sigaction, previous.sa_flags),
        None => (libc::SIG_DFL, 0),
    };
    // SAFETY: what the host gave us.
    let sent = unsafe { (*info).si_code <= 0 };
    match action {
        libc::SIG_IGN if sent => {}
        // SAFETY: all zeros are the default action.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(signal, &raw const default, ptr::null_mut());
            if sent {
                libc::raise(signal);
            }
        },
        // SAFETY: it was installed as a handler of this kind.
        action => unsafe {
            if flags & libc::SA_SIGINFO != 0 {
                type Action = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, Action>(action)(signal, info, context);
            } else {
                std::mem::transmute::<usize, unsafe extern "C" fn(i32)>(action)(signal);
            }
        },
    }
}

/// The handler before ours, while ours is installed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// How many kernels want the handler.
static GUARDS: Mutex<usize> = Mutex::new(0);

/// Keeps the handler. To be had before a kernel, and given back after it, so
/// that this handler is below the machine's.
pub(crate) struct Guard(());

impl Guard {
    pub fn new() -> Guard {
        let mut count = GUARDS.lock().unwrap_or_else(|e| e.into_inner());
        *count += 1;
        // Still in the chain, if somebody had put a handler over it.
        if PREVIOUS.load(Ordering::Acquire).is_null() {
            // SAFETY: the handler is async-signal-safe; the old action is kept.
            unsafe {
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigemptyset(&raw mut action.sa_mask);
                let mut old = Box::new(MaybeUninit::<libc::sigaction>::zeroed().assume_init());
                libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut *old);
                PREVIOUS.store(Box::into_raw(old), Ordering::Release);
                libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
            }
        }
        Guard(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut count = GUARDS.lock().unwrap_or_else(|e| e.into_inner());
        *count -= 1;
        if *count > 0 {
            return;
        }
        // SAFETY: the saved action came from the same call.
        unsafe {
            let mut now: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut now);
            if now.sa_sigaction != handler as *const () as usize {
                return;
            }
            let old = PREVIOUS.swap(ptr::null_mut(), Ordering::AcqRel);
            libc::sigaction(libc::SIGSEGV, old, ptr::null_mut());
            drop(Box::from_raw(old));
        }
    }
}
