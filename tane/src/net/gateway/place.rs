//! The gateway's place: a network namespace of its own inside the kernel, at the other end
//! of a cable to the one that programs are in.

use super::rules;
use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::net::link::{family, link_head, octets, Link};
use crate::net::netlink::{attribute, nested, Message, Netlink};
use crate::sys::Fd;
use std::net::IpAddr;
use tane_linux::Linux;
use tane_net::user::addresses::*;

/// Nothing of a packet's way is real, and its longest form is the fastest. IPv6 and IPv4
/// both have room for it; passt's is the same.
const MTU: u32 = 65_520;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const RTA_OIF: u16 = 4;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FR_ACT_TO_TBL: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const TABLE: u8 = 100;
const LOOPBACK_INDEX: u32 = 1;
const NO_NETWORK: &str = "the image has no network (`default` has)";
const RESOLVERS: &str = "etc/resolv.conf";
/// The gateway's end of the cable.
const NAME: &str = "inside";

/// The namespace of the calling thread.
pub fn namespace(kernel: &Kernel) -> Result<Fd> {
    let path = c"/proc/thread-self/ns/net";
    let opened = kernel.openat(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0);
    opened.map_err(|errno| {
        let error = errno.during("find the network namespace");
        match errno.0 {
            libc::ENOENT => error.with_text(NO_NETWORK),
            _ => error,
        }
    })
}

/// Take this thread into that namespace.
pub fn enter(namespace: &Fd) -> Result<()> {
    let args = [
        namespace.raw() as u64,
        libc::CLONE_NEWNET as u64,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: numbers.
    match unsafe { namespace.kernel.call(libc::SYS_setns, args) } {
        0 => Ok(()),
        errno => Err(Error::new(-errno as i32, "enter the gateway's namespace")),
    }
}

/// Take this thread into a namespace of its own, with one end of a cable whose other end,
/// of this name, is in that one.
pub fn make(kernel: &Kernel, other: &Fd, name: &str) -> Result<()> {
    let args = [libc::CLONE_NEWNET as u64, 0, 0, 0, 0, 0];
    // SAFETY: numbers.
    match unsafe { kernel.call(libc::SYS_unshare, args) } {
        0 => {}
        errno => {
            let error = Error::new(-errno as i32, "make a network namespace");
            return Err(error.with_text(NO_NETWORK));
        }
    }
    let netlink = Netlink::open(kernel).map_err(|e| Error::new(e, "open a netlink socket"))?;
    let tell = |message, action| netlink.tell(message).map_err(|e| Error::new(e, action));
    tell(cable(other, name), "lay a cable to the gateway")?;
    kernel.link("lo")?.set_up()?;
    let link = kernel.link(NAME)?;
    for (address, prefix) in [
        (IpAddr::from(GATEWAY4), PREFIX4),
        (NAMES4.into(), PREFIX4),
        (GATEWAY6.into(), PREFIX6),
        (NAMES6.into(), PREFIX6),
    ] {
        link.add_address(address, prefix)?;
    }
    link.set_up()?;
    for any in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
        tell(all_is_here(any), "make all addresses the gateway's")?;
        tell(all_from_inside(any), "take what comes from inside")?;
    }
    // Errors are answers to one program, which waits for each.
    let sysctl = kernel.tree("/proc/sys/net")?;
    for limit in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
        sysctl.write(limit, "0")?;
    }
    rules::make(kernel, link.index())
}

fn cable(other: &Fd, name: &str) -> Message {
    let text = |text: &str| [text.as_bytes(), b"\0"].concat();
    let mut peer = vec![0; 16];
    peer.extend(attribute(IFLA_IFNAME, &text(name)));
    peer.extend(attribute(IFLA_MTU, &MTU.to_ne_bytes()));
    peer.extend(attribute(IFLA_NET_NS_FD, &other.raw().to_ne_bytes()));
    let mut message = Message::new(RTM_NEWLINK, Message::CREATE, &link_head(0, 0, 0));
    message.attribute(IFLA_IFNAME, &text(NAME));
    message.attribute(IFLA_MTU, &MTU.to_ne_bytes());
    let data = nested(IFLA_INFO_DATA, &[attribute(VETH_INFO_PEER, &peer)]);
    let info = [attribute(IFLA_INFO_KIND, b"veth"), data];
    message.attribute(IFLA_LINKINFO, &info.concat());
    message
}

/// Every address is this machine's...
fn all_is_here(any: IpAddr) -> Message {
    let head = [
        family(&any),
        0,
        0,
        0,
        TABLE,
        RTPROT_STATIC,
        RT_SCOPE_HOST,
        RTN_LOCAL,
        0,
        0,
        0,
        0,
    ];
    let mut message = Message::new(RTM_NEWROUTE, Message::CREATE, &head);
    message.attribute(RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes());
    message
}

/// ... for what comes from inside.
fn all_from_inside(any: IpAddr) -> Message {
    let head = [
        family(&any),
        0,
        0,
        0,
        TABLE,
        0,
        0,
        FR_ACT_TO_TBL,
        0,
        0,
        0,
        0,
    ];
    let mut message = Message::new(RTM_NEWRULE, Message::CREATE, &head);
    message.attribute(FRA_IIFNAME, &[NAME.as_bytes(), b"\0"].concat());
    message.attribute(FRA_PRIORITY, &100u32.to_ne_bytes());
    message
}

/// Addresses and routes of the end that programs see.
pub fn furnish(kernel: &Kernel, link: &Link) -> Result<()> {
    link.add_address(HERE4, PREFIX4)?;
    link.add_address(HERE6, PREFIX6)?;
    link.set_up()?;
    kernel.link("lo")?.set_up()?;
    for (any, gateway) in [
        (IpAddr::from([0; 4]), IpAddr::from(GATEWAY4)),
        (IpAddr::from([0; 16]), GATEWAY6.into()),
    ] {
        kernel.add_route(any, 0, gateway)?;
    }
    name_resolvers(kernel)
}

/// For who looks names up ([`Kernel::lookup`]), unless somebody else has said whom to ask.
fn name_resolvers(kernel: &Kernel) -> Result<()> {
    let root = kernel.tree("/")?;
    if root.exists(RESOLVERS)? {
        return Ok(());
    }
    if !root.exists("etc")? {
        root.create_dir("etc")?;
    }
    let text = format!("nameserver {NAMES4}\nnameserver {NAMES6}\n");
    root.write(RESOLVERS, text)
}

/// An address as its bytes, for rules.
pub fn bytes(address: impl Into<IpAddr>) -> Vec<u8> {
    octets(&address.into())
}

/// Take the cable away at once: Linux takes a namespace away when it has time.
pub fn remove(link: &Link) {
    let head = link_head(link.index(), 0, 0);
    let message = Message::new(RTM_DELLINK, 0, &head);
    // A kernel that is gone has none.
    let _ = Netlink::open(link.kernel()).and_then(|netlink| netlink.tell(message));
}
