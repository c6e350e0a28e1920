//! What stands before each frame (`struct virtio_net_hdr`, virtio 1.2, 5.1.6): what of
//! the work on a frame is left to whoever gets it.

/// The rest of the checksum is to be computed.
pub const NEEDS_CSUM: u8 = 1;
/// The checksum was looked at.
pub const DATA_VALID: u8 = 2;

/// One frame.
pub const GSO_NONE: u8 = 0;
/// A TCP segment over IPv4 that is several.
pub const GSO_TCPV4: u8 = 1;
/// The same over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// A UDP datagram that is several, over either.
pub const GSO_UDP_L4: u8 = 5;
/// Beside one of TCP's: the first segment has CWR set.
pub const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr_v1`, little endian; lengths in bytes. Whatever it says is its
/// sender's word until it is part of a [`Packet`](crate::Packet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`NEEDS_CSUM`], [`DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` constants.
    pub gso_type: u8,
    /// All headers, Ethernet to TCP: a hint.
    pub hdr_len: u16,
    /// Payload of each segment.
    pub gso_size: u16,
    /// Where the bytes start that are summed up.
    pub csum_start: u16,
    /// Where the sum goes, from there.
    pub csum_offset: u16,
}

impl Header {
    /// In memory, the number of buffers included.
    pub const SIZE: usize = 12;

    /// What these bytes say. The number of buffers is between driver and device.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// The bytes, with a number of buffers.
    pub fn encode(&self, buffers: u16) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [
            self.hdr_len,
            self.gso_size,
            self.csum_start,
            self.csum_offset,
            buffers,
        ];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The segmentation without [`GSO_ECN`].
    pub fn kind(&self) -> u8 {
        self.gso_type & !GSO_ECN
    }

    /// Whether there is nothing to be done.
    pub fn is_plain(&self) -> bool {
        self.gso_type == GSO_NONE && self.flags & NEEDS_CSUM == 0
    }
}

/// What of the work on a frame somebody takes over: the feature bits of virtio-net's
/// driver (virtio 1.2, 5.1.3), in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Checksums that are not complete. All others need this one.
    pub checksum: bool,
    /// TCP segments larger than a frame, over IPv4.
    pub tso4: bool,
    /// The same over IPv6.
    pub tso6: bool,
    /// Such segments with CWR set.
    pub ecn: bool,
    /// UDP datagrams that are several.
    pub uso: bool,
}

impl Offloads {
    /// All of them.
    pub const ALL: Self = Self {
        checksum: true,
        tso4: true,
        tso6: true,
        ecn: true,
        uso: true,
    };
    /// None: frames as they are on a wire.
    pub const NONE: Self = Self {
        checksum: false,
        tso4: false,
        tso6: false,
        ecn: false,
        uso: false,
    };

    /// Whether a frame with this header can be handed on as it is.
    pub fn take(&self, header: &Header) -> bool {
        let segments = match header.kind() {
            GSO_NONE => true,
            GSO_TCPV4 => self.tso4,
            GSO_TCPV6 => self.tso6,
            GSO_UDP_L4 => self.uso,
            _ => false,
        };
        let ecn = header.gso_type & GSO_ECN == 0 || self.ecn;
        segments && ecn && (self.checksum || header.flags & NEEDS_CSUM == 0)
    }
}
