//! Points in time as file systems store them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time in UTC. Ordered; may lie before 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00:00, rounded down.
    pub seconds: i64,
    /// 0 to 999,999,999, counted forwards from `seconds`.
    pub nanoseconds: u32,
}

impl From<Timestamp> for SystemTime {
    /// Times out of its range become the epoch.
    fn from(time: Timestamp) -> Self {
        let nanos = Duration::from_nanos(u64::from(time.nanoseconds));
        let seconds = Duration::from_secs(time.seconds.unsigned_abs());
        let whole = match time.seconds {
            0.. => UNIX_EPOCH.checked_add(seconds),
            _ => UNIX_EPOCH.checked_sub(seconds),
        };
        whole
            .and_then(|whole| whole.checked_add(nanos))
            .unwrap_or(UNIX_EPOCH)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp {
                seconds: after.as_secs() as i64,
                nanoseconds: after.subsec_nanos(),
            },
            Err(error) => {
                let before = error.duration();
                let (seconds, nanoseconds) = match before.subsec_nanos() {
                    0 => (-(before.as_secs() as i64), 0),
                    n => (-(before.as_secs() as i64) - 1, 1_000_000_000 - n),
                };
                Timestamp {
                    seconds,
                    nanoseconds,
                }
            }
        }
    }
}

/// What to do with one of a file's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    #[default]
    Keep,
    /// Set it to the kernel's clock.
    Now,
    /// To this.
    To(Timestamp),
}

impl From<Timestamp> for SetTime {
    fn from(time: Timestamp) -> Self {
        SetTime::To(time)
    }
}

impl From<SystemTime> for SetTime {
    fn from(time: SystemTime) -> Self {
        SetTime::To(time.into())
    }
}

/// New times of a file; utimensat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTimes {
    /// When it was last read.
    pub accessed: SetTime,
    /// When its content last changed.
    pub modified: SetTime,
}

impl SetTimes {
    pub(crate) fn to_timespecs(self) -> [libc::timespec; 2] {
        [self.accessed, self.modified].map(|time| {
            let (tv_sec, tv_nsec) = match time {
                SetTime::Keep => (0, libc::UTIME_OMIT),
                SetTime::Now => (0, libc::UTIME_NOW),
                SetTime::To(time) => (time.seconds, i64::from(time.nanoseconds)),
            };
            libc::timespec { tv_sec, tv_nsec }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive_conversion() {
        for (seconds, nanoseconds) in [(0, 0), (1, 2), (-1, 999_999_999), (-5, 0), (1 << 33, 7)] {
            let time = Timestamp {
                seconds,
                nanoseconds,
            };
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }
}
