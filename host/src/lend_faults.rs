//! Faults in what is lent (lend.rs): the kernel knows it by another address.

use crate::address::Virtual;
use crate::memory::PAGE;
use crate::registry::{Registry, Taken};
use crate::thread;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};

/// What signal handlers must know of a loan.
#[derive(Default)]
pub struct Entry {
    /// Odd while the others change: it is no loan yet, or none any more.
    version: AtomicU64,
    kernel: AtomicU64,
    from: AtomicU64,
    to: AtomicU64,
    /// In bytes; 0 while there is no loan.
    len: AtomicU64,
    /// Nothing is shown of it any more, and will not be.
    over: AtomicBool,
}

static ENTRIES: Registry<Entry> = Registry::new();

/// An entry as it was at one time.
struct Seen {
    kernel: u64,
    from: u64,
    to: u64,
    len: u64,
    over: bool,
}

impl Entry {
    /// For a loan: of this kernel's mapping, shown there instead.
    pub fn take(kernel: u64, from: Virtual, to: Virtual, len: u64) -> Taken<Entry> {
        let entry = ENTRIES.take();
        entry.write(&Seen {
            kernel,
            from: from.0,
            to: to.0,
            len,
            over: false,
        });
        entry
    }

    /// Of its one owner.
    fn write(&self, what: &Seen) {
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.kernel.store(what.kernel, Ordering::Relaxed);
        self.from.store(what.from, Ordering::Relaxed);
        self.to.store(what.to, Ordering::Relaxed);
        self.len.store(what.len, Ordering::Relaxed);
        self.over.store(what.over, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// None: it is changing, so that it is no loan yet, or none any more.
    fn read(&self) -> Option<Seen> {
        let version = self.version.load(Ordering::Acquire);
        let seen = Seen {
            kernel: self.kernel.load(Ordering::Relaxed),
            from: self.from.load(Ordering::Relaxed),
            to: self.to.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            over: self.over.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        let same = self.version.load(Ordering::Relaxed) == version && version.is_multiple_of(2);
        same.then_some(seen)
    }

    /// There is no such loan any more.
    pub fn forget(&self) {
        self.write(&Seen {
            kernel: 0,
            from: 0,
            to: 0,
            len: 0,
            over: false,
        });
    }

    /// Whoever touches it is not shown anything again.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

fn is_within(address: Virtual, start: u64, len: u64) -> bool {
    address.0.wrapping_sub(start) < len
}

/// The loan that this address is in.
fn loan_at(address: Virtual) -> Option<Seen> {
    let mut seen = ENTRIES.iter().filter_map(Entry::read);
    seen.find(|seen| is_within(address, seen.to, seen.len))
}

/// The address that the kernel knows this one by. What it has mapped for a loan is shown
/// nowhere else, so that a pointer there is a bad one: then none that it has ever mapped.
pub fn known(address: Virtual) -> Virtual {
    match loan_at(address) {
        Some(seen) => Virtual(seen.from + (address.0 - seen.to)),
        None if is_elsewhere(address) => Virtual(0),
        None => address,
    }
}

/// Whether a kernel has mapped this for a loan: it is never shown there.
pub fn is_elsewhere(address: Virtual) -> bool {
    let mut seen = ENTRIES.iter().filter_map(Entry::read);
    seen.any(|seen| is_within(address, seen.from, seen.len))
}

/// Of x86's error code of a page fault.
const WRITE: u64 = 2;

/// A thread has read what is lent and is not shown: have it shown. False: it is not lent, or
/// the file does not have it any more. `error` is x86's, of a page fault. For signal handlers.
pub fn show_lent(address: Virtual, error: u64) -> bool {
    let Some(seen) = loan_at(address).filter(|seen| error & WRITE == 0 && !seen.over) else {
        return false;
    };
    let there = Virtual(seen.from + (address.0 - seen.to));
    thread::fault(seen.kernel, there, error)
}

/// The same for code that is not to fault: what there is no more reads as zeroes from now on.
pub fn show_to_host(address: Virtual, error: u64) -> bool {
    let Some(seen) = loan_at(address).filter(|_| error & WRITE == 0) else {
        return false;
    };
    // SAFETY: errno belongs to the code that faulted.
    let errno = unsafe { *libc::__errno_location() };
    let done = show_lent(address, error) || fill(address, &seen);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    done
}

/// Of a loan that is over all of it, in one mapping.
fn fill(address: Virtual, of: &Seen) -> bool {
    let (at, len) = match of.over {
        true => (Virtual(of.to), of.len),
        false => (Virtual(address.0 & !(PAGE - 1)), PAGE),
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: in a loan, where nothing is shown.
    unsafe {
        libc::mmap(at.pointer(), len as usize, libc::PROT_READ, flags, -1, 0) != libc::MAP_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that nobody else has.
    fn reserved(pages: u64) -> Virtual {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let len = (pages * PAGE) as usize;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Virtual(at as u64)
    }

    #[test]
    fn of_a_loan_that_is_over_nothing_is_shown_again_and_the_host_reads_zeroes() {
        let (from, to) = (reserved(3), reserved(3));
        let entry = Entry::take(0, from, to, 3 * PAGE);
        entry.end();
        assert!(!show_lent(to, 0));
        assert!(!show_to_host(to, WRITE));
        assert!(show_to_host(to + PAGE, 0));
        for page in 0..3 {
            let at = (to + page * PAGE).pointer::<u64>();
            // SAFETY: of ours, and to be read now.
            assert_eq!(unsafe { at.read_volatile() }, 0);
        }
        entry.forget();
        assert!(!show_to_host(to, 0));
    }

    #[test]
    fn the_kernel_knows_what_is_lent_by_its_own_address_and_has_nothing_there_itself() {
        let (from, to) = (reserved(1), reserved(1));
        let entry = Entry::take(0, from, to, PAGE);
        assert_eq!(known(to + 5), from + 5);
        assert_eq!(known(from + 5), Virtual(0));
        assert!(is_elsewhere(from) && !is_elsewhere(to));
        entry.forget();
        assert_eq!((known(to + 5), known(from + 5)), (to + 5, from + 5));
    }
}
