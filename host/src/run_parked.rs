//! What `sleeping` of a guest's slot says, while the guest is parked: that nobody waits for
//! its answer, and whoever brings it lists the guest.
//!
//! An answer is two steps, `state` and then the look at who sleeps, and the host may hold up
//! who is between them for as long as it likes. The guest can have seen its answer by then, and
//! be parked for the next one. So each parking has a number, and is over only if the answer
//! is seen to be there after the number was.

use crate::abi;
use crate::thread_slot::ThreadSlot;
use std::sync::atomic::{fence, AtomicU32, Ordering};

/// Beside 0, awake, and 1, a host thread of its own waits at its state.
const PARKED: u32 = 2;
/// Its answer is there, and it is in the list.
const READY: u32 = 3;
const KIND: u32 = 3;
const NUMBER_SHIFT: u32 = 2;

/// Those of a kernel.
#[derive(Default)]
pub struct Parkings(AtomicU32);

/// One of them.
#[derive(Clone, Copy)]
pub struct Parking(u32);

impl Parkings {
    /// The guest's answer is whoever's who brings it, from now on.
    pub fn park(&self, slot: ThreadSlot) -> Parking {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let parking = Parking(number << NUMBER_SHIFT | PARKED);
        slot.sleeping().store(parking.0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        parking
    }
}

impl Parking {
    /// By who parked it: it is awake again, unless somebody has listed it.
    pub fn take_back(self, slot: ThreadSlot) -> bool {
        change(slot, self.0, 0)
    }
}

fn change(slot: ThreadSlot, from: u32, to: u32) -> bool {
    slot.sleeping()
        .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

/// By who has brought an answer: whether the guest is parked, and is to be listed.
pub fn is_to_be_listed(slot: ThreadSlot) -> bool {
    let now = slot.sleeping().load(Ordering::SeqCst);
    now & KIND == PARKED
        && slot.state().load(Ordering::SeqCst) == abi::THREAD_DONE
        && change(slot, now, READY)
}

/// Nobody will bring answers any more: whether it was parked, and is the caller's now.
pub fn unpark(slot: ThreadSlot) -> bool {
    let now = slot.sleeping().load(Ordering::SeqCst);
    now & KIND == PARKED && change(slot, now, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    fn with_slot(test: impl FnOnce(ThreadSlot)) {
        // SAFETY: numbers, all of which may be zero.
        let mut thread: abi::Thread = unsafe { std::mem::zeroed() };
        // SAFETY: it lives until the test is over.
        test(unsafe { ThreadSlot::new(NonNull::from(&mut thread)) });
    }

    #[test]
    fn a_parked_guest_is_listed_once_when_its_answer_is_there() {
        with_slot(|slot| {
            let parking = Parkings::default().park(slot);
            slot.state().store(abi::THREAD_DONE, Ordering::SeqCst);
            assert!(is_to_be_listed(slot));
            assert!(!is_to_be_listed(slot));
            assert!(!parking.take_back(slot));
            assert!(!unpark(slot));
        });
    }

    #[test]
    fn an_answer_that_is_told_late_lists_nobody_who_waits_for_the_next() {
        with_slot(|slot| {
            let parkings = Parkings::default();
            slot.state().store(abi::THREAD_DONE, Ordering::SeqCst);
            assert!(parkings.park(slot).take_back(slot));
            slot.state().store(abi::THREAD_LINKED, Ordering::SeqCst);
            let next = parkings.park(slot);
            assert!(!is_to_be_listed(slot));
            slot.state().store(abi::THREAD_POSTED, Ordering::SeqCst);
            assert!(!is_to_be_listed(slot));
            assert!(next.take_back(slot));
        });
    }

    #[test]
    fn who_took_a_parking_back_does_not_take_the_next_one() {
        with_slot(|slot| {
            let parkings = Parkings::default();
            let first = parkings.park(slot);
            assert!(first.take_back(slot));
            let next = parkings.park(slot);
            assert!(!first.take_back(slot));
            assert!(unpark(slot) && !next.take_back(slot));
        });
    }
}
