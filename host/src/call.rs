//! A system call: the fast way, when the caller's task is still current on its
//! virtual CPU, and by message, when it is not or when it had to wait.
//! The fastest way is that of a thread which kept the CPU's lock (call_kept.rs).

use crate::abi::{self, EXIT_DEAD, EXIT_RETURNED, EXIT_RUNNABLE, THREAD_WANTED};
use crate::cpu::{self, Cpu, CpuNumber};
use crate::futex;
use crate::inner::Inner;
use crate::spin::Spin;
use crate::thread::{self, Tid};
use crate::thread_slot::{ThreadSlot, UNKNOWN};
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

/// How often a thread goes in once more for others when its own call is done.
pub const FAVOURS: u32 = 4;

/// What a call answers once the kernel is gone.
pub const GONE: i64 = -(libc::ESHUTDOWN as i64);

/// How a thread waits for its request.
#[derive(Clone, Copy, PartialEq)]
pub enum Wait {
    /// It does the work itself when nobody else does.
    Inside,
    /// It only sleeps, and the service thread works: in a signal handler. Inside,
    /// its stack would be the kernel's, so that the next signal would find the
    /// signal stack unused and overwrite what waits there.
    Outside,
}

/// How far the fast way went.
pub enum Begun {
    Done(i64),
    /// The call has switched tasks; this thread holds the CPU's lock, and came out for
    /// that reason.
    Switched(Cpu, u64),
    /// The caller's task is not current.
    Not,
}

/// The identity with which a host thread calls: its slot and its thread id.
#[derive(Clone, Copy)]
pub struct Caller {
    pub slot: ThreadSlot,
    pub tid: Tid,
    /// Its call is counted among those of this moment (moment.rs).
    pub bound: bool,
}

impl Caller {
    pub fn new(slot: ThreadSlot, tid: Tid) -> Self {
        let bound = false;
        Self { slot, tid, bound }
    }

    /// Whether it is inside already: in a signal's handler, or in what the kernel has called.
    /// A thread that keeps a CPU says so in its slot only.
    pub fn is_within(self) -> bool {
        cpu::is_inside() || self.slot.inside().load(Ordering::Relaxed) != 0
    }
}

impl Inner {
    /// What a library's caller gets: negative errno, `-ESHUTDOWN` when the kernel
    /// is gone.
    ///
    /// Little is kept across the gate, since every register that is must be saved
    /// first: afterwards the GS base tells the CPU once more.
    #[inline]
    pub fn call(self: &Arc<Self>, nr: i64, args: [u64; 6]) -> i64 {
        let [a, b, c, d, e, f] = args;
        match self.call_kept(self.kept_bytes, nr, args) {
            Some(answer) => answer,
            None => self.call_unkept(nr, a, b, c, d, e, f),
        }
    }

    /// The same, of a thread that keeps a CPU of a kernel without a checkpoint. None: it is
    /// another, and nothing was done. So the fastest way does not ask for the moment.
    #[inline]
    pub fn call_timeless(self: &Arc<Self>, nr: i64, args: [u64; 6]) -> Option<i64> {
        self.call_kept(self.timeless_bytes.load(Ordering::Relaxed), nr, args)
    }

    /// Its arguments are words, so that the way that does not come here has them in
    /// registers only.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "as many as a system call has")]
    fn call_unkept(
        self: &Arc<Self>,
        nr: i64,
        a: u64,
        b: u64,
        c: u64,
        d: u64,
        e: u64,
        f: u64,
    ) -> i64 {
        let args = &[a, b, c, d, e, f];
        match thread::caller(self, Wait::Inside) {
            Ok(caller) => {
                let ret = self.call_as(caller, nr, args);
                self.settle(caller);
                ret
            }
            Err(errno) => -i64::from(errno),
        }
    }

    /// While time stands still, all that a call has set going is done before it
    /// returns: beside the program it would go on for as long as the host pleases
    /// until the next call comes between.
    pub fn settle(&self, caller: Caller) {
        if !self.clock.is_still() || caller.is_within() {
            return;
        }
        let cpu = self.cpu(CpuNumber::FIRST);
        while !self.is_dead() {
            if !cpu.try_lock() {
                // The service thread is at it.
                std::thread::yield_now();
                continue;
            }
            if cpu.pending().load(Ordering::SeqCst) == 0 {
                return cpu.unlock();
            }
            self.exhaust(cpu, caller.tid);
        }
    }

    /// Run a CPU whose lock this thread holds until nothing wants it any more.
    pub fn exhaust(&self, cpu: Cpu, tid: Tid) {
        self.occupy(cpu, tid);
        loop {
            let reason = (self.gate.enter)(cpu.ptr()).reason;
            if reason != EXIT_RUNNABLE {
                return self.leave(cpu, reason);
            }
        }
    }

    /// Have an interrupt of this CPU taken, for whose effect this thread is about to
    /// wait: by itself if nobody is inside, since the service thread would have to
    /// wake up first, and then wake this one.
    pub fn see_to(self: &Arc<Self>, cpu: Cpu) {
        let caller = thread::caller(self, Wait::Inside).ok();
        let Some(caller) = caller.filter(|_| !cpu::is_inside()) else {
            return cpu.kick();
        };
        if let Some(slot) = cpu.enter_biased() {
            cpu.unbias(slot);
        } else if !cpu.try_lock_online() {
            return cpu.kick();
        }
        if self.is_dead() {
            return cpu.unlock();
        }
        self.exhaust(cpu, caller.tid);
        self.do_errands(cpu, caller.tid);
        self.settle(caller);
    }

    pub fn call_as(&self, caller: Caller, nr: i64, args: &[u64; 6]) -> i64 {
        match self.begin(caller, nr, args) {
            Begun::Done(answer) => answer,
            Begun::Switched(cpu, reason) => self.finish(caller, cpu, reason),
            Begun::Not => self.request(caller, nr, args, Wait::Inside),
        }
    }

    /// The fast way, as far as it goes.
    #[inline]
    pub fn begin(&self, caller: Caller, nr: i64, args: &[u64; 6]) -> Begun {
        let slot = caller.slot;
        if self.member.is_some() && slot.process().load(Ordering::Relaxed) != self.process() {
            // A parent's, that its fork has a copy of.
            return Begun::Done(-i64::from(libc::ENOTSUP));
        }
        let cpu = self.cpu(CpuNumber(slot.vcpu().load(Ordering::Relaxed)));
        if cpu.try_lock() {
            if cpu.current_task().load(Ordering::Relaxed) == slot.task().load(Ordering::Relaxed) {
                self.occupy(cpu, caller.tid);
                let exit = self.gate.call(nr, *args);
                if exit.reason == EXIT_RETURNED {
                    cpu.release(slot);
                    self.do_errands(cpu, caller.tid);
                    return Begun::Done(exit.ret);
                }
                return Begun::Switched(cpu, exit.reason);
            }
            cpu.unlock();
        }
        Begun::Not
    }

    /// Go in with the lock of a CPU.
    #[inline]
    pub fn occupy(&self, cpu: Cpu, tid: Tid) {
        if self.member.is_some() {
            self.look_at_windows();
        }
        cpu.occupy(tid);
    }

    /// By message: put the request into the slot and see that it gets done.
    #[cold]
    pub fn request(&self, caller: Caller, nr: i64, args: &[u64; 6], how: Wait) -> i64 {
        match self.post(caller, nr, args, how) {
            Ok(cpu) => self.wait(caller, cpu, how),
            Err(answer) => answer,
        }
    }

    /// Put the request into the slot, for the CPU that it says. An error is the answer.
    #[inline]
    pub fn post(&self, caller: Caller, nr: i64, args: &[u64; 6], how: Wait) -> Result<Cpu, i64> {
        let slot = caller.slot;
        if self.is_dead() {
            return Err(GONE);
        }
        // Before the slot is touched: a call that is under way uses what is in it.
        if caller.is_within() {
            return Err(-i64::from(libc::EDEADLK));
        }
        loop {
            if !caller.bound {
                self.door.pass();
            }
            // SAFETY: the slot is idle, so it is the caller's to write.
            unsafe { slot.ask(nr, args) };
            slot.state().store(abi::THREAD_LINKED, Ordering::SeqCst);
            let task = slot.task().load(Ordering::SeqCst);
            let may = caller.bound || !self.door.is_closed();
            if may && ![0, UNKNOWN].contains(&task) {
                break;
            }
            slot.state().store(abi::THREAD_IDLE, Ordering::SeqCst);
            match task {
                // Since it was looked at above: no task is left of a kernel that has ended.
                0 if self.is_dead() => return Err(GONE),
                // It has ended, by exit(2), or its process has.
                0 => return Err(-i64::from(libc::ESRCH)),
                UNKNOWN => self.attach_again(caller, how)?,
                _ => {}
            }
        }
        // Only when the kernel has taken the slot off its list may anyone serve
        // the request: a slot that is done must not be linked any more.
        let mut cpu = self.cpu(CpuNumber(slot.vcpu().load(Ordering::Relaxed)));
        let requests = cpu.requests();
        let mut head = requests.load(Ordering::Relaxed);
        loop {
            slot.next().store(head, Ordering::Relaxed);
            match requests.compare_exchange_weak(
                head,
                slot.address(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        // The first CPU never goes, and takes the requests of those that went.
        if !cpu.is_online() {
            cpu = self.cpu(CpuNumber::FIRST);
        }
        cpu.raise(abi::IRQ_REQUEST);
        if how == Wait::Outside {
            if let Some(slot) = cpu.enter_biased() {
                cpu.unbias(slot);
                cpu.unlock();
            }
            if let Some(lead) = self.clock.lead() {
                lead.summon();
            }
            cpu.rouse();
        }
        Ok(cpu)
    }

    /// The call has switched tasks, so this thread came out of the kernel for
    /// another reason; it still holds the lock.
    #[cold]
    pub fn finish(&self, caller: Caller, cpu: Cpu, reason: u64) -> i64 {
        // With the lock, so that who has all of them knows of it: the slot does not tell.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.run(cpu, caller, reason);
        let answer = self.wait(caller, cpu, Wait::Inside);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    /// Go on inside while others want to run and our result is not there; a bit
    /// longer if those are likely to be other waiting threads' tasks, to save the
    /// service thread from being woken for them.
    pub fn run(&self, cpu: Cpu, caller: Caller, mut reason: u64) {
        let slot = caller.slot;
        let mut favours = FAVOURS;
        while reason == EXIT_RUNNABLE {
            let state = slot.state().load(Ordering::Acquire);
            if state == THREAD_WANTED {
                break;
            }
            if state == abi::THREAD_DONE {
                if favours == 0 || cpu.waiters().load(Ordering::Relaxed) < 2 {
                    break;
                }
                favours -= 1;
            }
            reason = (self.gate.enter)(cpu.ptr()).reason;
        }
        self.leave(cpu, reason);
        self.do_errands(cpu, caller.tid);
    }

    /// Unlock after the kernel has left with this reason.
    pub fn leave(&self, cpu: Cpu, reason: u64) {
        let guests = self.carriers.has_ready();
        if reason == EXIT_DEAD {
            self.bury();
        }
        if reason == EXIT_RUNNABLE {
            cpu.raise(abi::IRQ_RESCHEDULE);
        }
        cpu.unlock();
        if guests {
            self.see_to_guests();
        }
    }

    /// Until the result is in the slot: enter when the CPU is free, since then
    /// nobody else does our work, spin while the result may be near, and sleep.
    fn wait(&self, caller: Caller, cpu: Cpu, how: Wait) -> i64 {
        let slot = caller.slot;
        let mut spin = Spin::new(slot, cpu, self.spin && how == Wait::Inside);
        let mut slept = false;
        loop {
            let state = slot.state().load(Ordering::Acquire);
            if state == abi::THREAD_DONE {
                slot.state().store(abi::THREAD_IDLE, Ordering::Relaxed);
                // SAFETY: the kernel is done with the slot.
                return unsafe { slot.answer() };
            }
            if self.is_dead() || self.is_orphaned_after(slept) {
                return GONE;
            }
            if state == THREAD_WANTED {
                self.come(caller);
                continue;
            }
            if how == Wait::Inside
                && cpu.pending().load(Ordering::Relaxed) != 0
                && cpu.try_lock_online()
            {
                if self.is_dead() {
                    cpu.unlock();
                    continue;
                }
                self.occupy(cpu, caller.tid);
                let reason = (self.gate.enter)(cpu.ptr()).reason;
                self.run(cpu, caller, reason);
                continue;
            }
            if spin.goes_on() {
                continue;
            }
            spin.stop();
            slot.sleeping().store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            spin.sleeps();
            if slot.state().load(Ordering::Acquire) == state && !self.is_dead() {
                futex::wait(slot.state(), state, self.nap());
            }
            slot.sleeping().store(0, Ordering::Relaxed);
            spin.slept();
            slept = true;
        }
    }

    fn is_orphaned_after(&self, slept: bool) -> bool {
        slept && self.member.is_some() && self.is_orphaned()
    }

    /// This thread's task goes on in this process only, and waits at its CPU for that.
    #[cold]
    pub fn come(&self, caller: Caller) {
        /// Who is there has switched to the task, or come in for an interrupt, and
        /// leaves: on another processor at once, on this one when it has it.
        const AT_ONCE: u32 = 500;
        const SOON: u32 = 600;
        let slot = caller.slot;
        let cpu = self.cpu(CpuNumber(slot.vcpu().load(Ordering::Relaxed)));
        for tries in 0.. {
            if slot.state().load(Ordering::Acquire) != THREAD_WANTED || self.is_dead() {
                return;
            }
            if cpu.try_lock() {
                break;
            }
            match tries {
                0..AT_ONCE => std::hint::spin_loop(),
                AT_ONCE..SOON => std::thread::yield_now(),
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
            if tries % 10_000 == 10_000 - 1 {
                self.is_orphaned();
            }
        }
        if self.is_dead() {
            return cpu.unlock();
        }
        self.occupy(cpu, caller.tid);
        let reason = (self.gate.enter)(cpu.ptr()).reason;
        self.run(cpu, caller, reason);
    }
}
