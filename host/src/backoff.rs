//! How long an interrupt may stay unseen before its CPU gets a signal, and then one
//! more. Signals queue up while a thread is stopped or has no processor: each that has
//! not arrived when the next is due doubles the time. One that has arrived was all that
//! was needed, however soon it is needed again.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);

pub struct Backoff {
    time: Duration,
    arrived: u32,
}

impl Backoff {
    pub const fn new() -> Self {
        Self {
            time: SHORTEST,
            arrived: 0,
        }
    }

    pub fn time(&self) -> Duration {
        self.time
    }

    /// A signal is sent, when so many have arrived since whenever.
    pub fn sent(&mut self, arrived: u32) {
        self.time = match arrived == self.arrived {
            true => (self.time * 2).min(LONGEST),
            false => SHORTEST,
        };
        self.arrived = arrived;
    }

    /// Nothing is waited for any more.
    pub fn renew(&mut self) {
        self.time = SHORTEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_do_not_arrive_become_fewer() {
        let mut backoff = Backoff::new();
        let mut before = backoff.time();
        for _ in 0..20 {
            backoff.sent(0);
            assert!(backoff.time() == LONGEST || backoff.time() == before * 2);
            before = backoff.time();
        }
        assert_eq!(before, LONGEST);
    }

    #[test]
    fn signals_that_arrive_are_sent_as_soon_as_ever() {
        let mut backoff = Backoff::new();
        for _ in 0..5 {
            backoff.sent(0);
        }
        for arrived in 1..20 {
            backoff.sent(arrived);
            assert_eq!(backoff.time(), SHORTEST);
        }
    }
}
