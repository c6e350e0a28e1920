//! What lists of allowed and denied destinations say: an address, a network, a name or
//! the host itself, and ports.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// `None`: an address has not so many bits.
    pub const fn new(first: IpAddr, bits: u8) -> Option<Self> {
        let most = match first {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        match bits <= most {
            true => Some(Self { first, bits }),
            false => None,
        }
    }

    /// Whether the address is one of these.
    pub fn has(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| {
            let shift = width - u32::from(self.bits);
            // All bits of the wider kind are too many for a shift.
            a.checked_shr(shift) == b.checked_shr(shift)
        };
        match (self.first, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            _ => false,
        }
    }

    /// Whether all of its addresses are of the other's.
    pub fn is_within(&self, other: &Network) -> bool {
        self.bits >= other.bits && other.has(self.first)
    }
}

/// Whom a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// These addresses.
    Network(Network),
    /// What this name stands for, in small letters; `*.NAME` is all names below it, and
    /// `*` all names.
    Name(String),
    /// The host's loopback interface, which the gateway's address stands for.
    Host,
}

/// A destination: `10.0.0.0/8`, `192.0.2.1:443`, `[2001:db8::]/32`, `[2001:db8::1]:53`,
/// `example.com`, `*.example.com:8000-8999`, `host:5432`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is about.
    pub target: Target,
    /// Which ports; `None`: all, and what has none.
    pub ports: Option<RangeInclusive<u16>>,
}

impl Rule {
    /// Whether it is about this port; `None`: what has no ports.
    pub fn has_port(&self, port: Option<u16>) -> bool {
        match (&self.ports, port) {
            (None, _) => true,
            (Some(ports), Some(port)) => ports.contains(&port),
            (Some(_), None) => false,
        }
    }

    /// Whether it is about this name.
    pub fn has_name(&self, name: &str) -> bool {
        let Target::Name(pattern) = &self.target else {
            return false;
        };
        match pattern.strip_prefix('*') {
            // "*" is all, and "*.a" what ends in ".a".
            Some(end) => name.len() > end.len() && name.ends_with(end),
            None => name == pattern,
        }
    }

    /// Whether it is about this address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        matches!(&self.target, Target::Network(network) if network.has(address))
    }
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRule(String);

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no destination: write an address, ADDRESS/BITS, a name, *.NAME or host, \
             with :PORT or :FIRST-LAST behind it if not all ports are meant, and IPv6 \
             addresses in brackets then",
            self.0
        )
    }
}

impl std::error::Error for NoRule {}

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        parse(text).ok_or_else(|| NoRule(text.into()))
    }
}

fn parse(text: &str) -> Option<Rule> {
    let (who, ports) = if text.matches(':').count() > 1 && !text.starts_with('[') {
        (text, None)
    } else {
        let from = text.find(']').unwrap_or(0);
        match text[from..].find(':') {
            Some(at) => (&text[..from + at], Some(&text[from + at + 1..])),
            None => (text, None),
        }
    };
    let ports = match ports {
        None => None,
        Some(ports) => Some(parse_ports(ports)?),
    };
    let target = if who == "host" {
        Target::Host
    } else if let Some(network) = parse_network(who) {
        Target::Network(network)
    } else {
        Target::Name(parse_name(who)?)
    };
    Some(Rule { target, ports })
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

fn parse_network(text: &str) -> Option<Network> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
    let address: IpAddr = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok()?.into(),
        None => address.parse().ok()?,
    };
    let all = if address.is_ipv4() { 32 } else { 128 };
    Network::new(address, bits.unwrap_or(all))
}

/// Names have letters, so that a number that is no address is no name.
fn parse_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let rest = name.strip_prefix("*.").unwrap_or(&name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..64).contains(&label.len()) && label.bytes().all(is_plain);
    let named = rest.len() < 254
        && rest.split('.').all(is_label)
        && rest.bytes().any(|byte| byte.is_ascii_alphabetic());
    (name == "*" || named).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        assert!(rule("10.0.0.0/8").has_address([10, 255, 1, 2].into()));
        assert!(!rule("10.0.0.0/8").has_address([11, 0, 0, 0].into()));
        assert!(rule("0.0.0.0/0").has_address([11, 0, 0, 0].into()));
        assert!(!rule("0.0.0.0/0").has_address("::1".parse().unwrap()));
        assert!(rule("::/0").has_address("2001:db8::1".parse().unwrap()));
        assert!(rule("[2001:db8::]/32:53").has_address("2001:db8::1".parse().unwrap()));
        assert!(rule("[2001:db8::]/32:53").has_port(Some(53)));
        assert!(!rule("[2001:db8::1]:53").has_port(Some(54)));
        assert!(!rule("[2001:db8::1]:53").has_port(None));
        assert!(rule("host:80-90").has_port(Some(90)));
        assert_eq!(rule("host").target, Target::Host);
        assert!(rule("Example.com.").has_name("example.com"));
        assert!(!rule("example.com").has_name("a.example.com"));
        assert!(rule("*.example.com").has_name("a.b.example.com"));
        assert!(!rule("*.example.com").has_name("example.com"));
        assert!(!rule("*.example.com").has_name("badexample.com"));
        assert!(rule("*").has_name("a"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let wrong = [
            "",
            ":80",
            "10.0.0.0/33",
            "::/129",
            "1.2.3",
            "1.2.3.4:",
            "1.2.3.4:0x50",
            "a..b",
            "a:70000",
            "a:9-8",
            "[::1",
            "a b",
            "-*.x",
            "x.*",
            "host:",
            "é.com",
            "1.2.3.4/8/8",
        ];
        for text in wrong {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
