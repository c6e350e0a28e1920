//! Who may be reached.

use super::rule::{Network, Rule, Target};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard};

/// Addresses that are remembered from names; the oldest go.
const LEARNED: usize = 4096;

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Network {
    match Network::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits) {
        Some(network) => network,
        None => panic!(),
    }
}

const fn v6(a: u16, b: u16, h: u16, bits: u8) -> Network {
    match Network::new(IpAddr::V6(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, h)), bits) {
        Some(network) => network,
        None => panic!(),
    }
}

/// What is the host's alone, or nobody's: a rule opens of it what it names, and a rule
/// that names more, or a name, opens none of it.
const CLOSED: [Network; 12] = [
    // This host, as a source; and its loopback interface.
    v4(0, 0, 0, 0, 8),
    v4(127, 0, 0, 0, 8),
    // The link, where clouds have the services that tell a machine its secrets.
    v4(169, 254, 0, 0, 16),
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    // Many at once.
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    // This host, and IPv4 in a form that nobody uses.
    v6(0, 0, 0, 96),
    v6(0xfe80, 0, 0, 10),
    v6(0xfd00, 0xec2, 0x254, 128),
    v6(0xff00, 0, 0, 8),
    // Addresses of a site: link-local's kin, given up by RFC 3879.
    v6(0xfec0, 0, 0, 10),
];

/// Which destinations are open.
#[derive(Debug, Default)]
pub struct Policy {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    learned: Mutex<VecDeque<(IpAddr, Option<RangeInclusive<u16>>)>>,
}

impl Policy {
    /// What is denied is, whatever is allowed. Without rules that allow, all is open but
    /// what is closed to everybody; a rule that opens some of that leaves it so, and with
    /// any other only what is allowed is open.
    pub fn new(allow: Vec<Rule>, deny: Vec<Rule>) -> Self {
        Self {
            allow,
            deny,
            ..Self::default()
        }
    }

    /// Whether this address may be reached at this port; `None`: as a whole.
    pub fn permits(&self, address: IpAddr, port: Option<u16>) -> bool {
        let address = address.to_canonical();
        let says = |rule: &Rule| rule.has_address(address) && rule.has_port(port);
        if self.deny.iter().any(says) {
            return false;
        }
        if let Some(closed) = closed(address) {
            return self
                .allow
                .iter()
                .any(|rule| opens(rule, &closed) && says(rule));
        }
        if let Some(inner) = translated(address) {
            if !self.permits(inner.into(), port) {
                return false;
            }
        }
        !self.is_list() || self.allow.iter().any(says) || self.has_learned(address, port)
    }

    /// Whether the host's loopback interface may be reached at this port.
    pub fn permits_host(&self, port: u16) -> bool {
        let says = |rule: &Rule| rule.target == Target::Host && rule.has_port(Some(port));
        self.allow.iter().any(says) && !self.deny.iter().any(says)
    }

    /// Whether anybody may ask for this name, in small letters.
    pub fn permits_name(&self, name: &str) -> bool {
        if self.deny.iter().any(|rule| rule.has_name(name)) {
            return false;
        }
        let mut names = self.allow.iter().filter(|rule| is_name(rule)).peekable();
        names.peek().is_none() || names.any(|rule| rule.has_name(name))
    }

    /// This name stands for these addresses, as a server has just said.
    pub fn learn(&self, name: &str, addresses: &[IpAddr]) {
        let mut learned = self.learned();
        for rule in self.allow.iter().filter(|rule| rule.has_name(name)) {
            for address in addresses {
                let entry = (address.to_canonical(), rule.ports.clone());
                if !learned.contains(&entry) {
                    if learned.len() == LEARNED {
                        learned.pop_front();
                    }
                    learned.push_back(entry);
                }
            }
        }
    }

    fn has_learned(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.learned().iter().any(|(known, ports)| {
            let open = match (ports, port) {
                (None, _) => true,
                (Some(ports), Some(port)) => ports.contains(&port),
                (Some(_), None) => false,
            };
            *known == address && open
        })
    }

    fn learned(&self) -> MutexGuard<'_, VecDeque<(IpAddr, Option<RangeInclusive<u16>>)>> {
        self.learned.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether only what is allowed is open.
    fn is_list(&self) -> bool {
        let only_opens = |rule: &Rule| {
            rule.target == Target::Host || CLOSED.iter().any(|closed| opens(rule, closed))
        };
        !self.allow.iter().all(only_opens)
    }
}

fn is_name(rule: &Rule) -> bool {
    matches!(rule.target, Target::Name(_))
}

/// Whether a rule names this network, or a part of it.
fn opens(rule: &Rule, closed: &Network) -> bool {
    matches!(&rule.target, Target::Network(network) if network.is_within(closed))
}

fn closed(address: IpAddr) -> Option<Network> {
    CLOSED.into_iter().find(|network| network.has(address))
}

/// The IPv4 address that a translator or a tunnel on the way would make of this one:
/// 64:ff9b::/96 (RFC 6052) and 2002::/16 (RFC 3056).
fn translated(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let b = address.octets();
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some([b[12], b[13], b[14], b[15]].into()),
        [0x2002, ..] => Some([b[2], b[3], b[4], b[5]].into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> Policy {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Policy::new(rules(allow), rules(deny))
    }

    fn permits(policy: &Policy, address: &str, port: u16) -> bool {
        policy.permits(address.parse().unwrap(), Some(port))
    }

    const HOSTS_OWN: [&str; 16] = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "::1",
        "::",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "fec0::1",
    ];

    #[test]
    fn what_is_the_hosts_alone_is_closed_whatever_wide_rules_say() {
        let all = ["0.0.0.0/0", "::/0", "*", "0.0.0.0/1", "::/8"];
        for policy in [policy(&[], &[]), policy(&all, &[])] {
            for address in HOSTS_OWN {
                policy.learn("a.name", &[address.parse().unwrap()]);
                assert!(!permits(&policy, address, 80), "{address}");
            }
            for many in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
                assert!(!permits(&policy, many, 80), "{many}");
            }
            assert!(!policy.permits_host(80));
            assert!(permits(&policy, "192.0.2.1", 80));
            assert!(permits(&policy, "2001:db8::1", 80));
        }
    }

    #[test]
    fn a_rule_opens_of_it_what_it_names_and_leaves_the_rest_as_it_is() {
        let policy = policy(&["169.254.169.254:80", "host:5432"], &[]);
        assert!(permits(&policy, "169.254.169.254", 80));
        assert!(!permits(&policy, "169.254.169.254", 81));
        assert!(!permits(&policy, "169.254.169.253", 80));
        assert!(permits(&policy, "192.0.2.1", 80));
        assert!(policy.permits_host(5432) && !policy.permits_host(5433));
        assert!(!permits(&policy, "127.0.0.1", 5432));
    }

    #[test]
    fn with_a_list_only_what_is_on_it_is_open_and_denials_win() {
        let policy = policy(
            &["10.0.0.0/8", "*.example.com:443"],
            &["10.1.0.0/16", "bad.example.com"],
        );
        assert!(permits(&policy, "10.0.0.1", 80) && !permits(&policy, "10.1.0.1", 80));
        assert!(!permits(&policy, "192.0.2.1", 443));
        assert!(policy.permits_name("a.example.com"));
        assert!(!policy.permits_name("bad.example.com") && !policy.permits_name("example.org"));
        policy.learn("a.example.com", &["192.0.2.1".parse().unwrap()]);
        policy.learn("example.org", &["192.0.2.2".parse().unwrap()]);
        assert!(permits(&policy, "192.0.2.1", 443) && permits(&policy, "::ffff:192.0.2.1", 443));
        assert!(!permits(&policy, "192.0.2.1", 80) && !permits(&policy, "192.0.2.2", 443));
        policy.learn("a.example.com", &["10.1.0.1".parse().unwrap()]);
        assert!(!permits(&policy, "10.1.0.1", 443));
    }
}
