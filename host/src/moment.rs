//! Moments: a new one begins with each checkpoint, and each time that the kernel goes back.
//! What a call's arguments mean may be true in one of them only (a descriptor's number is
//! another file's, or nobody's, in the next), so a call can be bound to one: it is done in
//! it, or not at all.

use crate::call::{Caller, Wait};
use crate::inner::Inner;
use crate::thread;
use crate::thread_slot::UNKNOWN;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

#[derive(Default)]
pub struct Moments {
    now: AtomicU64,
    /// Calls that are bound to this one, and are not over. As with the door, who counts
    /// itself looks at the door then, and who closes the door looks at the count.
    bound: AtomicU32,
}

impl Moments {
    /// How many have ended: 0 as long as there was no checkpoint.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    pub fn has_bound(&self) -> bool {
        self.bound.load(Ordering::SeqCst) != 0
    }
}

/// One of those that are counted.
struct Bound<'k>(&'k Moments);

impl<'k> Bound<'k> {
    fn new(moments: &'k Moments) -> Self {
        moments.bound.fetch_add(1, Ordering::SeqCst);
        Self(moments)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.0.bound.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inner {
    /// Another moment begins. The kernel is quiet.
    pub fn next_moment(&self) {
        // First: who has seen the moment does not call as if there were none.
        self.timeless_bytes.store(0, Ordering::SeqCst);
        self.moments.now.fetch_add(1, Ordering::SeqCst);
    }

    /// A call in this moment; none if it is over.
    #[inline]
    pub fn call_within(self: &Arc<Self>, moment: u64, nr: i64, args: &[u64; 6]) -> Option<i64> {
        match self.call_kept_within(moment, nr, args) {
            Some(answer) => answer,
            None => self.call_unkept_within(moment, nr, args),
        }
    }

    #[inline(never)]
    fn call_unkept_within(self: &Arc<Self>, moment: u64, nr: i64, args: &[u64; 6]) -> Option<i64> {
        let caller = match thread::caller(self, Wait::Inside) {
            Ok(caller) => caller,
            Err(errno) => return Some(-i64::from(errno)),
        };
        // It is refused, or a handler's, that the door is not closed before.
        if caller.is_within() {
            return Some(self.call_as(caller, nr, args));
        }
        loop {
            self.door.pass();
            if let Err(errno) = self.attach_where_undone(caller) {
                return Some(errno);
            }
            let bound = Bound::new(&self.moments);
            if self.door.is_closed() {
                continue;
            }
            if self.moments.now() != moment {
                return None;
            }
            // It does not wait at the door: whoever closed it waits for this one.
            let answer = self.call_as(
                Caller {
                    bound: true,
                    ..caller
                },
                nr,
                args,
            );
            drop(bound);
            self.settle(caller);
            return Some(answer);
        }
    }

    /// The kernel went back to before this thread had a task.
    fn attach_where_undone(&self, caller: Caller) -> Result<(), i64> {
        match caller.slot.task().load(Ordering::SeqCst) {
            UNKNOWN => self.attach_again(caller, Wait::Inside),
            _ => Ok(()),
        }
    }
}
