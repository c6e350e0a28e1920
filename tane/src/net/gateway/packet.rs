//! The few packets that the gateway reads and writes itself: those that begin something,
//! and ICMP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const ECHO_REPLY: u8 = 0;
const ECHO_REPLY6: u8 = 129;
const UNREACHABLE: u8 = 3;
const UNREACHABLE6: u8 = 1;
const HOPS: u8 = 64;

/// Who sends, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// An echo request.
#[derive(Debug, PartialEq, Eq)]
pub struct Echo<'p> {
    pub from: IpAddr,
    pub to: IpAddr,
    pub id: u16,
    /// ICMP from its first byte on.
    pub message: &'p [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Addresses, protocol and what is in it.
fn ip(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8])> {
    let array = |at: usize| -> Option<[u8; 4]> { packet.get(at..at + 4)?.try_into().ok() };
    let array6 = |at: usize| -> Option<[u8; 16]> { packet.get(at..at + 16)?.try_into().ok() };
    match packet.first()? >> 4 {
        4 => {
            let length = usize::from(packet[0] & 15) * 4;
            let (from, to) = (array(12)?, array(16)?);
            Some((from.into(), to.into(), packet[9], packet.get(length..)?))
        }
        6 => {
            let (from, to) = (array6(8)?, array6(24)?);
            let (mut next, mut rest) = (packet[6], packet.get(40..)?);
            // Hop-by-hop, routing and destination options lead to the next header.
            while matches!(next, 0 | 43 | 60) {
                let length = (usize::from(*rest.get(1)?) + 1) * 8;
                next = rest[0];
                rest = rest.get(length..)?;
            }
            Some((from.into(), to.into(), next, rest))
        }
        _ => None,
    }
}

/// The ends of a connection that begins with this packet.
pub fn connection(packet: &[u8]) -> Option<Pair> {
    let (from, to, protocol, rest) = ip(packet)?;
    let (source, target) = (word(rest, 0)?, word(rest, 2)?);
    (protocol == TCP).then(|| Pair {
        from: SocketAddr::new(from, source),
        to: SocketAddr::new(to, target),
    })
}

/// An echo request, if it is one.
pub fn echo(packet: &[u8]) -> Option<Echo<'_>> {
    let (from, to, protocol, message) = ip(packet)?;
    let id = word(message, 4)?;
    (matches!(protocol, ICMP | ICMP6) && message.len() >= 8).then_some(Echo {
        from,
        to,
        id,
        message,
    })
}

fn sum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn header4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, length: usize) -> Vec<u8> {
    let [high, low] = ((20 + length) as u16).to_be_bytes();
    // Linux fills in its checksum.
    let mut packet = vec![0x45, 0, high, low, 0, 0, 0, 0, HOPS, protocol, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet
}

fn header6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, length: usize) -> Vec<u8> {
    let [high, low] = (length as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, high, low, protocol, HOPS];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet
}

/// A packet of ICMP, from its IP header on, its checksum made.
fn icmp(from: IpAddr, to: IpAddr, mut message: Vec<u8>) -> Option<Vec<u8>> {
    message[2..4].fill(0);
    let length = message.len();
    let (mut packet, check) = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (header4(from, to, ICMP, length), sum(&[&message])),
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [_, _, high, low] = (length as u32).to_be_bytes();
            let pseudo = [0, 0, high, low, 0, 0, 0, ICMP6];
            let parts = [&from.octets()[..], &to.octets(), &pseudo, &message];
            (header6(from, to, ICMP6, length), sum(&parts))
        }
        _ => return None,
    };
    message[2..4].copy_from_slice(&check);
    packet.extend(message);
    Some(packet)
}

/// The answer to an echo request: `message` is what the host's socket got.
pub fn reply(from: IpAddr, to: IpAddr, id: u16, message: &[u8]) -> Option<Vec<u8>> {
    let expected = if from.is_ipv4() {
        ECHO_REPLY
    } else {
        ECHO_REPLY6
    };
    if message.len() < 8 || message[0] != expected {
        return None;
    }
    let mut message = message.to_vec();
    message[4..6].copy_from_slice(&id.to_be_bytes());
    icmp(from, to, message)
}

/// What tells who sends datagrams that this error came of them; `None`: they are lost.
pub fn unreachable(pair: &Pair, errno: i32) -> Option<Vec<u8>> {
    let (code, code6) = match errno {
        libc::ECONNREFUSED => (3, 4),
        libc::EHOSTUNREACH => (1, 3),
        libc::ENETUNREACH | libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL => (0, 0),
        libc::EACCES | libc::EPERM => (13, 1),
        _ => return None,
    };
    let (kind, code, begun) = match (pair.from.ip(), pair.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (UNREACHABLE, code, header4(from, to, 17, 8)),
        (IpAddr::V6(from), IpAddr::V6(to)) => (UNREACHABLE6, code6, header6(from, to, 17, 8)),
        _ => return None,
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(begun);
    message.extend(pair.from.port().to_be_bytes());
    message.extend(pair.to.port().to_be_bytes());
    message.extend([0, 8, 0, 0]);
    icmp(pair.to.ip(), pair.from.ip(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_cut_or_none_are_no_packets() {
        let pair = Pair {
            from: "10.0.2.15:1000".parse().unwrap(),
            to: "192.0.2.1:53".parse().unwrap(),
        };
        let packet = unreachable(&pair, libc::ECONNREFUSED).unwrap();
        assert_eq!(echo(&packet).unwrap().from, pair.to.ip());
        assert_eq!(connection(&packet), None);
        for length in 0..packet.len() {
            echo(&packet[..length]);
            connection(&packet[..length]);
        }
        let mut six = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        six.resize(40, 1);
        six.extend([6, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 80]);
        assert_eq!(connection(&six).unwrap().to.port(), 80);
        six[41] = 255;
        assert_eq!(connection(&six), None);
    }

    #[test]
    fn checksums_are_those_of_rfc_1071() {
        assert_eq!(
            sum(&[&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]]),
            [0x22, 0x0d]
        );
    }
}
