//! Socket addresses as Linux has them: `struct sockaddr_in` and `sockaddr_in6`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of the larger one.
pub const SIZE: usize = 28;

/// The bytes, and how many there are.
pub fn encode(address: &SocketAddr) -> ([u8; SIZE], usize) {
    let mut bytes = [0; SIZE];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&address.ip().octets());
            (bytes, 16)
        }
        SocketAddr::V6(address) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&address.ip().octets());
            bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
            (bytes, SIZE)
        }
    }
}

/// What these bytes say, if they are an address of the Internet's.
pub fn decode(bytes: &[u8; SIZE]) -> Option<SocketAddr> {
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        libc::AF_INET => {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| bytes[4 + i]);
            Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4), word(24)).into())
        }
        _ => None,
    }
}
