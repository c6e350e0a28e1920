//! The end of a process that shared the kernel: what it leaves half done outside is put
//! right, and its tasks end. One that was killed inside ends the kernel.

use crate::abi;
use crate::call::{Caller, Wait};
use crate::cpu::Cpu;
use crate::inner::Inner;
use crate::processes::{self, Process};
use crate::service;
use crate::signals;
use crate::thread::Tid;
use crate::thread_slot::ThreadSlot;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Tasks of a process that is gone may be in calls, and look at user memory on their way
/// to the end; the process's is no more. What they find is that of a copy of this process,
/// which is made for it, and goes with all that was written to it.
struct Copy {
    number: u32,
    /// In the host; 0: there is none.
    pid: i32,
}

impl Copy {
    fn make(&mut self, kernel: &Inner) {
        // As fork(2), but nobody is told: neither the handlers of forks, nor who waits for
        // any child of this process.
        // SAFETY: the copy takes no lock and no memory.
        let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
        if pid == 0 {
            kernel.stand_in(self.number);
            // SAFETY: ends the copy.
            unsafe { libc::_exit(0) };
        }
        // If the host has no room for it, later.
        self.pid = pid.max(0);
    }

    /// For its end, as waitpid(2).
    fn wait(&mut self, flags: i32) {
        // SAFETY: a child of this process that nobody else knows of.
        let ended = |pid| unsafe { libc::waitpid(pid, std::ptr::null_mut(), flags | libc::__WALL) };
        if self.pid != 0 && ended(self.pid) != 0 {
            self.pid = 0;
        }
    }
}

/// One for each process that needs it. Several may have ended at once: a CPU that waits for
/// one of them does nothing for the end of another.
#[derive(Default)]
pub struct Copies(Vec<Copy>);

impl Copies {
    /// Make those that are needed.
    fn see_to(&mut self, kernel: &Inner) {
        for copy in &mut self.0 {
            copy.wait(libc::WNOHANG);
        }
        for slot in kernel.area.used_slots().filter(is_wanted) {
            let number = slot.process().load(Ordering::Acquire);
            if kernel.is_dead() || self.pid(number) != 0 || !kernel.is_gone(slot, number) {
                continue;
            }
            for slot in kernel.slots_of(number) {
                slot.gone().store(1, Ordering::SeqCst);
            }
            let at = self.0.iter().position(|copy| copy.number == number);
            let at = at.unwrap_or_else(|| {
                self.0.push(Copy { number, pid: 0 });
                self.0.len() - 1
            });
            self.0[at].make(kernel);
        }
    }

    /// That process's, 0: there is none.
    fn pid(&self, number: u32) -> i32 {
        let mut of = self.0.iter().filter(|copy| copy.number == number);
        of.next().map_or(0, |copy| copy.pid)
    }

    /// Wait for its end.
    fn end(&mut self, number: u32) {
        let its = |copy: &&mut Copy| copy.number == number;
        self.0.iter_mut().filter(its).for_each(|copy| copy.wait(0));
        self.0.retain(|copy| copy.number != number);
    }
}

impl Drop for Copies {
    /// The kernel has ended, and they with it.
    fn drop(&mut self) {
        for copy in self.0.iter_mut().filter(|copy| copy.pid != 0) {
            // SAFETY: a child of this process that nobody has waited for.
            unsafe { libc::kill(copy.pid, libc::SIGKILL) };
            copy.wait(0);
        }
    }
}

fn is_wanted(slot: &ThreadSlot) -> bool {
    slot.state().load(Ordering::Acquire) == abi::THREAD_WANTED
}

fn has_ended(slot: ThreadSlot) -> bool {
    slot.task().load(Ordering::Acquire) == 0
}

/// How often to look whether tasks have ended: at first, and when that takes long.
const SOON: Duration = Duration::from_micros(200);
const LATER: Duration = Duration::from_millis(10);

impl Inner {
    /// A process has ended in the host, with this status of wait(2).
    pub fn reap(&self, number: u32, process: &Process, status: i32, copies: &mut Copies) {
        let slots = || self.slots_of(number);
        for slot in slots() {
            slot.gone().store(1, Ordering::SeqCst);
        }
        if self.was_killed_inside(number, copies) {
            let pid = process.pid.load(Ordering::Relaxed);
            return self.end_lost(&format!(
                "process {pid} was killed inside the kernel, with what it was changing half done"
            ));
        }
        for slot in slots() {
            let spun = slot.spinning().swap(0, Ordering::SeqCst);
            if let Some(cpu) = spun
                .checked_sub(1)
                .and_then(|n| self.cpus().get(n as usize))
            {
                cpu.spinners().fetch_sub(1, Ordering::SeqCst);
                cpu.waiters().fetch_sub(1, Ordering::Relaxed);
            }
        }
        // What it was about to have done, others do.
        for cpu in self.cpus() {
            self.kick_all(cpu.take_kicks());
            if cpu.requests().load(Ordering::SeqCst) != 0 {
                cpu.raise(abi::IRQ_REQUEST);
            }
            if cpu.pending().load(Ordering::SeqCst) != 0 {
                cpu.kick();
            }
        }
        let linked = || {
            let mut requests = self.cpus().iter().map(|cpu| cpu.requests());
            requests.any(|requests| requests.load(Ordering::SeqCst) != 0)
        };
        // A CPU may wait for it, and the request for that CPU.
        self.ask_to_end(number, status, || {
            copies.see_to(self);
            self.look_for_lost();
        });
        let mut looks = 0;
        while !self.is_dead() && (linked() || !slots().all(has_ended)) {
            copies.see_to(self);
            self.look_for_lost();
            looks += 1;
            std::thread::sleep(if looks < 1000 { SOON } else { LATER });
            if copies.pid(number) == 0 && self.was_killed_inside(number, copies) {
                return self.end_lost("who stood in for a process was killed inside the kernel");
            }
        }
        copies.end(number);
        // Processes that it was about to have.
        let shared = &self.area.common().shared;
        for (_, unborn) in shared.in_state(processes::taken_by(number)) {
            unborn.state.store(processes::ENDING, Ordering::Release);
        }
        for slot in slots() {
            slot.process().store(0, Ordering::Release);
            self.area.give_slot(slot);
        }
        process.state.store(processes::FREE, Ordering::Release);
    }

    /// Have Linux end a process, and do this now and then meanwhile.
    fn ask_to_end(&self, number: u32, status: i32, mut meanwhile: impl FnMut()) {
        let Some(member) = &self.member else { return };
        // Who has the leader may wait for a CPU that waits for a process that has ended.
        let _one = loop {
            match member.try_ask() {
                Some(asking) => break asking,
                None if self.is_dead() => return,
                None => {
                    meanwhile();
                    std::thread::sleep(SOON);
                }
            }
        };
        let caller = self.leader(self.tid());
        let args = [number.into(), status as u64, 0, 0, 0, 0];
        let Ok(cpu) = self.post(caller, abi::NR_REAP, &args, Wait::Inside) else {
            return;
        };
        let slot = caller.slot;
        while !self.is_dead() {
            match slot.state().load(Ordering::Acquire) {
                abi::THREAD_DONE => {
                    slot.state().store(abi::THREAD_IDLE, Ordering::Relaxed);
                    return;
                }
                abi::THREAD_WANTED => self.come(caller),
                _ if cpu.pending().load(Ordering::Relaxed) != 0 && cpu.try_lock_online() => {
                    match self.is_dead() {
                        true => cpu.unlock(),
                        false => self.exhaust(cpu, caller.tid),
                    }
                }
                _ => {
                    meanwhile();
                    std::thread::sleep(SOON);
                }
            }
        }
    }

    /// What a copy of this process does.
    fn stand_in(&self, number: u32) {
        self.stand_in_as(number);
        let slots = || self.slots_of(number);
        while !self.is_dead() && !slots().all(has_ended) {
            for slot in slots().filter(is_wanted) {
                let tid = self.tid();
                self.come(Caller::new(slot, tid));
            }
            std::thread::sleep(SOON);
            self.is_orphaned();
        }
    }

    /// The thread of another process that was killed inside: with its process, or because
    /// another thread there has executed a program.
    fn lost(&self) -> Option<Tid> {
        self.cpus().iter().find_map(|cpu| {
            let holder = Tid(cpu.holder().load(Ordering::SeqCst));
            let theirs = holder.process() > processes::FIRST;
            let gone = theirs && {
                let process = self.host_process(holder);
                signals::is_gone(process, holder) || processes::has_ended(process)
            };
            (gone && cpu.holder().load(Ordering::SeqCst) == holder.0).then_some(holder)
        })
    }

    /// End the kernel if there is one.
    pub fn look_for_lost(&self) {
        let Some(holder) = self.lost().filter(|_| !self.is_dead()) else {
            return;
        };
        let process = self.area.common().shared.process(holder.process());
        let pid = process.map_or(0, |process| process.pid.load(Ordering::Relaxed));
        self.end_lost(&format!(
            "a thread of process {pid} was killed inside the kernel, with what it was changing \
             half done"
        ));
    }

    /// The same from inside a CPU, and on a kernel stack: all leave, this thread too.
    pub fn end_if_lost(&self) {
        if !self.is_dead() && self.lost().is_some() {
            self.kernel_died(0, "a process was killed inside the kernel");
            self.stop_all();
            self.bury();
        }
    }

    fn slots_of(&self, number: u32) -> impl Iterator<Item = ThreadSlot> + '_ {
        let all = self.area.used_slots();
        all.filter(move |slot| slot.process().load(Ordering::Acquire) == number)
    }

    /// Whether the process has ended whose slot this is.
    fn is_gone(&self, slot: ThreadSlot, number: u32) -> bool {
        if slot.gone().load(Ordering::SeqCst) != 0 {
            return true;
        }
        let process = self.area.common().shared.process(number);
        number > processes::FIRST
            && process.is_some_and(|process| match process.state.load(Ordering::Acquire) {
                processes::NEW | processes::WATCHED => {
                    processes::has_ended(process.host.load(Ordering::Relaxed))
                }
                state => state == processes::ENDING,
            })
    }

    /// Whether a CPU is held that this process will never leave, nor who stands in for it.
    fn was_killed_inside(&self, number: u32, copies: &Copies) -> bool {
        self.cpus().iter().any(|cpu| {
            let holder = Tid(cpu.holder().load(Ordering::SeqCst));
            let alive = copies.pid(number);
            let its = holder.process() == number && (alive == 0 || holder.thread() != alive);
            its || self.is_held_by_nobody(*cpu)
        })
    }

    /// Between the lock and the word that says whose it is lie some instructions: who is
    /// there for a second was killed there.
    fn is_held_by_nobody(&self, cpu: Cpu) -> bool {
        let held = || {
            let holder = cpu.holder().load(Ordering::SeqCst);
            cpu.lock().load(Ordering::SeqCst) != 0 && holder == 0 && !self.is_dead()
        };
        (0..1000).all(|_| {
            let still = held();
            if still {
                std::thread::sleep(Duration::from_millis(1));
            }
            still
        })
    }

    /// The kernel cannot go on: somebody is inside for good.
    fn end_lost(&self, why: &str) {
        self.kernel_died(0, why);
        self.stop_all();
        self.bury();
        // Those who are inside leave; who is dead has left.
        for cpu in self.cpus() {
            service::release(self, *cpu);
        }
    }
}
