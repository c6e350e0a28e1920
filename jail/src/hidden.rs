//! Descriptors that no child of this process has a copy of: what ends when one is closed would
//! live as long as the child. exec(2) closes them as well; fork(2) alone does not.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::Once;

/// As many at once: three of each child that is tied to this process, five of a worker whose
/// image is on a server.
const MOST: usize = 4096;

static HIDDEN: Table<MOST> = Table::new();
/// How many forks this process is away from the first one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A descriptor that no child has a copy of. In a child this is nothing, and closes nothing.
pub struct Hidden {
    fd: ManuallyDrop<OwnedFd>,
    place: usize,
    /// The process that has it.
    of: u32,
}

impl Hidden {
    /// Errors: `QuotaExceeded` if there are 4,096; the descriptor is closed then.
    pub fn new(fd: OwnedFd) -> io::Result<Hidden> {
        static ONCE: Once = Once::new();
        // SAFETY: a handler that stays.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let place = HIDDEN.put(fd.as_raw_fd()).ok_or_else(|| {
            let text = format!(
                "this process has {MOST} descriptors already by which its children end with \
                 it: wait until some have ended"
            );
            io::Error::new(io::ErrorKind::QuotaExceeded, text)
        })?;
        Ok(Hidden {
            fd: ManuallyDrop::new(fd),
            place,
            of: FORKS.load(SeqCst),
        })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A child has none, and perhaps something else under that number.
        if self.of == FORKS.load(SeqCst) {
            HIDDEN.places[self.place].store(NONE, SeqCst);
            // SAFETY: it is dropped here, and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// In the child, where nothing may be called that takes a lock.
extern "C" fn in_child() {
    FORKS.fetch_add(1, SeqCst);
    HIDDEN.take_all(|fd| {
        // SAFETY: nobody uses it: who owns it knows that it is not this process's.
        unsafe { libc::close(fd) };
    });
}

const NONE: i32 = -1;

struct Table<const N: usize> {
    places: [AtomicI32; N],
    /// Behind the last place that was ever used: a child looks no further.
    used: AtomicUsize,
}

impl<const N: usize> Table<N> {
    const fn new() -> Self {
        Table {
            places: [const { AtomicI32::new(NONE) }; N],
            used: AtomicUsize::new(0),
        }
    }

    /// Its place; None if all are taken.
    fn put(&self, fd: i32) -> Option<usize> {
        self.places.iter().enumerate().find_map(|(place, value)| {
            if value.load(SeqCst) != NONE {
                return None;
            }
            // Before it is there, for another thread's child.
            self.used.fetch_max(place + 1, SeqCst);
            let put = value.compare_exchange(NONE, fd, SeqCst, SeqCst);
            put.is_ok().then_some(place)
        })
    }

    fn take_all(&self, mut take: impl FnMut(i32)) {
        for value in &self.places[..self.used.load(SeqCst)] {
            let fd = value.load(SeqCst);
            if fd != NONE {
                value.store(NONE, SeqCst);
                take(fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_full_takes_no_more_until_a_place_is_free() {
        let table = Table::<2>::new();
        assert_eq!([7, 8, 9].map(|fd| table.put(fd)), [Some(0), Some(1), None]);
        table.places[0].store(NONE, SeqCst);
        assert_eq!(table.put(9), Some(0));
    }

    #[test]
    fn a_child_closes_what_is_there_and_begins_with_nothing() {
        let table = Table::<9>::new();
        for fd in [3, 4, 5] {
            table.put(fd).expect("room");
        }
        table.places[1].store(NONE, SeqCst);
        let mut taken = Vec::new();
        table.take_all(|fd| taken.push(fd));
        table.take_all(|fd| taken.push(fd));
        assert_eq!(taken, [3, 5]);
        assert_eq!(table.put(6), Some(0));
    }
}
