//! The work on a frame that its receiver does not take over: checksums (RFC 1071), and
//! the cutting of large segments of TCP (v4, v6) and UDP into frames.

use crate::header::{Header, Offloads, GSO_NONE, NEEDS_CSUM};
use crate::packet::{parse, Packet, Parts};
use tane_buffers::{buffer, gather};

/// Memory for frames that are worked on, to be used again.
#[derive(Debug, Default)]
pub struct Scratch {
    whole: Vec<u8>,
    head: Vec<u8>,
}

/// How many frames a receiver with these offloads gets of this one.
pub fn count(packet: &Packet, takes: Offloads) -> usize {
    let header = packet.header();
    if takes.take(&header) || header.gso_type == GSO_NONE {
        return 1;
    }
    let payload = packet.len().saturating_sub(header.hdr_len.into());
    payload.div_ceil(usize::from(header.gso_size).max(1))
}

/// Hand `packet` on to a receiver with these offloads: as it is, or as what it is made
/// of. Ends when `hand_on` says `false`; `false` also for a guest's frame that changed
/// its nature since it was looked at.
pub fn adapt(
    packet: &Packet,
    takes: Offloads,
    scratch: &mut Scratch,
    mut hand_on: impl FnMut(&Packet) -> bool,
) -> bool {
    let header = packet.header();
    if takes.take(&header) {
        return hand_on(packet);
    }
    // From here on nobody else changes it.
    let Scratch { whole, head } = scratch;
    whole.resize(packet.len(), 0);
    // SAFETY: a packet's buffers are readable.
    unsafe { gather(packet.frame(), whole) };
    if header.gso_type == GSO_NONE {
        complete(whole, &header);
        return send(&[whole], &mut hand_on);
    }
    let Ok(parts) = parse(&header, &whole[..whole.len().min(256)], whole.len()) else {
        return false;
    };
    let (front, payload) = whole.split_at(parts.payload);
    let last = payload.len().div_ceil(header.gso_size.into()) - 1;
    let cut = payload.chunks(header.gso_size.into()).enumerate();
    let mut all = true;
    for (number, part) in cut {
        head.clear();
        head.extend_from_slice(front);
        let place = Place {
            number,
            offset: number * usize::from(header.gso_size),
            is_last: number == last,
        };
        write_head(head, &parts, part, &place);
        all = send(&[head, part], &mut hand_on);
        if !all {
            break;
        }
    }
    all
}

fn send(parts: &[&[u8]], hand_on: &mut impl FnMut(&Packet) -> bool) -> bool {
    let buffers: [libc::iovec; 2] =
        std::array::from_fn(|i| buffer(parts.get(i).copied().unwrap_or_default()));
    // SAFETY: memory of ours, borrowed meanwhile and only read.
    let packet = unsafe { Packet::new(Header::default(), &buffers[..parts.len()]) };
    packet.is_ok_and(|packet| hand_on(&packet))
}

/// Which of the segments.
struct Place {
    number: usize,
    offset: usize,
    is_last: bool,
}

/// Make the headers those of one segment. `head` has all of them, of the whole.
fn write_head(head: &mut [u8], parts: &Parts, payload: &[u8], place: &Place) {
    let put = |head: &mut [u8], at: usize, word: u16| {
        head[at..at + 2].copy_from_slice(&word.to_be_bytes());
    };
    let get = |head: &[u8], at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let ip_len = head.len() - parts.ip + payload.len();
    let &Parts { ip, transport, .. } = parts;
    if parts.v6 {
        put(head, ip + 4, (ip_len - 40) as u16);
    } else {
        put(head, ip + 2, ip_len as u16);
        let id = get(head, ip + 4).wrapping_add(place.number as u16);
        put(head, ip + 4, id);
        put(head, ip + 10, 0);
        let sum = fold(sum(0, &head[ip..transport]));
        put(head, ip + 10, !sum);
    }
    let (sum_at, protocol) = if parts.tcp {
        let sequence = &mut head[transport + 4..transport + 8];
        let number = u32::from_be_bytes(sequence.try_into().expect("four bytes"));
        let number = number.wrapping_add(place.offset as u32);
        sequence.copy_from_slice(&number.to_be_bytes());
        const FIN_PSH: u8 = 0x09;
        const CWR: u8 = 0x80;
        if !place.is_last {
            head[transport + 13] &= !FIN_PSH;
        }
        if place.number > 0 {
            head[transport + 13] &= !CWR;
        }
        (transport + 16, 6)
    } else {
        put(head, transport + 4, (8 + payload.len()) as u16);
        (transport + 6, 17)
    };
    put(head, sum_at, 0);
    let len = head.len() - transport + payload.len();
    let addresses = match parts.v6 {
        true => &head[ip + 8..ip + 40],
        false => &head[ip + 12..ip + 20],
    };
    let pseudo = sum(protocol + len as u64, addresses);
    // Headers of TCP and UDP have an even length, so the payload starts a word.
    let total = sum(sum(pseudo, &head[transport..]), payload);
    put(head, sum_at, finished(total, parts.tcp));
}

/// Compute a checksum of which only the pseudo header is there.
fn complete(frame: &mut [u8], header: &Header) {
    debug_assert!(header.flags & NEEDS_CSUM != 0);
    let start = usize::from(header.csum_start);
    let at = start + usize::from(header.csum_offset);
    const UDP_OFFSET: u16 = 6;
    let value = finished(sum(0, &frame[start..]), header.csum_offset != UDP_OFFSET);
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The checksum of this sum. UDP's 0 means that there is none, and what is summed up
/// to 0 is sent as its other form.
fn finished(sum: u64, zero_allowed: bool) -> u16 {
    match !fold(sum) {
        0 if !zero_allowed => 0xffff,
        value => value,
    }
}

/// Add up words in network order; a byte that is left over is the first of one.
fn sum(start: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut sum = words.fold(start, |sum, word| {
        sum + u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    });
    for pair in rest.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    sum
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
