//! Which addresses connections over several paths may take: the path manager of MPTCP inside the
//! kernel, as `ip mptcp` sets it.

use super::generic::Generic;
use super::link::{family, octets, Link};
use super::netlink::{attribute, attributes, nested};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

const NAME: &str = "mptcp_pm";
const CMD_ADD_ADDR: u8 = 1;
const CMD_DEL_ADDR: u8 = 2;
const CMD_GET_ADDR: u8 = 3;
const CMD_FLUSH_ADDRS: u8 = 4;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;
/// Of all commands about one address.
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
const ADDR_FAMILY: u16 = 1;
const ADDR_ID: u16 = 2;
const ADDR_4: u16 = 3;
const ADDR_6: u16 = 4;
const ADDR_FLAGS: u16 = 6;
const ADDR_IF_IDX: u16 = 7;
const FLAG_IMPLICIT: u32 = 16;

/// What a kernel knows of its addresses for connections over several paths. Cheap to clone.
///
/// A socket of MPTCP is [`Socket::new`](super::Socket::new) with `libc::IPPROTO_MPTCP`;
/// [`Socket::mptcp_info`](super::Socket::mptcp_info) says which paths it takes.
#[derive(Clone, Debug)]
pub struct Mptcp(Kernel);

/// What an address is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFlags {
    /// Connections begin further paths from it.
    pub subflow: bool,
    /// The other end is told of it, and may begin further paths to it.
    pub signal: bool,
    /// Its paths are taken when there are no others.
    pub backup: bool,
    /// From it to all addresses of the other end that are known; not with `signal`.
    pub fullmesh: bool,
}

/// A text that is none, such as what is not "subflow,backup".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEndpointFlags(String);

/// An address that connections may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The kernel's number for it, from 1.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// Its interface's number, if it is bound to that.
    pub link: Option<u32>,
    /// What it is for.
    pub flags: EndpointFlags,
    /// The kernel found it by itself, of a path that the other end began.
    pub implicit: bool,
}

/// How many paths a connection may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpLimits {
    /// Beside the first one: 2 in a new kernel, 8 at most.
    pub subflows: u32,
    /// To addresses of which the other end tells: 0 in a new kernel, 8 at most.
    pub accepted: u32,
}

impl Kernel {
    /// Its path manager of MPTCP.
    ///
    /// Errors: EPROTONOSUPPORT the image has no MPTCP (`default` has).
    pub fn mptcp(&self) -> Result<Mptcp> {
        let mptcp = Mptcp(self.clone());
        mptcp.by("find MPTCP", |_| Ok(()))?;
        Ok(mptcp)
    }
}

impl Mptcp {
    /// Have connections take an address, those that there are already, too. Ways there and from
    /// there are those of the kernel's routes.
    ///
    /// Errors: EEXIST it is there; ERANGE there are 8; EINVAL flags that contradict each other.
    pub fn add_endpoint(&self, address: impl Into<IpAddr>, flags: EndpointFlags) -> Result<()> {
        self.add(address.into(), None, flags)
    }

    /// The same, and what goes from there goes by this interface, where there is a route by it
    /// ([`Link::add_route`]).
    pub fn add_endpoint_at(
        &self,
        link: &Link,
        address: impl Into<IpAddr>,
        flags: EndpointFlags,
    ) -> Result<()> {
        self.add(address.into(), Some(link.index()), flags)
    }

    fn add(&self, address: IpAddr, link: Option<u32>, flags: EndpointFlags) -> Result<()> {
        let kind = if address.is_ipv6() { ADDR_6 } else { ADDR_4 };
        let mut about = vec![
            attribute(ADDR_FAMILY, &u16::from(family(&address)).to_ne_bytes()),
            attribute(kind, &octets(&address)),
            attribute(ADDR_FLAGS, &flags.bits().to_ne_bytes()),
        ];
        about.extend(link.map(|index| attribute(ADDR_IF_IDX, &index.to_ne_bytes())));
        let added = self.by("add an endpoint of MPTCP", |generic| {
            generic.tell(CMD_ADD_ADDR, &[nested(ATTR_ADDR, &about)])
        });
        added.map_err(|e| e.with_path(Path::new(&address.to_string())))
    }

    /// Have connections take it no longer; paths that do end.
    ///
    /// Errors: EINVAL there is none of this number.
    pub fn remove_endpoint(&self, id: u8) -> Result<()> {
        self.by("remove an endpoint of MPTCP", |generic| {
            let about = nested(ATTR_ADDR, &[attribute(ADDR_ID, &[id])]);
            generic.tell(CMD_DEL_ADDR, &[about])
        })
    }

    /// Remove all of them.
    pub fn clear(&self) -> Result<()> {
        self.by("remove all endpoints of MPTCP", |generic| {
            generic.tell(CMD_FLUSH_ADDRS, &[])
        })
    }

    /// All there are, by their numbers.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>> {
        self.by("list endpoints of MPTCP", |generic| {
            let all = generic.list(CMD_GET_ADDR)?;
            let all = all.iter().map(|about| read(about).ok_or(libc::EPROTO));
            all.collect()
        })
    }

    /// How many paths connections may have.
    pub fn limits(&self) -> Result<MptcpLimits> {
        self.by("ask for the limits of MPTCP", |generic| {
            let answer = generic.ask(CMD_GET_LIMITS, &[])?;
            let mut limits = MptcpLimits::default();
            for (kind, value) in attributes(&answer) {
                let value = value.try_into().map(u32::from_ne_bytes);
                match (kind, value) {
                    (ATTR_SUBFLOWS, Ok(value)) => limits.subflows = value,
                    (ATTR_RCV_ADD_ADDRS, Ok(value)) => limits.accepted = value,
                    _ => {}
                }
            }
            Ok(limits)
        })
    }

    /// Let connections have so many.
    ///
    /// Errors: EINVAL more than 8.
    pub fn set_limits(&self, limits: MptcpLimits) -> Result<()> {
        self.by("set the limits of MPTCP", |generic| {
            let all = [
                attribute(ATTR_SUBFLOWS, &limits.subflows.to_ne_bytes()),
                attribute(ATTR_RCV_ADD_ADDRS, &limits.accepted.to_ne_bytes()),
            ];
            generic.tell(CMD_SET_LIMITS, &all)
        })
    }

    fn by<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Generic) -> std::result::Result<T, i32>,
    ) -> Result<T> {
        let generic = Generic::open(&self.0, NAME).map_err(|errno| match errno {
            libc::ENOENT | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOSYS => {
                Error::new(libc::EPROTONOSUPPORT, action)
                    .with_text("this kernel image has no MPTCP (CONFIG_MPTCP)")
            }
            _ => Error::new(errno, action),
        })?;
        work(&generic).map_err(|errno| Error::new(errno, action))
    }
}

fn read(about: &[u8]) -> Option<Endpoint> {
    let (_, about) = attributes(about).find(|(kind, _)| *kind == ATTR_ADDR)?;
    let (mut id, mut address, mut link, mut bits) = (None, None, None, 0);
    for (kind, value) in attributes(about) {
        match kind {
            ADDR_ID => id = value.first().copied(),
            ADDR_4 => address = Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
            ADDR_6 => address = Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
            ADDR_FLAGS => bits = u32::from_ne_bytes(value.try_into().ok()?),
            ADDR_IF_IDX => link = Some(u32::from_ne_bytes(value.try_into().ok()?)),
            _ => {}
        }
    }
    Some(Endpoint {
        id: id?,
        address: address?,
        link,
        flags: EndpointFlags::of(bits),
        implicit: bits & FLAG_IMPLICIT != 0,
    })
}

impl EndpointFlags {
    const NAMES: [&str; 4] = ["signal", "subflow", "backup", "fullmesh"];

    /// By the kernel's bits.
    fn all(&mut self) -> [&mut bool; 4] {
        [
            &mut self.signal,
            &mut self.subflow,
            &mut self.backup,
            &mut self.fullmesh,
        ]
    }

    /// As the kernel has them: 1 `signal`, 2 `subflow`, 4 `backup`, 8 `fullmesh`.
    pub fn bits(mut self) -> u32 {
        let all = self.all();
        all.iter()
            .rev()
            .fold(0, |bits, flag| bits << 1 | u32::from(**flag))
    }

    /// None if there are others.
    pub fn from_bits(bits: u32) -> Option<Self> {
        let flags = Self::of(bits);
        (flags.bits() == bits).then_some(flags)
    }

    fn of(bits: u32) -> Self {
        let mut flags = Self::default();
        for (bit, flag) in flags.all().into_iter().enumerate() {
            *flag = bits & 1 << bit != 0;
        }
        flags
    }
}

impl FromStr for EndpointFlags {
    type Err = NoEndpointFlags;

    /// Names with commas between: "subflow,backup".
    fn from_str(text: &str) -> std::result::Result<Self, NoEndpointFlags> {
        let mut flags = Self::default();
        for name in text.split(',').map(str::trim) {
            let known = Self::NAMES.iter().position(|known| *known == name);
            let known = known.ok_or_else(|| NoEndpointFlags(text.into()))?;
            *flags.all()[known] = true;
        }
        match flags.signal && flags.fullmesh {
            true => Err(NoEndpointFlags(text.into())),
            false => Ok(flags),
        }
    }
}

impl fmt::Display for NoEndpointFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is nothing that an endpoint is for: write subflow, signal, backup and fullmesh, or \
             some of them, with commas between, and fullmesh not with signal",
            self.0
        )
    }
}

impl std::error::Error for NoEndpointFlags {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_written_and_have_the_kernels_bits() {
        for (text, bits) in [
            ("signal", 1),
            ("subflow", 2),
            ("subflow, backup", 6),
            ("fullmesh,subflow", 10),
            ("signal,subflow,backup", 7),
        ] {
            let flags: EndpointFlags = text.parse().unwrap();
            assert_eq!(flags.bits(), bits, "{text}");
            assert_eq!(EndpointFlags::of(bits), flags);
            assert_eq!(EndpointFlags::from_bits(bits), Some(flags));
            assert_eq!(EndpointFlags::from_bits(bits | FLAG_IMPLICIT), None);
        }
        for wrong in ["", "subflow,", "Signal", "signal,fullmesh"] {
            assert!(wrong.parse::<EndpointFlags>().is_err(), "{wrong}");
        }
    }
}
