//! What `tane find` asks of files: numbers, sizes, ages and modes, as GNU find has them.

use crate::verbs::chmod;
use std::str::FromStr;
use tane_linux::Time;

/// More than (+N), less than (-N) or exactly N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    More,
    Less,
    Exactly,
}

impl Order {
    fn split(text: &str) -> (Order, &str) {
        match text.as_bytes() {
            [b'+', ..] => (Order::More, &text[1..]),
            [b'-', ..] => (Order::Less, &text[1..]),
            _ => (Order::Exactly, text),
        }
    }

    fn holds(self, found: u64, wanted: u64) -> bool {
        match self {
            Order::More => found > wanted,
            Order::Less => found < wanted,
            Order::Exactly => found == wanted,
        }
    }
}

/// Of links, owners and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(Order, u64);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (order, digits) = Order::split(text);
        let number = digits.parse().ok().filter(|_| is_digits(digits));
        let number = number.ok_or("write a number, +NUMBER or -NUMBER")?;
        Ok(Number(order, number))
    }
}

impl Number {
    pub fn holds(self, found: u64) -> bool {
        self.0.holds(found, self.1)
    }
}

/// A length, in units that are counted up to the next whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    number: Number,
    unit: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((i, 'c')) => (&text[..i], 1),
            Some((i, 'w')) => (&text[..i], 2),
            Some((i, 'b')) => (&text[..i], 512),
            Some((i, 'k' | 'K')) => (&text[..i], 1 << 10),
            Some((i, 'M')) => (&text[..i], 1 << 20),
            Some((i, 'G')) => (&text[..i], 1 << 30),
            Some((i, 'T')) => (&text[..i], 1 << 40),
            _ => (text, 512),
        };
        let wrong = |_| "write a number and c (bytes), w, b (512 bytes), k, M, G or T".to_owned();
        let number = digits.parse().map_err(wrong)?;
        Ok(Size { number, unit })
    }
}

impl Size {
    pub fn holds(self, size: u64) -> bool {
        self.number.holds(size.div_ceil(self.unit))
    }
}

/// How long ago something was, in days or minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Age(Order, f64);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (order, digits) = Order::split(text);
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        let number = digits.parse().ok().filter(|_| digits.chars().all(plain));
        let number = number.ok_or("write a number, +NUMBER or -NUMBER")?;
        Ok(Age(order, number))
    }
}

impl Age {
    const DAY: f64 = 86400.0;
    const MINUTE: f64 = 60.0;

    /// Days are counted as far as they are over: -mtime 0 is within the last one.
    pub fn holds_in_days(self, then: Time, now: Time) -> bool {
        let (age, n) = (seconds(then, now), self.1 * Self::DAY);
        match self.0 {
            Order::More => age >= n + Self::DAY,
            Order::Less => age < n,
            Order::Exactly => (n..n + Self::DAY).contains(&age),
        }
    }

    /// Minutes are those that have begun: -mmin 1 is within the last one.
    pub fn holds_in_minutes(self, then: Time, now: Time) -> bool {
        let (age, n) = (seconds(then, now), self.1 * Self::MINUTE);
        match self.0 {
            Order::More => age > n,
            Order::Less => age < n,
            Order::Exactly => (n - Self::MINUTE..n).contains(&age),
        }
    }
}

/// From one time to another.
fn seconds(then: Time, now: Time) -> f64 {
    let whole = now.sec.saturating_sub(then.sec) as f64;
    whole + (f64::from(now.nsec) - f64::from(then.nsec)) / 1e9
}

/// MODE exactly, all of its bits (-MODE) or any of them (/MODE).
#[derive(Clone, Debug)]
pub struct Permissions {
    how: How,
    mode: chmod::Mode,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Exactly,
    All,
    Any,
}

impl FromStr for Permissions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (how, mode) = match text.as_bytes() {
            [b'-', ..] => (How::All, &text[1..]),
            [b'/', ..] => (How::Any, &text[1..]),
            _ => (How::Exactly, text),
        };
        let mode = mode.parse()?;
        Ok(Permissions { how, mode })
    }
}

impl Permissions {
    pub fn holds(&self, found: u32, is_dir: bool) -> bool {
        let wanted = self.mode.applied_to(0, is_dir);
        match self.how {
            How::Exactly => found == wanted,
            How::All => found & wanted == wanted,
            // Of no bits at all, any file has some.
            How::Any => wanted == 0 || found & wanted != 0,
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_bounds() {
        let holds = |text: &str, found| text.parse::<Number>().expect(text).holds(found);
        assert!(holds("5", 5) && holds("+4", 5) && holds("-6", 5));
        assert!(!holds("4", 5) && !holds("+5", 5) && !holds("-5", 5));
        for wrong in ["", "+", "--1", "+-1", "x", "1.5"] {
            assert!(wrong.parse::<Number>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_counted_in_units_that_have_begun() {
        let holds = |text: &str, size| text.parse::<Size>().expect(text).holds(size);
        assert!(holds("1", 1) && holds("1", 512) && holds("2", 513) && holds("0", 0));
        assert!(holds("-1M", 0) && !holds("-1M", 1) && holds("1M", 1));
        assert!(holds("+1k", 1025) && !holds("+1k", 1024) && holds("1025c", 1025));
        for wrong in ["", "M", "1x", "1KiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_are_counted_from_now() {
        let at = |sec| Time { sec, nsec: 0 };
        let days = |text: &str, age: i64| {
            let age = at(1_000_000 - age);
            text.parse::<Age>()
                .expect(text)
                .holds_in_days(age, at(1_000_000))
        };
        assert!(days("0", 86_399) && !days("0", 86_400) && days("1", 86_400));
        assert!(days("-1", 86_399) && days("-1", -5) && !days("-1", 86_400));
        assert!(!days("+0", 86_399) && days("+0", 86_400) && !days("+1", 172_799));
    }
}
