//! Ctrl-C. The signals are blocked in every thread and taken by one that does
//! nothing else, so no handler ever runs on a stack of the image's kernel.

use crate::args::Global;
use crate::failure::{INTERRUPTED, OUT_OF_TIME};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Signals this close together are one.
const TOGETHER: Duration = Duration::from_millis(200);

static STOP: AtomicBool = AtomicBool::new(false);
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// True once somebody has asked to stop.
pub fn requested() -> bool {
    STOP.load(Relaxed)
}

/// From now on an interrupt only raises the flag: something is being written,
/// and whoever writes it stops at the next file.
pub fn be_orderly() {
    ORDERLY.store(true, Relaxed);
}

type Handler = Box<dyn Fn(u32) + Send + Sync>;
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// From now on an interrupt is this function's affair, which is told how many
/// there have been since.
#[cfg(feature = "fuse")]
pub fn take_over(handler: impl Fn(u32) + Send + Sync + 'static) {
    let _ = HANDLER.set(Box::new(handler));
}

/// Must run before any other thread exists.
pub fn install(global: &Global) {
    // SAFETY: sigset_t and sigaction are plain data; the pointers are to live ones.
    let set = unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // What the parent had us ignore (nohup) stays ignored.
            let mut now = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(signal, std::ptr::null(), &mut now);
            if now.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, signal);
            }
        }
        if let Some(limit) = global.time_limit {
            libc::sigaddset(&mut set, libc::SIGALRM);
            alarm(limit);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    let waiter = move || {
        let mut count = 0;
        let mut last: Option<Instant> = None;
        loop {
            let mut signal = 0;
            // SAFETY: both pointers are to live, initialised data.
            if unsafe { libc::sigwait(&set, &mut signal) } != 0 {
                return;
            }
            if signal == libc::SIGALRM {
                eprintln!("tane: stopped: the time limit has passed");
                // SAFETY: _exit is always allowed.
                unsafe { libc::_exit(OUT_OF_TIME.into()) };
            }
            // A terminal and a wrapper may both pass the same key on.
            if last
                .replace(Instant::now())
                .is_some_and(|last| last.elapsed() < TOGETHER)
            {
                continue;
            }
            count += 1;
            if let Some(handler) = HANDLER.get() {
                handler(count);
                continue;
            }
            let orderly = ORDERLY.load(Relaxed);
            STOP.store(true, Relaxed);
            if !orderly || count == 3 {
                // SAFETY: _exit is always allowed.
                unsafe { libc::_exit(INTERRUPTED.into()) };
            }
            eprintln!("tane: stopping after this file (twice more abandons the image as it is)");
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    let _ = match global.no_jail {
        true => thread.spawn(waiter),
        false => tane::jail::spawn_fenced(thread, waiter),
    };
}

/// SIGALRM once, in so long.
fn alarm(limit: Duration) {
    // SAFETY: plain structures, and pointers to live ones.
    unsafe {
        let mut timer = std::mem::zeroed::<libc::itimerval>();
        timer.it_value.tv_sec = limit.as_secs() as libc::time_t;
        timer.it_value.tv_usec = libc::suseconds_t::from(limit.subsec_micros()).max(1);
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
}
