//! Time that somebody leads: several kernels on one clock.
//!
//! Time that stands still jumps by itself while a kernel is alone (clock.rs). Kernels that
//! send each other packets must not: the one whose timer is first goes first. So whoever leads
//! them asks each for its next timer, and lets time pass to the earliest one, everywhere.

use crate::call::{Caller, Wait};
use crate::clock;
use crate::cpu::{Cpu, CpuNumber};
use crate::futex;
use crate::inner::Inner;
use crate::kernel::Kernel;
use crate::service;
use crate::thread;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How long to sleep between two looks whether the service thread stands aside.
const NAP: Duration = Duration::from_micros(50);

/// Whether somebody leads, and where the service thread is meanwhile: who leads is to find
/// every interrupt where it was raised, so that thread takes none unless it is summoned.
#[derive(Default)]
pub struct Lead {
    on: AtomicBool,
    /// The service thread has seen it.
    aside: AtomicBool,
    /// A call waits outside, for the service thread to do it.
    summons: AtomicBool,
}

impl Lead {
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// The service thread stands aside until the CPU is roused, if it is to.
    pub fn stand_aside(&self, cpu: Cpu, seen: u32) -> bool {
        if !self.is_on() || self.summons.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.aside.store(true, Ordering::SeqCst);
        futex::wait(cpu.kick_futex(), seen, None);
        true
    }

    /// Have it take what is pending once, if it stands aside.
    pub fn summon(&self) {
        self.summons.store(self.is_on(), Ordering::SeqCst);
    }
}

impl Inner {
    /// Come out of a CPU that this thread keeps, and have all done that is pending.
    fn settle_kept(&self, caller: Caller) {
        let cpu = self.cpu(CpuNumber::FIRST);
        if let Some(slot) = cpu.enter_biased() {
            cpu.unbias(slot);
            cpu.unlock();
        }
        self.settle(caller);
    }

    fn leader_here(self: &Arc<Self>) -> io::Result<Caller> {
        if !self.clock.is_led() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let caller = thread::caller(self, Wait::Inside);
        let caller = caller.map_err(io::Error::from_raw_os_error)?;
        if caller.is_within() {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        Ok(caller)
    }
}

/// Of kernels that are [deterministic](crate::Deterministic).
impl Kernel {
    /// Whether time passes only by [`Kernel::pass_time_to`] from now on. The kernel's own thread
    /// then leaves interrupts to those who call, so that one thread that leads several
    /// kernels fixes the order of everything in them.
    ///
    /// A call that waits for time to pass waits until another thread lets it: who leads makes
    /// calls that do not wait.
    ///
    /// Errors: EINVAL time does not stand still; ENOTSUP the kernel is the parent's of this
    /// process, whose threads it has.
    pub fn lead_time(&self, yes: bool) -> io::Result<()> {
        let kernel = self.inner();
        if kernel.is_foreign() {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
        let lead = kernel.clock.lead();
        let lead = lead.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        lead.aside.store(false, Ordering::SeqCst);
        lead.on.store(yes, Ordering::SeqCst);
        kernel.cpu(CpuNumber::FIRST).rouse();
        while yes && !lead.aside.load(Ordering::SeqCst) && !kernel.is_dead() {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// CLOCK_MONOTONIC, in ns since the kernel was made.
    ///
    /// Errors: EINVAL time does not stand still.
    pub fn time(&self) -> io::Result<u64> {
        let passed = self.inner().clock.passed();
        passed.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// When the kernel next has something to do by itself, as [`Kernel::time`] counts; `None`:
    /// never. It may have come already.
    ///
    /// Errors: EINVAL time is not led.
    pub fn next_timer(&self) -> io::Result<Option<u64>> {
        if !self.inner().clock.is_led() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let cpu = self.inner().cpu(CpuNumber::FIRST);
        let deadline = cpu.deadline().load(Ordering::SeqCst);
        Ok(self.inner().clock.since_start(deadline))
    }

    /// Have it be so late, and all done that is due until then and what that sets going.
    /// Earlier than it is: what is pending is done.
    ///
    /// Errors: EINVAL time is not led, or would be later than Linux can count (73 years);
    /// EDEADLK from within a call; ESHUTDOWN the kernel has ended.
    pub fn pass_time_to(&self, time: u64) -> io::Result<()> {
        let kernel = self.inner();
        if time > clock::LATEST {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let caller = kernel.leader_here()?;
        let cpu = kernel.cpu(CpuNumber::FIRST);
        let until = kernel.clock.deadline_at(time);
        kernel.clock.works();
        while !kernel.is_dead() {
            kernel.settle_kept(caller);
            let deadline = cpu.deadline().load(Ordering::SeqCst);
            kernel.clock.jump_to(deadline.min(until));
            if deadline > until {
                return Ok(());
            }
            service::raise_timer(cpu, deadline);
        }
        Err(io::Error::from_raw_os_error(libc::ESHUTDOWN))
    }
}
