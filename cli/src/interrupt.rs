//! Ctrl-C. The signals are blocked in every thread and taken by one that does
//! nothing else, so no handler ever runs on a stack of the image's kernel.

use crate::args::Options;
use crate::failure::{Failure, Result, INTERRUPTED, OUT_OF_TIME};
use crate::{echo, tell};
use std::io::PipeWriter;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tane::Progress;

/// How long Linux may go round in circles, unless `--hang-limit` says otherwise. A
/// server that is silent is given up sooner.
const HANG: Duration = Duration::from_secs(180);
/// Signals this close together are one.
const TOGETHER: Duration = Duration::from_millis(200);

static STOP: AtomicBool = AtomicBool::new(false);
static ORDERLY: AtomicBool = AtomicBool::new(false);
/// It is a matter of an instant.
static SOON: AtomicBool = AtomicBool::new(false);
/// Interrupts since the command, or line of a session, began.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// `tane sh` runs: an interrupt ends a command of it, not the process.
static SESSION: AtomicBool = AtomicBool::new(false);
static INTERACTIVE: AtomicBool = AtomicBool::new(false);
/// The session is to end too.
static END: AtomicBool = AtomicBool::new(false);
/// An eventfd that is written then.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// True once somebody has asked to stop.
pub fn requested() -> bool {
    STOP.load(Relaxed)
}

/// From now on an interrupt only raises the flag: something is being written,
/// and whoever writes it stops at the next file.
pub fn be_orderly() {
    ORDERLY.store(true, Relaxed);
}

/// The same of what looks at the flag all the time, and writes no image.
pub fn stop_soon() {
    SOON.store(true, Relaxed);
    be_orderly();
}

/// For loops of verbs: an error once somebody has asked to stop.
pub fn check() -> Result<()> {
    match requested() {
        true => Err(Failure::interrupted()),
        false => Ok(()),
    }
}

/// Somebody is asked for something, and whoever asks looks at the flag again and again.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Meanwhile an interrupt is the answer, and stops what the answer is for.
pub fn while_asking<T>(ask: impl FnOnce() -> T) -> T {
    ASKING.store(true, Relaxed);
    let answer = ask();
    ASKING.store(false, Relaxed);
    answer
}

/// From now on an interrupt stops the command at hand only. What ends a session
/// is a hangup, a termination and, unless it is interactive, Ctrl-C as well.
pub fn begin_session(interactive: bool) {
    // SAFETY: no memory involved.
    WAKE.store(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }, Relaxed);
    INTERACTIVE.store(interactive, Relaxed);
    SESSION.store(true, Relaxed);
}

/// What was asked of the line before does not concern the next one.
pub fn begin_line() {
    COUNT.store(0, Relaxed);
    STOP.store(session_is_over(), Relaxed);
}

pub fn session_is_over() -> bool {
    END.load(Relaxed)
}

/// Readable once the session is over; -1 if the host gave none.
pub fn wake_descriptor() -> RawFd {
    WAKE.load(Relaxed)
}

/// Runs `work` with SIGWINCH let in, or kept out: its handler may run on stacks of
/// the host only, so it is blocked but for while a line is edited.
pub fn with_resizes<T>(let_in: bool, work: impl FnOnce() -> T) -> T {
    // SAFETY: sigset_t is plain data; the pointers are to live ones.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        let mut before = set;
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGWINCH);
        let how = if let_in {
            libc::SIG_UNBLOCK
        } else {
            libc::SIG_BLOCK
        };
        libc::pthread_sigmask(how, &set, &mut before);
        let done = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        done
    }
}

/// Ctrl-C is meant for a program that runs in the foreground.
static OTHERS: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt by the terminal is the affair of who uses that.
pub fn belongs_to_others() {
    OTHERS.store(true, Relaxed);
}

/// Where signals are passed on, each as a byte; -1: nowhere.
static PASSED: AtomicI32 = AtomicI32::new(-1);

/// From now on signals are written to this pipe, and the affair of a child that does the
/// work; None: of this process again. Who waits for them here signals nobody: Landlock keeps
/// it from that.
pub fn pass_on(to: Option<&PipeWriter>) {
    PASSED.store(to.map_or(-1, AsRawFd::as_raw_fd), Relaxed);
}

/// In such a child, before it does anything: signals are its own, and so is the watch over
/// its Linux. The limit of time is its parent's, with which it ends.
pub fn begin_in_child(options: &Options) {
    pass_on(None);
    let own = Options {
        time_limit: None,
        ..options.clone()
    };
    install(&own);
}

type Handler = Box<dyn Fn(i32, u32) + Send + Sync>;
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// From now on an interrupt is this function's affair, which is told which signal it is,
/// and how many there have been since the beginning.
pub fn take_over(handler: impl Fn(i32, u32) + Send + Sync + 'static) {
    let _ = HANDLER.set(Box::new(handler));
}

/// Must run before any other thread exists, in this process.
pub fn install(options: &Options) {
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
        if let Some(limit) = options.time_limit {
            libc::sigaddset(&mut set, libc::SIGALRM);
            alarm(limit);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        // Not for the waiter: it is ignored unless somebody edits a line.
        let mut resize = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut resize);
        libc::sigaddset(&mut resize, libc::SIGWINCH);
        libc::pthread_sigmask(libc::SIG_BLOCK, &resize, std::ptr::null_mut());
        set
    };
    let hang = options.hang_limit.unwrap_or(HANG);
    let waiter = move || {
        let mut last: Option<Instant> = None;
        let mut progress = Progress::new();
        loop {
            let Some(signal) = next(&set, hang / 4) else {
                if progress.stuck() >= hang {
                    let text = format!(
                        "stopped: Linux has been at the image for {hang:?} without reading or \
                         writing any of it, so it is damaged or hostile (--hang-limit)"
                    );
                    tell::failure(&Failure::new(OUT_OF_TIME, text));
                    leave(OUT_OF_TIME);
                }
                continue;
            };
            if signal == libc::SIGALRM {
                let text = "stopped: the time limit has passed";
                tell::failure(&Failure::new(OUT_OF_TIME, text));
                leave(OUT_OF_TIME);
            }
            if signal == libc::SIGINT && OTHERS.load(Relaxed) {
                continue;
            }
            // A terminal and a wrapper may both pass the same key on.
            if last
                .replace(Instant::now())
                .is_some_and(|last| last.elapsed() < TOGETHER)
            {
                continue;
            }
            let passed = PASSED.load(Relaxed);
            if passed >= 0 {
                STOP.store(true, Relaxed);
                let byte = signal as u8;
                // SAFETY: a byte of ours. If nobody reads it any more, it is late.
                unsafe { libc::write(passed, (&raw const byte).cast(), 1) };
                continue;
            }
            let count = COUNT.fetch_add(1, Relaxed) + 1;
            if let Some(handler) = HANDLER.get() {
                handler(signal, count);
                continue;
            }
            let session = SESSION.load(Relaxed);
            let orderly = session || ORDERLY.load(Relaxed);
            if session && (signal != libc::SIGINT || !INTERACTIVE.load(Relaxed)) {
                END.store(true, Relaxed);
                let one = 1u64.to_ne_bytes();
                // SAFETY: eight bytes of ours; a descriptor of -1 is an error.
                unsafe { libc::write(WAKE.load(Relaxed), one.as_ptr().cast(), 8) };
            }
            STOP.store(true, Relaxed);
            if !orderly || count == 3 {
                leave(INTERRUPTED);
            }
            if session {
                if count == 2 {
                    tell::note("once more abandons the images as they are");
                }
                continue;
            }
            if ASKING.load(Relaxed) {
                continue;
            }
            tell::note(match SOON.load(Relaxed) {
                true => "stopping (twice more ends it as it is)",
                false => "stopping after this file (twice more abandons the image as it is)",
            });
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    let _ = match options.no_jail {
        true => thread.spawn(waiter),
        false => tane::jail::spawn_fenced(thread, waiter),
    };
}

static LAST: OnceLock<fn()> = OnceLock::new();

/// What is still to be done when the process is ended here.
pub fn set_last(end: fn()) {
    let _ = LAST.set(end);
}

/// Ends the process, and nothing of it but what it did to the terminal.
pub fn leave(code: u8) -> ! {
    echo::restore();
    if let Some(end) = LAST.get() {
        end();
    }
    // SAFETY: _exit is always allowed.
    unsafe { libc::_exit(code.into()) }
}

/// One of these signals; None if there is none for so long, or for some seconds.
fn next(set: &libc::sigset_t, patience: Duration) -> Option<i32> {
    const LONGEST: Duration = Duration::from_secs(5);
    let patience = patience.min(LONGEST);
    let patience = libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: patience.subsec_nanos().into(),
    };
    // SAFETY: the pointers are to live, initialised data, or null.
    let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &patience) };
    (signal > 0).then_some(signal)
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
