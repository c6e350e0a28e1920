//! A stream that has to be unpacked: into a temporary file without a name.

use crate::backend::Backend;
use crate::buffers::buffer_mut;
use crate::format::Format;
use crate::temporary;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// What a byte of a stream comes to at most, but for zeros, beside so many bytes for any
/// stream: disks of people are at a tenth of that, and who fills a host's disk is far
/// beyond.
const RATIO: u64 = 200;
const ROOM: u64 = 256 << 20;

/// The bytes, but for zeros, that a stream of this length may come to when it is unpacked.
pub fn most_unpacked(packed: u64) -> u64 {
    ROOM.saturating_add(packed.saturating_mul(RATIO))
}

pub(super) fn unpack(
    file: Arc<dyn Backend>,
    format: Format,
    say: &dyn Fn(&str),
) -> io::Result<Arc<dyn Backend>> {
    say(&format!(
        "is {format} in one piece: unpacking it into a temporary file in {} first",
        temporary::place().display()
    ));
    let most = most_unpacked(file.size());
    let input = BufReader::with_capacity(1 << 18, Input { file, at: 0 });
    let mut stream = decoder(input, format)?;
    temporary::fill(&mut *stream, "unpacked", most)
}

fn decoder<'a>(
    input: impl BufRead + Send + 'a,
    format: Format,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match format {
        Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        Format::Xz => {
            let memory = super::xz::MEMORY;
            let flags = liblzma::stream::CONCATENATED;
            let decoder = liblzma::stream::Stream::new_stream_decoder(memory, flags)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, decoder))
        }
        Format::Zstd => Box::new(::zstd::stream::read::Decoder::with_buffer(input)?),
        Format::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        other => return Err(io::Error::other(format!("{other} is no stream"))),
    })
}

/// What a stream holds, unpacked if its first bytes say that it is compressed by
/// gzip, xz, zstd or bzip2; for streams that are read once, from start to end.
pub fn decompressed<'a>(
    mut input: impl BufRead + Send + 'a,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    match compression(input.fill_buf()?) {
        Some(format) => decoder(input, format),
        None => Ok(Box::new(input)),
    }
}

/// How a stream is compressed that begins with these bytes, of which eight tell.
pub fn compression(head: &[u8]) -> Option<Format> {
    match head {
        [0x1f, 0x8b, ..] => Some(Format::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Format::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Format::Zstd),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => Some(Format::Bzip2),
        _ => None,
    }
}

struct Input {
    file: Arc<dyn Backend>,
    at: u64,
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.file.size().saturating_sub(self.at);
        let n = left.min(to.len() as u64) as usize;
        if n > 0 {
            self.file.read(&[buffer_mut(&mut to[..n])], self.at)?;
            self.at += n as u64;
        }
        Ok(n)
    }
}
