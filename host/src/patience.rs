//! How long an interrupt may stay unseen before its CPU gets a signal, and then one
//! more. Signals queue up while a thread is stopped or has no processor: each that has
//! not arrived when the next is due doubles the time. One that has arrived was all that
//! was needed, however soon it is needed again.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);

pub struct Patience {
    time: Duration,
    arrived: u32,
}

impl Patience {
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
        let mut patience = Patience::new();
        let mut before = patience.time();
        for _ in 0..20 {
            patience.sent(0);
            assert!(patience.time() == LONGEST || patience.time() == before * 2);
            before = patience.time();
        }
        assert_eq!(before, LONGEST);
    }

    #[test]
    fn signals_that_arrive_are_sent_as_soon_as_ever() {
        let mut patience = Patience::new();
        for _ in 0..5 {
            patience.sent(0);
        }
        for arrived in 1..20 {
            patience.sent(arrived);
            assert_eq!(patience.time(), SHORTEST);
        }
    }
}
