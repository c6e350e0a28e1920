//! How one process waits for the other: it looks for some microseconds, then sleeps
//! on a futex.
//!
//! Sleeping and being woken costs some ten microseconds on either side. Whoever is
//! about to sleep says so first, and looks once more; whoever changes the state looks
//! for sleepers after it. Flags that a hostile worker sets wrong cost it an answer,
//! and its caller nothing but a look at the worker's health in good time.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest and shortest time to look, in ns.
const LONGEST: u32 = 200_000;
const SHORTEST: u32 = 1_000;
/// A sleep as short as this, in ns, would have been better spent looking: on virtual
/// machines the two wake-ups of a round trip alone take 100 µs.
const NEAR: u128 = 250_000;
/// Looks between two readings of the clock.
const LOOKS: u32 = 32;

/// With one processor the other side cannot run while this one looks.
fn worth_it() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

/// How long looking has been worth it lately: more after each success and each sleep
/// that was short, half as much after each failure.
///
/// A wait that was long says that the other side works on something large, or that
/// the processors are busy with others. Then looking takes from the other side what it
/// needs to answer: the next waits go without.
pub struct Patience {
    allowed: AtomicU32,
    without: AtomicU32,
}

/// What is a long wait, in ns.
const LONG: u128 = 1_000_000;
/// How many waits go without looking after one.
const WITHOUT: u32 = 200;

impl Patience {
    pub const fn new() -> Self {
        Patience {
            allowed: AtomicU32::new(LONGEST),
            without: AtomicU32::new(0),
        }
    }

    fn more(&self, than: u32) {
        self.allowed.store((than * 2).min(LONGEST), SeqCst);
    }

    /// A wait took so long, in ns.
    fn waited(&self, long: u128) {
        match long {
            LONG.. => self.without.store(WITHOUT, SeqCst),
            0..NEAR => self.more(self.allowed.load(SeqCst)),
            _ => {}
        }
    }

    /// Look until this is so; false: not soon.
    fn look(&self, done: impl Fn() -> bool) -> bool {
        if done() {
            return true;
        }
        let without = self.without.load(SeqCst);
        if without > 0 || !worth_it() {
            self.without.store(without.saturating_sub(1), SeqCst);
            return false;
        }
        let allowed = self.allowed.load(SeqCst);
        let limit = Duration::from_nanos(u64::from(allowed));
        let began = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if done() {
                    self.more(allowed);
                    return true;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() >= limit {
                self.allowed.store((allowed / 2).max(SHORTEST), SeqCst);
                return false;
            }
        }
    }
}

/// Wait until `state` is `wanted`; after each `rest` of sleep `give_up` is asked, and
/// false says that it gave up.
pub fn until(
    state: &AtomicU32,
    wanted: u32,
    sleeps: &AtomicU32,
    patience: &Patience,
    rest: Option<Duration>,
    mut give_up: impl FnMut() -> bool,
) -> bool {
    if patience.look(|| state.load(SeqCst) == wanted) {
        return true;
    }
    let began = Instant::now();
    loop {
        sleeps.store(1, SeqCst);
        let now = state.load(SeqCst);
        if now != wanted {
            sleep(state, now, rest);
        }
        sleeps.store(0, SeqCst);
        if state.load(SeqCst) == wanted {
            patience.waited(began.elapsed().as_nanos());
            return true;
        }
        if give_up() {
            // It may have answered, and then ended.
            return state.load(SeqCst) == wanted;
        }
    }
}

/// Change the state, and wake the other side if it sleeps.
pub fn set(state: &AtomicU32, value: u32, sleeps: &AtomicU32) {
    state.store(value, SeqCst);
    if sleeps.load(SeqCst) != 0 {
        // SAFETY: wakes who waits at this word, and touches nothing.
        unsafe { libc::syscall(libc::SYS_futex, state.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

fn sleep(word: &AtomicU32, value: u32, rest: Option<Duration>) {
    let time = rest.map(|rest| libc::timespec {
        tv_sec: rest.as_secs() as i64,
        tv_nsec: i64::from(rest.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // Not FUTEX_PRIVATE_FLAG: two processes.
    let wait = libc::FUTEX_WAIT;
    // SAFETY: a live word and time.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, value, time) };
}
