//! A frame and its header, which agree with each other.

use crate::header::{self, Header};
use std::fmt;
use tane_buffers::{gather, total, Buffers};

/// Destination, source, type.
pub const ETHERNET: usize = 14;
/// Most bytes of a frame: an IP packet of the greatest length with two VLAN tags.
pub const MAX_FRAME: usize = 65535 + ETHERNET + 8;
/// A segment of so few bytes would make thousands of frames of one.
const MAX_SEGMENTS: usize = 8192;
/// Ethernet, two VLAN tags, IPv4 with all options or IPv6 with some extensions, TCP
/// with all options.
const HEAD: usize = 256;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// What is wrong with a frame or its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Where a frame's parts are, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The IP header.
    pub ip: usize,
    /// IPv6.
    pub v6: bool,
    /// TCP, or else UDP.
    pub tcp: bool,
    /// The header of that.
    pub transport: usize,
    /// What is cut into segments.
    pub payload: usize,
}

/// A frame that was looked at: its length is possible, and what the header says of
/// checksum and segments lies inside it and fits what the frame is. The bytes are a
/// guest's and may have changed since.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    frame: Buffers<'a>,
    len: usize,
}

impl<'a> Packet<'a> {
    /// A frame as it is on a wire, or one with work left to do.
    ///
    /// # Safety
    /// The buffers are readable memory that no Rust reference to change it covers, as
    /// long as the packet is used.
    pub unsafe fn new(header: Header, frame: Buffers<'a>) -> Result<Self, Malformed> {
        let len = total(frame);
        if !(ETHERNET..=MAX_FRAME).contains(&len) {
            return Err(Malformed("a frame that is too short or too long"));
        }
        let mut header = header;
        if header.is_plain() {
            // Nothing else means anything then, and a receiver may not know that.
            header = Header {
                flags: header.flags & header::DATA_VALID,
                ..Header::default()
            };
        } else {
            let mut head = [0; HEAD];
            let head = &mut head[..len.min(HEAD)];
            // SAFETY: as the caller promises.
            unsafe { gather(frame, head) };
            header = check(header, head, len)?;
        }
        Ok(Self { header, frame, len })
    }

    /// What is left to do.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The frame, from the destination's address on.
    pub fn frame(&self) -> Buffers<'a> {
        self.frame
    }

    /// Its bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// The header as it may be handed on, for a frame of `len` bytes that starts with `head`.
fn check(header: Header, head: &[u8], len: usize) -> Result<Header, Malformed> {
    let (start, offset) = (
        usize::from(header.csum_start),
        usize::from(header.csum_offset),
    );
    if header.flags & header::NEEDS_CSUM == 0 {
        return Err(Malformed("segments without a checksum"));
    }
    if start < ETHERNET || start + offset + 2 > len {
        return Err(Malformed("a checksum outside of its frame"));
    }
    let flags = header::NEEDS_CSUM;
    if header.gso_type == header::GSO_NONE {
        return Ok(Header {
            flags,
            hdr_len: 0,
            gso_size: 0,
            ..header
        });
    }
    let parts = parse(&header, head, len)?;
    Ok(Header {
        flags,
        hdr_len: parts.payload as u16,
        ..header
    })
}

/// The parts of a frame that is to be cut into segments. `head` has the frame's first
/// bytes, `len` of which there are.
pub fn parse(header: &Header, head: &[u8], len: usize) -> Result<Parts, Malformed> {
    let byte = |at: usize| {
        let byte = head.get(at).copied();
        byte.ok_or(Malformed("segments of a frame that ends in its headers"))
    };
    let word = |at| Ok((u16::from(byte(at)?) << 8) | u16::from(byte(at + 1)?));
    let (v6, tcp) = match header.gso_type {
        header::GSO_UDP_L4 => (None, false),
        _ => match header.kind() {
            header::GSO_TCPV4 => (Some(false), true),
            header::GSO_TCPV6 => (Some(true), true),
            _ => return Err(Malformed("segments of an unknown kind")),
        },
    };
    let mut ip = ETHERNET;
    let mut kind = word(ip - 2)?;
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8) {
            ip += 4;
            kind = word(ip - 2)?;
        }
    }
    let is_v6 = match kind {
        0x0800 => false,
        0x86dd => true,
        _ => return Err(Malformed("segments of what is not IP")),
    };
    if v6.is_some_and(|v6| v6 != is_v6) || byte(ip)? >> 4 != if is_v6 { 6 } else { 4 } {
        return Err(Malformed("segments of another version of IP"));
    }
    let (transport, wanted) = (usize::from(header.csum_start), if tcp { TCP } else { UDP });
    if is_v6 {
        follow(&byte, ip, transport, wanted)?;
    } else {
        let words = usize::from(byte(ip)? & 15);
        if words < 5 || ip + 4 * words != transport || byte(ip + 9)? != wanted {
            return Err(Malformed("segments of another protocol"));
        }
        // Fragments have no transport header, but for the first.
        if word(ip + 6)? & 0x3fff != 0 {
            return Err(Malformed("segments of a fragment"));
        }
    }
    let (size, offset) = match tcp {
        true => (4 * usize::from(byte(transport + 12)? >> 4), 16),
        false => (8, 6),
    };
    if tcp && size < 20 || usize::from(header.csum_offset) != offset {
        return Err(Malformed("segments with a checksum elsewhere"));
    }
    let payload = transport + size;
    if payload > head.len() || payload >= len {
        return Err(Malformed("segments without a payload"));
    }
    let each = usize::from(header.gso_size);
    if each == 0 || (len - payload).div_ceil(each) > MAX_SEGMENTS {
        return Err(Malformed("segments too small to be sent"));
    }
    Ok(Parts {
        ip,
        v6: is_v6,
        tcp,
        transport,
        payload,
    })
}

/// Go along the extension headers of IPv6 (RFC 8200, 4) up to the transport's.
fn follow(
    byte: &dyn Fn(usize) -> Result<u8, Malformed>,
    ip: usize,
    transport: usize,
    wanted: u8,
) -> Result<(), Malformed> {
    let (mut at, mut next) = (ip + 40, byte(ip + 6)?);
    // Each step goes on by 8 bytes at least, and the head ends.
    while at < transport && matches!(next, 0 | 43 | 60) {
        next = byte(at)?;
        at += 8 * (usize::from(byte(at + 1)?) + 1);
    }
    match at == transport && next == wanted {
        true => Ok(()),
        false => Err(Malformed("segments of another protocol")),
    }
}
