//! Limits that the host's kernel enforces, so that no code here can lift them.
//!
//! Not used, and why: RLIMIT_AS, since a kernel reserves 80 GiB of address space
//! that is no memory; RLIMIT_NPROC, which counts all processes of the user;
//! RLIMIT_FSIZE, since copies may have any size.

use crate::{Error, Jail};
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// In bytes: too small for a dump in a file; and where programs take dumps by a pipe, for
/// which the host's kernel does not ask for the limit, one is what ends it all the same
/// (do_coredump() in fs/coredump.c).
const NO_DUMP: u64 = 1;

/// Sets what is asked for; the timer that must not be touched, if there is one.
pub fn set(jail: &Jail) -> Result<Option<i32>, Error> {
    // A dump would hold keys and the image's data, and is read by other programs.
    no_dump().map_err(|e| Error::Limit("core dumps", e))?;
    if let Some(bytes) = jail.memory {
        limit(libc::RLIMIT_DATA, bytes).map_err(|e| Error::Limit("memory", e))?;
    }
    jail.time
        .map(|time| watchdog(time).map_err(|e| Error::Limit("time", e)))
        .transpose()
}

/// No dump of this process, nor of what it becomes, however the host takes dumps. Where it
/// is so nothing is set, which no filter of this crate would allow: a jail in another one
/// finds it so.
///
/// Whose limit is zero for good has it raised where this process may; else it stays, and a
/// program that takes dumps by a pipe can have that of another program that this one becomes.
pub fn no_dump() -> io::Result<()> {
    let now = get(libc::RLIMIT_CORE)?;
    if (now.rlim_cur, now.rlim_max) == (NO_DUMP, NO_DUMP) {
        return Ok(());
    }
    match set_to(libc::RLIMIT_CORE, NO_DUMP) {
        Err(_) if now.rlim_max < NO_DUMP => Ok(()),
        done => done,
    }
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let now = get(what)?;
    set_to(what, most.min(now.rlim_max))
}

fn get(what: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut now = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: room for the structure, which is one of numbers.
    unsafe {
        match libc::getrlimit(what, now.as_mut_ptr()) {
            0 => Ok(now.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn set_to(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let new = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: a structure of ours.
    match unsafe { libc::setrlimit(what, &raw const new) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A timer of this process that kills it. Made by the system call, since the
/// filter knows timers by the host's numbers.
fn watchdog(time: Duration) -> io::Result<i32> {
    // SAFETY: plain structures of ours.
    unsafe {
        let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut id = 0i32;
        let clock = libc::CLOCK_MONOTONIC;
        let (event, at) = (&raw const event, &raw mut id);
        if libc::syscall(libc::SYS_timer_create, clock, event, at) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut when: libc::itimerspec = MaybeUninit::zeroed().assume_init();
        when.it_value.tv_sec = time.as_secs() as libc::time_t;
        when.it_value.tv_nsec = libc::c_long::from(time.subsec_nanos()).max(1);
        let (when, none) = (&raw const when, std::ptr::null_mut::<libc::itimerspec>());
        match libc::syscall(libc::SYS_timer_settime, id, 0, when, none) {
            0 => Ok(id),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
