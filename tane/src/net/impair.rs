//! A network that is worse than it is: tc-netem(8), on what an interface sends.

use super::link::Link;
use super::netlink::{attribute, Message, Netlink};
use crate::error::{Error, Result};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TC_H_ROOT: u32 = 0xffff_ffff;
const HANDLE: u32 = 0x1_0000;
const TCA_NETEM_CORRUPT: u16 = 4;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TCA_NETEM_PRNG_SEED: u16 = 14;
/// As tc(8) has it.
const LIMIT: u32 = 1000;

/// What becomes of the packets that an interface sends ([`Link::impair`]): a slow, long or
/// lossy way. As a text it is `delay=100ms,jitter=5ms,loss=1%,duplicate=0.1%,corrupt=0.1%,
/// rate=2mbit,limit=500,seed=7`, of which any part may be left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairment {
    /// How much later each arrives.
    pub delay: Duration,
    /// By how much that varies, to either side; packets may overtake each other.
    pub jitter: Duration,
    /// Which part is lost, from 0 to 1.
    pub loss: f64,
    /// Which part comes twice.
    pub duplicate: f64,
    /// Of which part one bit is wrong.
    pub corrupt: f64,
    /// Bytes a second, at most; `None`: any number.
    pub rate: Option<u64>,
    /// Packets that wait at a time, at most; others are lost.
    pub limit: u32,
    /// What chance begins with; `None`: another number each time.
    pub seed: Option<u64>,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            rate: None,
            limit: LIMIT,
            seed: None,
        }
    }
}

/// A text that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoImpairment(String);

impl fmt::Display for NoImpairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} impairs nothing: write delay=100ms, jitter=5ms, loss=1%, duplicate=1%, \
             corrupt=1%, rate=2mbit, limit=1000 and seed=7, or some of them, with commas between",
            self.0
        )
    }
}

impl std::error::Error for NoImpairment {}

impl FromStr for Impairment {
    type Err = NoImpairment;

    fn from_str(text: &str) -> std::result::Result<Self, NoImpairment> {
        let mut all = Self::default();
        let parts = text.split(',').map(|part| part.split_once('='));
        for part in parts {
            let set = part.and_then(|(name, value)| {
                match name.trim() {
                    "delay" => all.delay = time(value)?,
                    "jitter" => all.jitter = time(value)?,
                    "loss" => all.loss = portion(value)?,
                    "duplicate" => all.duplicate = portion(value)?,
                    "corrupt" => all.corrupt = portion(value)?,
                    "rate" => all.rate = Some(rate(value)?),
                    "limit" => all.limit = value.parse().ok().filter(|limit| *limit > 0)?,
                    "seed" => all.seed = Some(value.parse().ok()?),
                    _ => return None,
                }
                Some(())
            });
            set.ok_or_else(|| NoImpairment(text.into()))?;
        }
        Ok(all)
    }
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text.strip_suffix(unit.0)?.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit.1)
}

fn time(text: &str) -> Option<Duration> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    Duration::try_from_secs_f64(scaled(text, &units)?).ok()
}

fn portion(text: &str) -> Option<f64> {
    let portion = scaled(text, &[("%", 0.01)])?;
    (portion <= 1.0).then_some(portion)
}

/// Bits a second, as tc(8) has it; here bytes.
fn rate(text: &str) -> Option<u64> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let bytes = scaled(text, &units)? / 8.0;
    (bytes >= 1.0).then_some(bytes as u64)
}

/// Of 2^32, of which there is one less.
fn chance(portion: f64) -> u32 {
    (portion.clamp(0.0, 1.0) * f64::from(u32::MAX)).round() as u32
}

impl Impairment {
    /// `struct tc_netem_qopt`, and what it has no place for.
    fn options(&self) -> Vec<u8> {
        let head = [
            0,
            self.limit,
            chance(self.loss),
            0,
            chance(self.duplicate),
            0,
        ];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let nanoseconds =
            |time: Duration| (time.as_nanos().min(i64::MAX as u128) as i64).to_ne_bytes();
        bytes.extend(attribute(TCA_NETEM_LATENCY64, &nanoseconds(self.delay)));
        bytes.extend(attribute(TCA_NETEM_JITTER64, &nanoseconds(self.jitter)));
        // Said even if there is none: netem keeps what it had of what it is not told.
        let corrupt = [chance(self.corrupt).to_ne_bytes(), [0; 4]];
        bytes.extend(attribute(TCA_NETEM_CORRUPT, &corrupt.concat()));
        let rate = self.rate.unwrap_or(0);
        // `struct tc_netem_rate`; what has no room there is in one of its own.
        let small = u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes();
        bytes.extend(attribute(
            TCA_NETEM_RATE,
            &[small, [0; 4], [0; 4], [0; 4]].concat(),
        ));
        if rate > u64::from(u32::MAX) {
            bytes.extend(attribute(TCA_NETEM_RATE64, &rate.to_ne_bytes()));
        }
        if let Some(seed) = self.seed {
            bytes.extend(attribute(TCA_NETEM_PRNG_SEED, &seed.to_ne_bytes()));
        }
        bytes
    }
}

impl Link {
    /// Have what the interface sends from now on be late, lost, cut to a rate and so on; what
    /// another call said before is forgotten. For both ways of a wire, say it at both ends.
    ///
    /// Errors: ENOENT the image has no netem (`default` has).
    pub fn impair(&self, how: &Impairment) -> Result<()> {
        let mut message = self.discipline(RTM_NEWQDISC, Message::REPLACE);
        message.attribute(TCA_KIND, b"netem\0");
        message.attribute(TCA_OPTIONS, &how.options());
        self.tell_of(message, "impair")
    }

    /// Send packets as they are again.
    pub fn unimpair(&self) -> Result<()> {
        self.tell_of(self.discipline(RTM_DELQDISC, 0), "no longer impair")
    }

    /// `struct tcmsg`
    fn discipline(&self, kind: u16, flags: u16) -> Message {
        let mut head = [0; 20];
        head[4..8].copy_from_slice(&self.index().to_ne_bytes());
        head[8..12].copy_from_slice(&HANDLE.to_ne_bytes());
        head[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
        Message::new(kind, flags, &head)
    }

    fn tell_of(&self, message: Message, action: &'static str) -> Result<()> {
        let told = Netlink::open(self.kernel()).and_then(|netlink| netlink.tell(message));
        told.map_err(|errno| Error::new(errno, action).with_path(Path::new(self.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impairments_are_read_as_they_are_written() {
        let text = "delay=100ms,jitter=1.5ms,loss=1%,duplicate=50%,corrupt=100%,rate=8kbit,\
                    limit=5,seed=7";
        let expected = Impairment {
            delay: Duration::from_millis(100),
            jitter: Duration::from_micros(1500),
            loss: 0.01,
            duplicate: 0.5,
            corrupt: 1.0,
            rate: Some(1000),
            limit: 5,
            seed: Some(7),
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(
            "rate=40gbit".parse::<Impairment>().unwrap().rate,
            Some(5_000_000_000)
        );
        for wrong in [
            "",
            "delay",
            "delay=1",
            "delay=-1ms",
            "delay=infs",
            "loss=101%",
            "loss=0.5",
            "rate=1",
            "rate=0bit",
            "limit=0",
            "what=1%",
            "delay=1ms,",
            "seed=x",
        ] {
            assert!(wrong.parse::<Impairment>().is_err(), "{wrong}");
        }
        assert_eq!((chance(0.0), chance(1.0)), (0, u32::MAX));
    }
}
