//! What time it is for the kernel, and what chance gives it: the host's clocks
//! and entropy, or a clock that stands still and numbers from a seed, so that
//! the kernel does the same in every run.

use crate::cpu::CpuNumber;
use crate::inner::Inner;
use crate::lead::Lead;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

/// The same run each time. One CPU only: several are not in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deterministic {
    /// What CLOCK_REALTIME says, in ns since 1970. Time does not pass, except when
    /// a call can do nothing but wait for a timer: it then jumps to that timer.
    pub realtime: u64,
    /// Takes the place of the host's entropy. No secret, so no key drawn by such
    /// a kernel is one.
    pub seed: u64,
}

/// CLOCK_MONOTONIC of a kernel whose time stands still: so late that none of its
/// deadlines is ever due by the host's clock. 146 years are half of what fits.
const START: u64 = 1 << 62;
/// Ns since then to which somebody may have it pass, and the ns since 1970 at which it may
/// begin (the year 2116): the sums are times that Linux can tell, of 63 bits.
pub const LATEST: u64 = 1 << 61;
pub const LATEST_START: u64 = 1 << 62;
/// Who asks that often for the time, and does nothing else with the host, waits
/// for it to pass (udelay() does). Each further look then takes so many ns.
const LOOKS: u32 = 1 << 17;
const LOOK: u64 = 100;

pub enum Clock {
    Host,
    Still {
        monotonic: AtomicU64,
        realtime: u64,
        random: AtomicU64,
        /// How often somebody asked since the kernel last did something.
        looks: AtomicU32,
        /// It passes when somebody says so, and not by itself.
        lead: Lead,
    },
}

impl Clock {
    pub fn new(how: Option<Deterministic>) -> Self {
        match how {
            None => Self::Host,
            Some(how) => Self::Still {
                monotonic: AtomicU64::new(START),
                realtime: how.realtime,
                random: AtomicU64::new(how.seed),
                looks: AtomicU32::new(0),
                lead: Lead::default(),
            },
        }
    }

    pub fn monotonic(&self) -> u64 {
        match self {
            Self::Host => read(libc::CLOCK_MONOTONIC),
            Self::Still {
                monotonic, looks, ..
            } => {
                if looks.fetch_add(1, Ordering::Relaxed) >= LOOKS {
                    looks.store(LOOKS, Ordering::Relaxed);
                    monotonic.fetch_add(LOOK, Ordering::SeqCst);
                }
                monotonic.load(Ordering::SeqCst)
            }
        }
    }

    /// The kernel works with the host: it does not just wait for time to pass.
    pub fn works(&self) {
        if let Self::Still { looks, .. } = self {
            looks.store(0, Ordering::Relaxed);
        }
    }

    /// CLOCK_MONOTONIC, for the host's own use.
    pub fn time(&self) -> u64 {
        match self {
            Self::Host => read(libc::CLOCK_MONOTONIC),
            Self::Still { monotonic, .. } => monotonic.load(Ordering::SeqCst),
        }
    }

    pub fn realtime(&self) -> u64 {
        match self {
            Self::Host => read(libc::CLOCK_REALTIME),
            Self::Still {
                monotonic,
                realtime,
                ..
            } => realtime + (monotonic.load(Ordering::SeqCst) - START),
        }
    }

    /// Fills the buffer; whether that was possible.
    pub fn random(&self, buf: &mut [u8]) -> bool {
        match self {
            Self::Host => {
                // SAFETY: writes into a buffer of ours.
                let got = unsafe { libc::getrandom(buf.as_mut_ptr().cast(), buf.len(), 0) };
                got == buf.len() as isize
            }
            Self::Still { random, .. } => {
                for word in buf.chunks_mut(8) {
                    let bytes = split_mix(random).to_le_bytes();
                    word.copy_from_slice(&bytes[..word.len()]);
                }
                true
            }
        }
    }

    /// What there is to go back to: time that stands still, and what comes of the seed.
    pub fn reading(&self) -> Option<[u64; 2]> {
        match self {
            Self::Host => None,
            Self::Still {
                monotonic, random, ..
            } => Some([monotonic, random].map(|word| word.load(Ordering::SeqCst))),
        }
    }

    /// The same as it was at that reading. The host's time goes on.
    pub fn set(&self, reading: Option<[u64; 2]>) {
        if let (
            Self::Still {
                monotonic,
                random,
                looks,
                ..
            },
            Some([time, state]),
        ) = (self, reading)
        {
            monotonic.store(time, Ordering::SeqCst);
            random.store(state, Ordering::SeqCst);
            looks.store(0, Ordering::Relaxed);
        }
    }

    pub fn is_still(&self) -> bool {
        matches!(self, Self::Still { .. })
    }

    /// Of time that stands still.
    pub fn lead(&self) -> Option<&Lead> {
        match self {
            Self::Host => None,
            Self::Still { lead, .. } => Some(lead),
        }
    }

    pub fn is_led(&self) -> bool {
        self.lead().is_some_and(Lead::is_on)
    }

    /// How long time that stands still has passed by now, in ns.
    pub fn passed(&self) -> Option<u64> {
        self.is_still().then(|| self.time() - START)
    }

    /// A deadline as [`Self::passed`] counts; `None`: it never comes.
    pub fn since_start(&self, deadline: u64) -> Option<u64> {
        (deadline != u64::MAX).then(|| deadline.saturating_sub(START))
    }

    /// The reverse.
    pub fn deadline_at(&self, time: u64) -> u64 {
        START.saturating_add(time)
    }

    pub fn jump_to(&self, deadline: u64) {
        if let Self::Still { monotonic, .. } = self {
            monotonic.fetch_max(deadline, Ordering::SeqCst);
        }
    }
}

fn read(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes a structure of ours; the vDSO needs little stack.
    unsafe { libc::clock_gettime(id, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn split_mix(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut z = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Inner {
    /// Lets time that stands still jump to the next timer, if that is all that the
    /// kernel's callers wait for. While a device is at work it is not.
    pub fn pass_time(&self) {
        let cpu = self.cpu(CpuNumber::FIRST);
        if self.clock.is_led() || !self.area.has_sleepers() || !cpu.try_lock() {
            return;
        }
        let deadline = cpu.deadline().load(Ordering::SeqCst);
        let quiet = !self.devices_are_busy();
        fence(Ordering::SeqCst);
        if quiet && cpu.pending().load(Ordering::SeqCst) == 0 && deadline != u64::MAX {
            self.clock.jump_to(deadline);
        }
        cpu.unlock();
    }
}
