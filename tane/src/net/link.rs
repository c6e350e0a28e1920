//! Interfaces, addresses and routes of a kernel.

use super::netlink::{Message, Netlink};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use std::net::IpAddr;
use std::path::Path;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const IFLA_MTU: u16 = 4;
const IFLA_IFNAME: u16 = 3;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// There is nobody to ask whether the address is free, or no time to.
const IFA_F_NODAD: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;

/// A network interface of a kernel's, such as "lo" or "eth0". Cheap to clone; it is a
/// name for the interface and does not keep it.
#[derive(Clone, Debug)]
pub struct Link {
    kernel: Kernel,
    name: String,
    index: u32,
}

impl Kernel {
    /// The interface of this name. A new kernel has "lo" alone, which is down.
    ///
    /// Errors: ENODEV there is none; ENOSYS the image has no network.
    pub fn link(&self, name: &str) -> Result<Link> {
        let mut message = Message::new(RTM_GETLINK, 0, &[0; 16]);
        message.attribute(IFLA_IFNAME, &[name.as_bytes(), b"\0"].concat());
        let answer = Netlink::open(self)
            .and_then(|netlink| netlink.ask(message))
            .map_err(|errno| on(errno, "look up the interface", name))?;
        let index = answer.get(4..8).and_then(|index| index.try_into().ok());
        let index = index.ok_or_else(|| on(libc::EPROTO, "look up the interface", name))?;
        Ok(Link {
            kernel: self.clone(),
            name: name.to_owned(),
            index: u32::from_ne_bytes(index),
        })
    }

    /// Send what is for this network (`0` bits: all others) to `gateway`.
    pub fn add_route(
        &self,
        network: impl Into<IpAddr>,
        prefix: u8,
        gateway: impl Into<IpAddr>,
    ) -> Result<()> {
        self.add_routes([(network.into(), prefix, gateway.into())])
    }

    /// The same of several: networks, their bits and gateways, one after the other. The first that
    /// cannot be added is the last that is tried.
    pub fn add_routes(&self, routes: impl IntoIterator<Item = (IpAddr, u8, IpAddr)>) -> Result<()> {
        let netlink = Netlink::open(self).map_err(|errno| Error::new(errno, "add routes"))?;
        for (network, prefix, gateway) in routes {
            let message = route(network, prefix, gateway);
            tell_route(&netlink, message, network, prefix)?;
        }
        Ok(())
    }
}

impl Link {
    /// The kernel's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number for it.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The kernel that has it.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Have it send and receive.
    pub fn set_up(&self) -> Result<()> {
        self.change(libc::IFF_UP as u32, "set up")
    }

    /// Have it send and receive nothing.
    pub fn set_down(&self) -> Result<()> {
        self.change(0, "set down")
    }

    /// The largest IP packet, in bytes; at most what its card was made with.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let head = link_head(self.index, 0, 0);
        let mut message = Message::new(RTM_NEWLINK, 0, &head);
        message.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        self.tell(message, "set the MTU of")
    }

    /// How many segments a packet has at most until it reaches the card: Linux puts some of TCP's
    /// together even where the card does not cut them, and queues have them as one. 1: none.
    ///
    /// Errors: EINVAL more than the card takes.
    pub fn set_gso_max_segments(&self, most: u32) -> Result<()> {
        let head = link_head(self.index, 0, 0);
        let mut message = Message::new(RTM_NEWLINK, 0, &head);
        message.attribute(IFLA_GSO_MAX_SEGS, &most.to_ne_bytes());
        self.tell(message, "set the most segments of")
    }

    /// Give it an address in a network of so many bits. IPv6 addresses are in use at
    /// once: nobody is asked whether they have them.
    pub fn add_address(&self, address: impl Into<IpAddr>, prefix: u8) -> Result<()> {
        let message = self.address(RTM_NEWADDR, Message::CREATE, address.into(), prefix);
        self.tell(message, "give an address to")
    }

    /// Take an address away.
    pub fn remove_address(&self, address: impl Into<IpAddr>, prefix: u8) -> Result<()> {
        let message = self.address(RTM_DELADDR, 0, address.into(), prefix);
        self.tell(message, "take an address from")
    }

    /// Send what is for this network to `gateway` by this interface, as far as no way with a
    /// smaller `metric` serves, as those of [`Kernel::add_route`] have (0). What is bound to the interface
    /// takes it in any case.
    pub fn add_route(
        &self,
        network: impl Into<IpAddr>,
        prefix: u8,
        gateway: impl Into<IpAddr>,
        metric: u32,
    ) -> Result<()> {
        let (network, gateway) = (network.into(), gateway.into());
        let mut message = route(network, prefix, gateway);
        message.attribute(RTA_OIF, &self.index.to_ne_bytes());
        message.attribute(RTA_PRIORITY, &metric.to_ne_bytes());
        let netlink = Netlink::open(&self.kernel);
        let netlink = netlink.map_err(|errno| on(errno, "add a route by", &self.name))?;
        tell_route(&netlink, message, network, prefix)
    }

    /// Whether it is up and somebody is at the other end.
    pub fn is_running(&self) -> Result<bool> {
        let file = format!("class/net/{}/operstate", self.name);
        let state = self.kernel.tree("/sys")?.read_to_string(file)?;
        Ok(state.trim_end() == "up")
    }

    /// A number below /sys/class/net/NAME/statistics, such as "rx_packets".
    pub fn statistic(&self, name: &str) -> Result<u64> {
        let file = format!("class/net/{}/statistics/{name}", self.name);
        let text = self.kernel.tree("/sys")?.read_to_string(file)?;
        Ok(text.trim_end().parse().unwrap_or(0))
    }

    fn change(&self, flags: u32, action: &'static str) -> Result<()> {
        let head = link_head(self.index, flags, libc::IFF_UP as u32);
        self.tell(Message::new(RTM_NEWLINK, 0, &head), action)
    }

    fn address(&self, kind: u16, flags: u16, address: IpAddr, prefix: u8) -> Message {
        let [a, b, c, d] = self.index.to_ne_bytes();
        let nodad = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
        let head = [family(&address), prefix, nodad, 0, a, b, c, d];
        let mut message = Message::new(kind, flags, &head);
        message.attribute(IFA_LOCAL, &octets(&address));
        message.attribute(IFA_ADDRESS, &octets(&address));
        message
    }

    fn tell(&self, message: Message, action: &'static str) -> Result<()> {
        Netlink::open(&self.kernel)
            .and_then(|netlink| netlink.tell(message))
            .map_err(|errno| on(errno, action, &self.name))
    }
}

/// `struct rtmsg`, and by whom.
fn route(network: IpAddr, prefix: u8, gateway: IpAddr) -> Message {
    let head = [
        family(&network),
        prefix,
        0,
        0,
        RT_TABLE_MAIN,
        RTPROT_STATIC,
        0,
        RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let mut message = Message::new(RTM_NEWROUTE, Message::CREATE, &head);
    if prefix > 0 {
        message.attribute(RTA_DST, &octets(&network));
    }
    message.attribute(RTA_GATEWAY, &octets(&gateway));
    message
}

fn tell_route(netlink: &Netlink, message: Message, network: IpAddr, prefix: u8) -> Result<()> {
    let told = netlink.tell(message);
    told.map_err(|errno| on(errno, "add a route to", &format!("{network}/{prefix}")))
}

/// `struct ifinfomsg`.
pub fn link_head(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..].copy_from_slice(&change.to_ne_bytes());
    head
}

pub fn family(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

pub fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn on(errno: i32, action: &'static str, what: &str) -> Error {
    Error::new(errno, action).with_path(Path::new(what))
}
