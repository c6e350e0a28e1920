//! Features and configuration of the network device (virtio 1.2, 5.1.3, 5.1.4).

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use tane_net::Offloads;

/// Most entries of the queues for packets.
pub const QUEUE_SIZE: u16 = 256;
/// Most entries of the control queue.
pub const CONTROL_SIZE: u16 = 64;

pub const F_CSUM: u64 = 1;
pub const F_GUEST_CSUM: u64 = 1 << 1;
const F_CTRL_GUEST_OFFLOADS: u64 = 1 << 2;
const F_MTU: u64 = 1 << 3;
const F_MAC: u64 = 1 << 5;
pub const F_GUEST_TSO4: u64 = 1 << 7;
pub const F_GUEST_TSO6: u64 = 1 << 8;
pub const F_GUEST_ECN: u64 = 1 << 9;
const F_HOST_TSO4: u64 = 1 << 11;
const F_HOST_TSO6: u64 = 1 << 12;
const F_HOST_ECN: u64 = 1 << 13;
pub const F_MRG_RXBUF: u64 = 1 << 15;
const F_STATUS: u64 = 1 << 16;
const F_CTRL_VQ: u64 = 1 << 17;
const F_CTRL_RX: u64 = 1 << 18;
const F_GUEST_ANNOUNCE: u64 = 1 << 21;
const F_CTRL_MAC_ADDR: u64 = 1 << 23;
pub const F_GUEST_USO4: u64 = 1 << 54;
pub const F_GUEST_USO6: u64 = 1 << 55;
const F_HOST_USO: u64 = 1 << 56;

/// Where the configuration holds the status, a u16.
pub const STATUS: usize = 6;
pub const LINK_UP: u16 = 1;
pub const ANNOUNCE: u16 = 2;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// One that no other device of this process has: locally administered (its second
    /// bit), the rest from the process's number and a count.
    pub fn generated() -> Mac {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let [a, b, c, d] = std::process::id().to_be_bytes();
        let [_, _, e, f] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Mac([0x02 | (a ^ b) << 2, 0x74, c, d, e, f])
    }

    /// Whether it is that of a group of stations.
    pub fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a network device shows itself.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// Its address; `None`: [`Mac::generated`].
    pub mac: Option<Mac>,
    /// The largest IP packet, in bytes, from 68 to 65535.
    pub mtu: u16,
    /// What of the work on packets it takes over from its driver.
    pub transmit: Offloads,
    /// What of it the driver may take over.
    pub receive: Offloads,
    /// Packets larger than a buffer of the driver's lie in several.
    pub mergeable: bool,
}

impl Default for NetOptions {
    fn default() -> Self {
        Self {
            mac: None,
            mtu: 1500,
            transmit: Offloads::ALL,
            receive: Offloads::ALL,
            mergeable: true,
        }
    }
}

/// The feature bits that are the device type's own.
pub fn features(options: &NetOptions) -> u64 {
    let mut features = F_MTU | F_MAC | F_STATUS | F_CTRL_VQ | F_CTRL_RX;
    features |= F_CTRL_MAC_ADDR | F_CTRL_GUEST_OFFLOADS | F_GUEST_ANNOUNCE;
    let mut add = |yes: bool, bits: u64| features |= if yes { bits } else { 0 };
    add(options.mergeable, F_MRG_RXBUF);
    let (send, receive) = (options.transmit, options.receive);
    // Everything else needs checksums (5.1.3.1).
    add(send.checksum, F_CSUM);
    add(send.checksum && send.tso4, F_HOST_TSO4);
    add(send.checksum && send.tso6, F_HOST_TSO6);
    add(
        send.checksum && send.ecn && (send.tso4 || send.tso6),
        F_HOST_ECN,
    );
    add(send.checksum && send.uso, F_HOST_USO);
    add(receive.checksum, F_GUEST_CSUM);
    add(receive.checksum && receive.tso4, F_GUEST_TSO4);
    add(receive.checksum && receive.tso6, F_GUEST_TSO6);
    let ecn = receive.ecn && (receive.tso4 || receive.tso6);
    add(receive.checksum && ecn, F_GUEST_ECN);
    add(receive.checksum && receive.uso, F_GUEST_USO4 | F_GUEST_USO6);
    features
}

/// What the driver takes over, by its features or by the offloads that it set.
pub fn guest_offloads(bits: u64) -> Offloads {
    let uso = F_GUEST_USO4 | F_GUEST_USO6;
    Offloads {
        checksum: bits & F_GUEST_CSUM != 0,
        tso4: bits & F_GUEST_TSO4 != 0,
        tso6: bits & F_GUEST_TSO6 != 0,
        ecn: bits & F_GUEST_ECN != 0,
        uso: bits & uso == uso,
    }
}

/// `struct virtio_net_config`, up to the MTU.
pub fn config(mac: Mac, status: u16, mtu: u16) -> [u8; 12] {
    let mut config = [0; 12];
    config[..6].copy_from_slice(&mac.0);
    config[STATUS..8].copy_from_slice(&status.to_le_bytes());
    config[8..10].copy_from_slice(&1u16.to_le_bytes());
    config[10..12].copy_from_slice(&mtu.to_le_bytes());
    config
}
