//! The fastest way of a system call: that of a thread which kept its CPU's lock (bias.rs).

use crate::abi::{self, EXIT_RETURNED};
use crate::bias;
use crate::call::Wait;
use crate::cpu::{rdgsbase, Cpu};
use crate::inner::Inner;
use crate::thread;
use crate::thread_slot::ThreadSlot;
use std::sync::Arc;

impl Inner {
    /// `bytes` of its CPUs can be kept. None: this thread keeps none, and nothing was done.
    #[inline]
    pub fn call_kept(self: &Arc<Self>, bytes: u64, nr: i64, args: [u64; 6]) -> Option<i64> {
        let slot = self.cpu_of_this_thread(bytes).and_then(Cpu::enter_biased)?;
        Some(self.call_from_inside(slot, nr, args))
    }

    /// The same of one that is on its CPU already.
    #[inline]
    fn call_from_inside(self: &Arc<Self>, slot: ThreadSlot, nr: i64, args: [u64; 6]) -> i64 {
        let exit = self.gate.call(nr, args);
        if exit.reason == EXIT_RETURNED && bias::leave(slot) {
            return exit.ret;
        }
        self.call_disturbed(slot, exit)
    }

    /// The same, in this moment only. None as [`Self::call_timeless`]; `Some(None)`: the moment
    /// is over. It does not end while a thread is on the CPU that it keeps.
    #[inline]
    pub fn call_kept_within(
        self: &Arc<Self>,
        moment: u64,
        nr: i64,
        args: &[u64; 6],
    ) -> Option<Option<i64>> {
        let bytes = self.kept_bytes;
        let slot = self.cpu_of_this_thread(bytes).and_then(Cpu::enter_biased)?;
        if self.moments.now() == moment {
            return Some(Some(self.call_from_inside(slot, nr, *args)));
        }
        if !bias::leave(slot) {
            self.leave_disturbed();
        }
        Some(None)
    }

    /// The CPU that this thread was last inside of, if it is one of this kernel's
    /// and may be kept. `bytes` of them can be kept.
    #[inline]
    fn cpu_of_this_thread(&self, bytes: u64) -> Option<Cpu> {
        // Where nothing can be kept the instruction may not exist either.
        if bytes == 0 {
            return None;
        }
        let gs = rdgsbase();
        // SAFETY: that of one of this kernel's CPUs, as nothing else has a GS base in
        // this range.
        (gs.wrapping_sub(self.first_base) < bytes).then(|| unsafe { Cpu::at_base(gs) })
    }

    /// The end of a call on a kept CPU that somebody else wants, or that switched
    /// tasks and did not come out by itself.
    #[cold]
    fn call_disturbed(self: &Arc<Self>, slot: ThreadSlot, exit: abi::Exit) -> i64 {
        if exit.reason == EXIT_RETURNED {
            self.leave_disturbed();
            return exit.ret;
        }
        // SAFETY: this thread was just inside of it.
        let cpu = unsafe { Cpu::at_base(rdgsbase()) };
        cpu.unbias(slot);
        match thread::caller(self, Wait::Inside) {
            Ok(caller) => {
                let ret = self.finish(caller, cpu, exit.reason);
                self.settle(caller);
                ret
            }
            // It keeps a CPU, so it has made calls.
            Err(_) => unreachable!("a thread without a slot was inside"),
        }
    }

    /// This thread is outside of the CPU that it kept, and somebody wants that.
    #[cold]
    fn leave_disturbed(self: &Arc<Self>) {
        // SAFETY: this thread was just inside of it.
        let cpu = unsafe { Cpu::at_base(rdgsbase()) };
        cpu.leave_disturbed();
        if let Ok(caller) = thread::caller(self, Wait::Inside) {
            self.do_errands(cpu, caller.tid);
            self.settle(caller);
        }
    }
}
