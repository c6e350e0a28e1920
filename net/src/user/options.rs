//! What a user wants of the network.

use super::policy::Policy;
use super::rule::Rule;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The addresses that a kernel in user mode sees; everything else is the host's network.
pub mod addresses {
    use super::{Ipv4Addr, Ipv6Addr};
    /// The kernel's own.
    pub const HERE4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
    /// The gateway's, which stands for the host's loopback interface.
    pub const GATEWAY4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
    /// Whoever resolves names.
    pub const NAMES4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
    /// Bits of the network that they are in.
    pub const PREFIX4: u8 = 24;
    const fn v6(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd74, 0x616e, 0x6500, 0, 0, 0, 0, last)
    }
    /// The kernel's own.
    pub const HERE6: Ipv6Addr = v6(0x15);
    /// The gateway's.
    pub const GATEWAY6: Ipv6Addr = v6(2);
    /// Whoever resolves names.
    pub const NAMES6: Ipv6Addr = v6(3);
    /// Bits of the network that they are in.
    pub const PREFIX6: u8 = 64;
}

/// A port of the host's that leads to one inside: `8080:80`, `127.0.0.1:8080:80`,
/// `[::]:8080:80`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Where the host listens. Without an address that is its loopback interface, which
    /// nobody else reaches. Port 0: any that is free.
    pub listen: SocketAddr,
    /// The port inside.
    pub to: u16,
}

/// A text that is no such pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoForward(String);

impl fmt::Display for NoForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} leads no port anywhere: write HOST:INSIDE, such as 8080:80, or \
             ADDRESS:HOST:INSIDE",
            self.0
        )
    }
}

impl std::error::Error for NoForward {}

impl FromStr for Forward {
    type Err = NoForward;

    fn from_str(text: &str) -> Result<Self, NoForward> {
        let parse = || {
            let (listen, to) = text.rsplit_once(':')?;
            let to = to.parse().ok().filter(|port| *port != 0)?;
            let listen = match listen.contains(':') {
                true => listen.parse().ok()?,
                false => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listen.parse().ok()?),
            };
            Some(Forward { listen, to })
        };
        parse().ok_or_else(|| NoForward(text.into()))
    }
}

/// A kernel's way out through sockets of the host's: whom it may reach.
///
/// The default is all of the host's network but what is the host's alone: its loopback
/// interface, link-local addresses (where clouds have their metadata services),
/// broadcasts and multicasts, Unix sockets.
#[derive(Clone, Debug, Default)]
pub struct UserNetwork {
    /// What may be reached. A rule that names what is closed by default opens that; any
    /// other rule makes those that are here all that is open.
    pub allow: Vec<Rule>,
    /// What may not, whatever is allowed.
    pub deny: Vec<Rule>,
    /// Ports of the host's that lead inside.
    pub forwards: Vec<Forward>,
    /// Who resolves names; `None`: whom the host's /etc/resolv.conf names.
    pub resolvers: Option<Vec<SocketAddr>>,
}

impl UserNetwork {
    pub(super) fn policy(&self) -> Policy {
        Policy::new(self.allow.clone(), self.deny.clone())
    }
}

/// Whether this address is the gateway's, and so means the host's loopback interface:
/// that one's address.
pub fn loopback_of(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(addresses::GATEWAY4) => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(addresses::GATEWAY6) => Some(Ipv6Addr::LOCALHOST.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lead_inside_as_they_are_written() {
        let forward = |text: &str| text.parse::<Forward>();
        let at = |listen: &str, to| {
            let listen = listen.parse().unwrap();
            Ok(Forward { listen, to })
        };
        assert_eq!(forward("8080:80"), at("127.0.0.1:8080", 80));
        assert_eq!(forward("0.0.0.0:0:80"), at("0.0.0.0:0", 80));
        assert_eq!(forward("[::]:8080:80"), at("[::]:8080", 80));
        for wrong in [
            "80",
            "80:",
            ":80",
            "80:0",
            "::1:80:80",
            "a:80:80",
            "80:80:80:80",
            "80:65536",
        ] {
            assert!(forward(wrong).is_err(), "{wrong}");
        }
    }
}
