//! What a thread that is inside one virtual CPU does for others when it is out.
//!
//! A kick wakes the other CPU's service thread, which runs the task that was meant,
//! which wakes the thread that waits for it. If a thread waits there, the one that
//! kicks is nearer: it goes in itself, and one of two wake-ups is saved. It must
//! not put that off for long, so the kernel asks for it (`yield`) when it waits
//! for something itself, and at each tick.

use crate::abi::EXIT_RUNNABLE;
use crate::call::FAVOURS;
use crate::cpu::{Cpu, CpuNumber};
use crate::inner::Inner;
use crate::thread::Tid;
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    static ALLOWED: Cell<bool> = const { Cell::new(true) };
}

/// A service thread stays with its own CPU: inside another it could wait for what
/// only its own one can do.
pub fn none_for_this_thread() {
    ALLOWED.with(|allowed| allowed.set(false));
}

impl Inner {
    /// The CPU that this thread is inside of.
    fn here(&self) -> Option<Cpu> {
        // SAFETY: it is inside of one.
        let here = unsafe { Cpu::here() };
        self.cpus().iter().find(|cpu| cpu.ptr() == here).copied()
    }

    /// Called inside a CPU to kick another one: whether this thread will look
    /// after it when it is out.
    pub fn put_off(&self, target: CpuNumber) -> bool {
        let Some(here) = self.here() else {
            return false;
        };
        let waited_for = self.cpu(target).waiters().load(Ordering::Relaxed) != 0;
        let allowed = ALLOWED.with(Cell::get);
        if here.number() == target || target.0 >= u32::BITS || !waited_for || !allowed {
            return false;
        }
        // Others only ever take bits away: at worst one comes back.
        let kicks = &here.kicks();
        let more = kicks.load(Ordering::Relaxed) | 1 << target.0;
        kicks.store(more, Ordering::Relaxed);
        true
    }

    /// Called inside a CPU: who is there sees to ready guests when it is out, and does
    /// not go by the shortest way (run_carriers.rs).
    pub fn put_off_guests(&self) {
        if let Some(here) = self.here() {
            let more = here.kicks().load(Ordering::Relaxed) | 1 << here.number().0;
            here.kicks().store(more, Ordering::Relaxed);
        }
    }

    /// Called inside a CPU that will not be left soon: kick those that were put off.
    pub fn do_kicks(&self) {
        if let Some(here) = self.here() {
            self.kick_all(here.take_kicks());
        }
    }

    pub fn kick_all(&self, mut kicks: u32) {
        while kicks != 0 {
            self.cpu(CpuNumber(kicks.trailing_zeros())).kick();
            kicks &= kicks - 1;
        }
    }

    /// Outside of `cpu`, as an ordinary thread of the program.
    #[inline]
    pub fn do_errands(&self, cpu: Cpu, tid: Tid) {
        if cpu.kicks().load(Ordering::Relaxed) != 0 {
            self.look_after(cpu.take_kicks(), tid);
        }
    }

    #[cold]
    fn look_after(&self, mut kicks: u32, tid: Tid) {
        while kicks != 0 {
            let cpu = self.cpu(CpuNumber(kicks.trailing_zeros()));
            kicks &= kicks - 1;
            if cpu.pending().load(Ordering::SeqCst) == 0 {
                continue;
            }
            if self.is_dead() || !cpu.try_lock_online() {
                cpu.kick();
                continue;
            }
            self.occupy(cpu, tid);
            let mut reason = (self.gate.enter)(cpu.ptr()).reason;
            for _ in 0..FAVOURS {
                if reason != EXIT_RUNNABLE {
                    break;
                }
                reason = (self.gate.enter)(cpu.ptr()).reason;
            }
            self.leave(cpu, reason);
            // Errands of errands are the service threads'.
            self.kick_all(cpu.take_kicks());
        }
        self.see_to_guests();
    }
}

impl Cpu {
    pub fn take_kicks(self) -> u32 {
        self.kicks().swap(0, Ordering::Relaxed)
    }
}
