//! Which addresses the cables' ends have: those that the file says, or networks of their own
//! below 10.0.0.0/8.

use crate::error::Result;
use crate::plan::{End, LinkPlan};
use crate::source::Source;
use crate::topology::{Link, Text};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// Networks of a kind that nobody names: 10.0.0.0/24, 10.0.1.0/24 and so on.
const MOST: usize = 1 << 16;
const PREFIX: u8 = 24;

/// An address in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    /// How many bits the network's part has.
    pub prefix: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix = prefix.parse().ok()?;
        (prefix <= bits(&address)).then_some(Self { address, prefix })
    }

    /// All addresses of the same version of IP.
    pub fn all_like(address: &IpAddr) -> Self {
        let prefix = 0;
        let address = *address;
        Self { address, prefix }.network()
    }

    pub fn is_v6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The network's own address: the rest is zero.
    pub fn network(&self) -> Cidr {
        let host = bits(&self.address) - self.prefix;
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(host.into()).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(host.into()).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Cidr { address, ..*self }
    }

    /// Whether this address is in the network.
    pub fn contains(&self, address: &IpAddr) -> bool {
        let there = Cidr {
            address: *address,
            prefix: self.prefix,
        };
        address.is_ipv6() == self.is_v6() && there.network() == self.network()
    }

    /// Whether all of the other one's addresses are in the network.
    pub fn holds(&self, other: &Cidr) -> bool {
        self.contains(&other.address) && self.prefix <= other.prefix
    }

    fn overlaps(&self, other: &Cidr) -> bool {
        self.holds(other) || other.holds(self)
    }

    /// Why no card can have it.
    fn is_no_hosts(&self) -> Option<&'static str> {
        let address = self.address;
        let within = bits(&address) - self.prefix;
        match () {
            _ if address.is_loopback() => Some("is a loopback address"),
            _ if address.is_multicast() => Some("is a multicast address"),
            _ if address.is_unspecified() => Some("is no host's address"),
            _ if address == self.network().address && within > 1 => {
                Some("is the network's own, no host's")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn bits(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// An address with a prefix, or what is wrong with it.
pub fn cidr(text: &Text, source: &Source) -> Result<Cidr> {
    Cidr::parse(text.get_ref()).ok_or_else(|| {
        let wrong = format!("{:?} is no address: write 10.0.0.1/24", text.get_ref());
        source.wrong_at(text.span(), wrong)
    })
}

/// The addresses of a link's ends, and where the file says so. `number` counts links, `before`
/// are those that came before.
pub fn of(
    link: &Link,
    number: usize,
    before: &[LinkPlan],
    source: &Source,
) -> Result<[(Cidr, usize); 2]> {
    let Some(said) = &link.addresses else {
        return free(link, number, before, source);
    };
    let [first, second] = &said.get_ref()[..] else {
        let text =
            "addresses are two: one for each end, such as [\"10.0.0.1/24\", \"10.0.0.2/24\"]";
        return Err(source.wrong_at(said.span(), text));
    };
    let ends = [first, second].map(|text| Ok((cidr(text, source)?, text.span().start)));
    let [first, second] = ends;
    let ends = [first?, second?];
    for (end, at) in &ends {
        if let Some(why) = end.is_no_hosts() {
            return Err(source.wrong(*at, format!("{} {why}", end.address)));
        }
    }
    let [(first, _), (second, at)] = &ends;
    if first.address == second.address {
        let text = format!("both ends have the address {}", first.address);
        return Err(source.wrong(*at, text));
    }
    if first.network() != second.network() {
        let text = format!("{second} is not in the network of the other end, {first}");
        return Err(source.wrong(*at, text));
    }
    if let Some((other, end)) = taken(first, before) {
        let text = format!(
            "the network {} is also that of the link {} (line {}), which has {end}",
            first.network(),
            other.name,
            source.line(other.at),
        );
        return Err(source.wrong(ends[0].1, text));
    }
    Ok(ends)
}

fn taken<'a>(wanted: &Cidr, links: &'a [LinkPlan]) -> Option<(&'a LinkPlan, Cidr)> {
    links.iter().find_map(|link| {
        let [End { address, .. }, _] = link.ends;
        wanted
            .network()
            .overlaps(&address.network())
            .then_some((link, address))
    })
}

/// A network that nobody has, beginning with the link's own number.
fn free(
    link: &Link,
    number: usize,
    before: &[LinkPlan],
    source: &Source,
) -> Result<[(Cidr, usize); 2]> {
    let end = |network: usize, host: u8| {
        let [_, _, high, low] = (network as u32).to_be_bytes();
        Cidr {
            address: Ipv4Addr::new(10, high, low, host).into(),
            prefix: PREFIX,
        }
    };
    let at = link.between.span().start;
    let network = (number..MOST).find(|network| taken(&end(*network, 1), before).is_none());
    let network = network.ok_or_else(|| {
        source.wrong(at, "no network below 10.0.0.0/8 is left: give it addresses")
    })?;
    Ok([1, 2].map(|host| (end(network, host), at)))
}
