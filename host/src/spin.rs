//! How long a thread that waits for its call looks for the result before it
//! sleeps. Sleeping and being woken costs some ten microseconds; an answer that
//! is nearer than that is worth looking for, one that is further is not. What the
//! last waits were like tells which kind this one is: it begins with little, twice
//! as much after each success and half as much after each failure, since on a busy
//! machine the other thread may not even run.

use crate::cpu::Cpu;
use crate::service::now;
use crate::thread_slot::ThreadSlot;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

/// The longest and the shortest time that is worth a try, in ns.
const LONGEST: u32 = 40_000;
const SHORTEST: u32 = 2_000;
/// How long the first try is: a sleeping thread that answers must first wake up.
const FIRST: u32 = 10_000;
/// A sleep as short as this one would have been better spent spinning.
const NEAR: u64 = 60_000;
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;

/// With one processor the answer cannot come while this thread is on it.
fn worth_it() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

/// Find out what is found out once in a process.
pub fn prepare() {
    worth_it();
}

pub struct Spin {
    cpu: Cpu,
    /// Its `spin` is what this thread's experience allows, in ns; 0: sleep at once.
    slot: ThreadSlot,
    allowed: bool,
    looks: u32,
    /// When it began; 0: it does not spin.
    began: u64,
    fell_asleep: u64,
}

impl Spin {
    /// A thread begins to wait for a call on this CPU, until this is dropped.
    pub fn new(slot: ThreadSlot, cpu: Cpu, allowed: bool) -> Self {
        cpu.waiters().fetch_add(1, Ordering::Relaxed);
        Self {
            cpu,
            slot,
            allowed: allowed && worth_it(),
            looks: 0,
            began: 0,
            fell_asleep: 0,
        }
    }

    /// Pause once. False: it is time to sleep.
    pub fn goes_on(&mut self) -> bool {
        let budget = self.slot.spin().load(Ordering::Relaxed);
        if !self.allowed || budget == 0 {
            return false;
        }
        if self.began == 0 {
            self.began = now();
            // In this order: if this process is killed in between, too many kicks come.
            let cpu = self.cpu.number().0 + 1;
            self.slot.spinning().store(cpu, Ordering::SeqCst);
            self.cpu.spinners().fetch_add(1, Ordering::SeqCst);
        }
        std::hint::spin_loop();
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS) || now() - self.began < u64::from(budget) {
            return true;
        }
        let in_vain = if budget / 2 < SHORTEST { 0 } else { budget / 2 };
        self.slot.spin().store(in_vain, Ordering::Relaxed);
        self.allowed = false;
        false
    }

    /// It spins no more. What came up for it to see, somebody else must take.
    pub fn stop(&mut self) {
        if std::mem::take(&mut self.began) != 0 {
            self.cpu.spinners().fetch_sub(1, Ordering::SeqCst);
            self.slot.spinning().store(0, Ordering::SeqCst);
        }
        if self.cpu.pending().load(Ordering::SeqCst) != 0 {
            self.cpu.report();
        }
    }

    /// It is going to sleep.
    pub fn sleeps(&mut self) {
        self.fell_asleep = now();
    }

    /// It is awake again.
    pub fn slept(&mut self) {
        if self.looks == 0 && now() - self.fell_asleep < NEAR {
            self.slot.spin().store(FIRST, Ordering::Relaxed);
        }
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        if self.began != 0 {
            let worth = self.slot.spin().load(Ordering::Relaxed) * 2;
            self.slot
                .spin()
                .store(worth.min(LONGEST), Ordering::Relaxed);
            self.stop();
        }
        self.cpu.waiters().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;
    use std::ptr::NonNull;

    #[test]
    fn a_thread_that_is_not_to_look_sleeps_at_once() {
        // SAFETY: zeroes are a virtual CPU that nobody is in and a slot nobody has.
        let (mut vcpu, mut slot): (abi::Vcpu, abi::Thread) = unsafe { std::mem::zeroed() };
        // SAFETY: they outlive the wait.
        let (cpu, slot) = unsafe {
            let slot = NonNull::from(&mut slot);
            (Cpu::new(&raw mut vcpu), ThreadSlot::new(slot))
        };
        slot.spin().store(LONGEST, Ordering::Relaxed);
        assert!(!Spin::new(slot, cpu, false).goes_on());
        assert_eq!(Spin::new(slot, cpu, true).goes_on(), worth_it());
        assert_eq!(cpu.spinners().load(Ordering::Relaxed), 0);
        assert_eq!(cpu.waiters().load(Ordering::Relaxed), 0);
    }
}
