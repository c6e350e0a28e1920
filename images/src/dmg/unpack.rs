//! The ways in which a DMG's chunks are compressed.

use crate::pages::invalid;
use std::fmt;
use std::io::{self, Read};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Adc,
    Zlib,
    Bzip2,
    Lzfse,
    Xz,
}

impl Packing {
    /// By a chunk's kind.
    pub fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            0x8000_0004 => Self::Adc,
            0x8000_0005 => Self::Zlib,
            0x8000_0006 => Self::Bzip2,
            0x8000_0007 => Self::Lzfse,
            0x8000_0008 => Self::Xz,
            _ => return None,
        })
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adc => "ADC",
            Self::Zlib => "zlib",
            Self::Bzip2 => "bzip2",
            Self::Lzfse => "LZFSE",
            Self::Xz => "xz",
        })
    }
}

/// `packed`, which becomes `len` bytes.
pub(super) fn unpack(packing: Packing, packed: &[u8], len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    match packing {
        Packing::Adc => return adc(packed, len),
        Packing::Zlib => whole(flate2::read::ZlibDecoder::new(packed), &mut bytes)?,
        Packing::Bzip2 => whole(bzip2::read::BzDecoder::new(packed), &mut bytes)?,
        Packing::Lzfse => {
            let mut decoder = lzfse_rust::LzfseRingDecoder::default();
            whole(decoder.reader_bytes(packed), &mut bytes)?;
        }
        Packing::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(64 << 20, 0)?;
            let decoder = liblzma::bufread::XzDecoder::new_stream(packed, stream);
            whole(decoder, &mut bytes)?;
        }
    }
    Ok(bytes)
}

/// Exactly so many bytes, and what stands behind them to check them.
fn whole(mut stream: impl Read, to: &mut [u8]) -> io::Result<()> {
    stream.read_exact(to)?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(invalid("is longer than it says")),
    }
}

/// Apple Data Compression: bytes as they are, and copies of what came before.
fn adc(mut packed: &[u8], len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let (copied, distance);
        match *packed {
            [first, ref rest @ ..] if first & 0x80 != 0 => {
                let count = usize::from(first & 0x7f) + 1;
                let literal = rest.get(..count).ok_or(io::ErrorKind::UnexpectedEof)?;
                bytes.extend_from_slice(literal);
                packed = &rest[count..];
                continue;
            }
            [first, high, low, ref rest @ ..] if first & 0x40 != 0 => {
                copied = usize::from(first & 0x3f) + 4;
                distance = usize::from(u16::from_be_bytes([high, low])) + 1;
                packed = rest;
            }
            [first, low, ref rest @ ..] if first & 0x40 == 0 => {
                copied = usize::from(first >> 2) + 3;
                distance = (usize::from(first & 3) << 8 | usize::from(low)) + 1;
                packed = rest;
            }
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let start = bytes.len().checked_sub(distance);
        let start = start.ok_or_else(|| invalid("copies from before its start"))?;
        // It may copy what it has just copied.
        for at in start..start + copied {
            bytes.push(bytes[at]);
        }
    }
    match bytes.len() == len {
        true => Ok(bytes),
        false => Err(invalid("is longer than it says")),
    }
}
