//! Time of kernels that one thread leads.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Machine;
use std::io;
use std::time::Duration;

/// Of kernels that are [deterministic](crate::Builder::deterministic): their time passes only
/// when it is told to, so that several are on one clock. Let it pass to the earliest of their
/// [next timers](Kernel::next_timer), in all of them, and again: the crate `tane-netlab` does
/// that.
impl Kernel {
    /// Whether time passes only by [`Kernel::pass_time_to`] from now on, instead of jumping when
    /// a call waits.
    ///
    /// A call that waits for time to pass waits until another thread lets it; who leads
    /// makes calls that do not wait. The order of things is fixed if one thread makes all calls.
    ///
    /// Errors: EINVAL the kernel is not deterministic.
    pub fn lead_time(&self, yes: bool) -> Result<()> {
        self.led("lead the time of a kernel", |machine| {
            machine.lead_time(yes)
        })
    }

    /// How long it has run by its own clock, CLOCK_MONOTONIC, which no jump leaves out.
    ///
    /// Errors: EINVAL the kernel is not deterministic.
    pub fn time(&self) -> Result<Duration> {
        let time = self.led("read the time of a kernel", tane_host::Kernel::time);
        time.map(Duration::from_nanos)
    }

    /// When the kernel next has something to do by itself, as [`Kernel::time`] counts; `None`:
    /// never. It may have come already.
    ///
    /// Errors: EINVAL its time is not [led](Kernel::lead_time).
    pub fn next_timer(&self) -> Result<Option<Duration>> {
        let time = self.led(
            "ask a kernel for its next timer",
            tane_host::Kernel::next_timer,
        );
        time.map(|time| time.map(Duration::from_nanos))
    }

    /// Have it be so late, by [`Kernel::time`]; when this returns, all is done that was due until
    /// then, and what that and earlier calls and packets have set going. Time never goes back.
    ///
    /// Errors: EINVAL its time is not [led](Kernel::lead_time); ESHUTDOWN it has ended.
    pub fn pass_time_to(&self, time: Duration) -> Result<()> {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.led("let time pass in a kernel", |machine| {
            machine.pass_time_to(time)
        })
    }

    fn led<T>(
        &self,
        action: &'static str,
        ask: impl FnOnce(&tane_host::Kernel) -> io::Result<T>,
    ) -> Result<T> {
        let Machine::Tane(machine) = self.machine() else {
            return Err(Error::new(libc::EINVAL, action));
        };
        ask(machine).map_err(|e| Error::new(e.raw_os_error().unwrap_or(libc::EIO), action))
    }
}
