//! A kernel's network: interfaces, addresses and routes, and sockets of its own, the way
//! [`std::net`] offers the host's.
//!
//! ```no_run
//! use std::io::Write;
//! use tane::net::{NicOptions, Pair, TcpListener, TcpStream};
//! use tane::Kernel;
//!
//! let (a, b) = (Kernel::boot()?, Kernel::boot()?);
//! let (wire_a, wire_b) = Pair::new();
//! let nic_a = a.add_nic(wire_a, &NicOptions::default())?;
//! let nic_b = b.add_nic(wire_b, &NicOptions::default())?;
//! for (nic, address) in [(&nic_a, [10, 0, 0, 1]), (&nic_b, [10, 0, 0, 2])] {
//!     nic.add_address(address, 24)?;
//!     nic.set_up()?;
//! }
//! let listener = TcpListener::bind(&b, ([10, 0, 0, 2], 80))?;
//! let mut stream = TcpStream::connect(&a, ([10, 0, 0, 2], 80))?;
//! stream.write_all(b"through two Linux")?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! nic.rs       a network interface card, and the wire it is at
//! link.rs      an interface, its addresses, a kernel's routes
//! netlink.rs   how Linux is asked for that: rtnetlink(7)
//! generic.rs   and for what has a name there instead of a number
//! ethtool.rs   an interface's features: ethtool(8)
//! impair.rs    a worse network: tc-netem(8)
//! address.rs   socket addresses as Linux has them
//! socket.rs    what sockets of all kinds have
//! tcp.rs udp.rs
//! tcp_info.rs  what TCP knows of a connection
//! mptcp.rs     which addresses connections over several paths may take
//! mptcp_info.rs  what is known of such a connection
//! names.rs     names, and what stands for addresses
//! watched.rs   sockets that the host's epoll waits for
//! gateway/     user mode: the host's network through ordinary sockets
//! ```
//!
//! A wire has a [`Pair`] end, a [`Tap`] interface of the host's, a Unix [`Stream`] or
//! [`Datagram`] socket with passt, gvproxy or QEMU behind it, or whatever implements
//! [`Wire`] at its other end; a [`Capture`] around any of them writes pcapng.
//!
//! Calls wait, unless told otherwise. [`Watched`] is for who waits for many at once: tokio,
//! or a poll(2) of one's own.

mod address;
mod ethtool;
mod gateway;
mod generic;
mod impair;
mod link;
mod mptcp;
mod mptcp_info;
mod names;
mod netlink;
mod nic;
mod socket;
mod tcp;
mod tcp_info;
mod udp;
mod watched;

pub use gateway::UserNic;
pub use impair::{Impairment, NoImpairment};
pub use link::Link;
pub use mptcp::{Endpoint, EndpointFlags, Mptcp, MptcpLimits, NoEndpointFlags};
pub use mptcp_info::{MptcpInfo, Subflow};
pub use names::ToAddresses;
pub use nic::Nic;
pub use socket::{End, Socket};
pub use tane_devices::{Mac, NetCounters, NetOptions as NicOptions};
pub use tane_net::user::{
    addresses, line, Broker, Forward, Network, NoForward, NoRule, Rule, Target, UserNetwork,
};
pub use tane_net::{
    header, Capture, Datagram, Header, Malformed, Offloads, Packet, Pair, Port, Sent, Stream, Tap,
    Wire,
};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use tcp_info::TcpInfo;
pub use udp::UdpSocket;
pub use watched::Watched;
