//! Networks and addresses, as options name them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Net {
    /// Nothing: there is the loopback interface alone.
    None,
    /// What this host reaches, through ordinary sockets of the host's.
    User,
    /// A tap interface of the host's.
    Tap(String),
    /// Whoever listens at a Unix socket for frames in QEMU's framing.
    Switch(PathBuf),
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match (text, text.split_once('=')) {
            ("none", _) => Ok(Self::None),
            ("user", _) => Ok(Self::User),
            (_, Some(("tap", name))) if !name.is_empty() => Ok(Self::Tap(name.into())),
            (_, Some(("switch", path))) if !path.is_empty() => Ok(Self::Switch(path.into())),
            _ => Err("write none, user, tap=NAME or switch=PATH".into()),
        }
    }
}

/// An address and how many bits of it are its network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetAddress(pub IpAddr, pub u8);

impl FromStr for NetAddress {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parse = || {
            let (address, bits) = text.split_once('/')?;
            let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
            let most = if address.is_ipv4() { 32 } else { 128 };
            (bits <= most).then_some(Self(address, bits))
        };
        parse().ok_or_else(|| "write ADDRESS/BITS, such as 192.0.2.2/24".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_addresses_are_read_as_they_are_written() {
        assert_eq!("user".parse(), Ok(Net::User));
        assert_eq!("tap=t=0".parse(), Ok(Net::Tap("t=0".into())));
        assert_eq!("switch=/run/s".parse(), Ok(Net::Switch("/run/s".into())));
        for wrong in ["", "tap", "tap=", "switch", "bridge=x", "User"] {
            assert!(wrong.parse::<Net>().is_err(), "{wrong}");
        }
        let address = NetAddress([192, 0, 2, 1].into(), 24);
        assert_eq!("192.0.2.1/24".parse(), Ok(address));
        for wrong in ["192.0.2.1", "192.0.2.1/33", "::/129", "a/1", "/"] {
            assert!(wrong.parse::<NetAddress>().is_err(), "{wrong}");
        }
    }
}
