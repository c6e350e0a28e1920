//! What a process does because others share its kernel: it copies itself there before it
//! forks, looks at what others have changed, and finds out whether the first one is alive.

use crate::abi;
use crate::call::{Caller, Wait};
use crate::futex;
use crate::inner::Inner;
use crate::processes::{
    has_ended, Member, Shared, APPEARING, ENDING, FIRST, FREE, NEW, PREPARED, STATUS,
};
use crate::service::now;
use crate::thread::{self, Tid};
use crate::thread_slot::ThreadSlot;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A process that Linux has and the host is about to have.
pub struct Copy {
    number: u32,
    leader: ThreadSlot,
    pub pid: i32,
    how: Wait,
}

/// How long a thread sleeps before it looks whether the process that booted still is.
const LOOK: Duration = Duration::from_secs(1);

impl Inner {
    fn shared(&self) -> &Shared {
        &self.area.common().shared
    }

    /// The number of this process, 0 in a kernel that is not shared.
    pub fn process(&self) -> u32 {
        self.member.as_ref().map_or(0, Member::number)
    }

    /// Whether this is the process that booted, which has the devices.
    pub fn is_first(&self) -> bool {
        self.process() <= FIRST
    }

    /// This thread, as it is known to the kernel's other processes.
    pub fn tid(&self) -> Tid {
        // SAFETY: no arguments.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        Tid(u64::from(self.process()) << 32 | u64::from(tid))
    }

    /// The host's id of the process that this thread is of; 0: it has gone.
    pub fn host_process(&self, tid: Tid) -> u32 {
        match tid.process() {
            0 => std::process::id(),
            number => {
                let process = self.shared().process(number);
                process.map_or(0, |process| {
                    match process.stand_in.load(Ordering::Relaxed) {
                        0 => process.host.load(Ordering::Relaxed),
                        copy => copy,
                    }
                })
            }
        }
    }

    /// Whether this thread's process was another one, and has ended.
    pub fn is_ended(&self, tid: Tid) -> bool {
        if tid.process() == 0 || tid.process() == self.process() {
            return false;
        }
        has_ended(self.host_process(tid))
    }

    /// Take away from this process's view of the kernel's mappings what another one has
    /// had taken away. With a CPU held, before going in.
    #[cold]
    pub fn look_at_windows(&self) {
        let Some(member) = &self.member else { return };
        let now = self.shared().generation.load(Ordering::SeqCst);
        if member.seen.load(Ordering::SeqCst) == now {
            return;
        }
        if let Err(error) = self.memory.hide_vmalloc() {
            self.kernel_died(0, &format!("the host takes no mapping away: {error}"));
            self.stop_all();
        }
        // Not before it is so: this process may have threads in other CPUs.
        member.seen.store(now, Ordering::SeqCst);
    }

    /// Something is about to be taken away from the kernel's mappings, here: others look.
    pub fn windows_change(&self) {
        let Some(member) = &self.member else { return };
        let before = self.shared().generation.fetch_add(1, Ordering::SeqCst);
        let (ours, order) = (&member.seen, Ordering::SeqCst);
        ours.compare_exchange(before, before + 1, order, order).ok();
    }

    /// How long a thread may sleep before it looks at [`Self::is_orphaned`].
    pub fn nap(&self) -> Option<Duration> {
        (!self.is_first()).then_some(LOOK)
    }

    /// Whether the process that booted has ended: nobody takes interrupts any more. The
    /// kernel has then ended too.
    pub fn is_orphaned(&self) -> bool {
        if self.is_first() || self.is_dead() || self.shared().is_first_alive() {
            return false;
        }
        self.kernel_died(0, "the process that booted it has ended");
        self.stop_all();
        self.bury();
        true
    }

    /// Before the host's fork(2): the same in Linux. An error is an errno.
    pub fn prepare_fork(&self) -> Result<Copy, i32> {
        let member = self.member.as_ref().ok_or(libc::ENOTSUP)?;
        let how = match thread::is_on_signal_stack() {
            false => Wait::Inside,
            // A service thread does it. No other process has one, and its own thread would
            // have to go in.
            true if self.is_first() => Wait::Outside,
            true => return Err(libc::EDEADLK),
        };
        let shared = self.shared();
        let number = shared.take_process(member.number()).ok_or(libc::EAGAIN)?;
        let state = &shared.processes[number as usize].state;
        let Some(leader) = self.area.take_slot(number) else {
            state.store(FREE, Ordering::Release);
            return Err(libc::EAGAIN);
        };
        let args = [leader.address(), number.into()];
        let pid = self.init_request(self.tid(), abi::NR_FORK, args, how);
        if pid < 0 {
            self.area.give_slot(leader);
            state.store(FREE, Ordering::Release);
            return Err(-pid as i32);
        }
        let pid = pid as i32;
        let process = &shared.processes[number as usize];
        process.pid.store(pid, Ordering::Relaxed);
        state.store(PREPARED, Ordering::Release);
        Ok(Copy {
            number,
            leader,
            pid,
            how,
        })
    }

    /// In the parent, after it. `failed`: the host has refused.
    pub fn after_fork(&self, copy: &Copy, failed: bool) {
        let shared = self.shared();
        let state = &shared.processes[copy.number as usize].state;
        if failed {
            return self.undo_fork(copy);
        }
        // Else the child says so itself, unless it is killed before.
        if state.load(Ordering::Acquire) != NEW {
            shared.ring();
        }
    }

    /// There is no child: nobody is to find that there would have been one.
    fn undo_fork(&self, copy: &Copy) {
        let state = &self.shared().processes[copy.number as usize].state;
        let (relaxed, order) = (Ordering::Relaxed, Ordering::AcqRel);
        let ours = state.compare_exchange(PREPARED, APPEARING, order, relaxed);
        if ours.is_err() {
            return;
        }
        let ask = |nr, second| {
            let args = [copy.pid as u64, second];
            self.init_request(self.tid(), nr, args, copy.how)
        };
        ask(libc::SYS_kill, libc::SIGKILL as u64);
        if ask(libc::SYS_wait4, 0) == i64::from(copy.pid) {
            copy.leader.process().store(0, Ordering::Release);
            self.area.give_slot(copy.leader);
            state.store(FREE, Ordering::Release);
        }
    }

    /// In the child.
    pub fn become_copy(&self, copy: &Copy, forks: u64) {
        let Some(member) = &self.member else { return };
        member.number.store(copy.number, Ordering::Relaxed);
        let leader = copy.leader.address();
        member.leader.store(leader, Ordering::Relaxed);
        // Another thread of the parent's may have been at it.
        member.asking.store(0, Ordering::Relaxed);
        member.seen.store(u64::MAX, Ordering::Relaxed);
        let shared = self.shared();
        let process = &shared.processes[copy.number as usize];
        let turns = |from, to| {
            let (relaxed, order) = (Ordering::Relaxed, Ordering::AcqRel);
            let done = process.state.compare_exchange(from, to, order, relaxed);
            done.is_ok()
        };
        // Else it took so long that it has been taken for dead.
        if !turns(PREPARED, APPEARING) {
            return;
        }
        // SAFETY: no arguments.
        if unsafe { libc::getppid() } == 0 {
            // In a pid namespace of its own: its id says nothing to the others.
            turns(APPEARING, ENDING);
            return shared.ring();
        }
        process.host.store(std::process::id(), Ordering::Relaxed);
        if !turns(APPEARING, NEW) {
            return;
        }
        self.forks.store(forks, Ordering::Relaxed);
        shared.ring();
        // How it ends is known for certain only to who watched it before.
        let until = now() + LOOK.as_nanos() as u64;
        while process.state.load(Ordering::Acquire) == NEW && !self.is_dead() && now() < until {
            futex::wait(&process.state, NEW, Some(LOOK));
        }
    }

    /// Called at times by who waits inside for something that may never come.
    pub fn long_wait(&self) {
        const OFTEN: u32 = 4096;
        static WAITS: AtomicU32 = AtomicU32::new(0);
        if self.member.is_some() && WAITS.fetch_add(1, Ordering::Relaxed).is_multiple_of(OFTEN) {
            match self.is_first() {
                true => self.end_if_lost(),
                false => drop(self.is_orphaned()),
            }
        }
    }

    /// This process is a copy of the first one, and does what another one no longer can.
    pub fn stand_in_as(&self, number: u32) {
        let Some(member) = &self.member else { return };
        crate::cpu::set_gs(0);
        self.log.mute();
        member.number.store(number, Ordering::Relaxed);
        member.seen.store(u64::MAX, Ordering::Relaxed);
        let process = &self.shared().processes[number as usize];
        process
            .stand_in
            .store(std::process::id(), Ordering::Relaxed);
    }

    /// A doorbell that only the process that booted can answer.
    pub fn ring_first(&self, slot: usize, queue: u32) {
        let shared = self.shared();
        let (rung, answered) = (&shared.rung[slot], &shared.answered[slot]);
        if queue != abi::NOTIFY_STATUS {
            rung.fetch_or(1 << (queue & 31), Ordering::SeqCst);
            return shared.ring();
        }
        let before = answered.load(Ordering::SeqCst);
        rung.fetch_or(STATUS, Ordering::SeqCst);
        shared.ring();
        while answered.load(Ordering::SeqCst) == before && !self.is_dead() {
            futex::wait(answered, before, Some(LOOK));
            self.is_orphaned();
        }
    }

    /// The caller that has this process's leader ask.
    pub fn leader(&self, tid: Tid) -> Caller {
        let slot = match &self.member {
            None => self.area.init_thread(),
            Some(member) => member.leader(),
        };
        Caller::new(slot, tid)
    }
}
