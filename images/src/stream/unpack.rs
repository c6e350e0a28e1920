//! A stream that has to be unpacked: into a temporary file without a name.

use crate::backend::Backend;
use crate::buffers::buffer_mut;
use crate::format::Format;
use crate::raw::{Access, Raw};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Zeros of this length become holes, in bytes.
const HOLE: usize = 64 << 10;

pub(super) fn unpack(
    file: Arc<dyn Backend>,
    format: Format,
    say: &dyn Fn(&str),
) -> io::Result<Arc<dyn Backend>> {
    let place = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    say(&format!(
        "is {format} in one piece: unpacking it into a temporary file in {} first",
        place.display()
    ));
    let input = BufReader::with_capacity(1 << 18, Input { file, at: 0 });
    let mut stream = decoder(input, format)?;
    let to = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(&place)
        .map_err(|e| {
            let text = format!(
                "cannot be unpacked into {}: {e}; set TMPDIR to another place",
                place.display()
            );
            io::Error::new(e.kind(), text)
        })?;
    copy(&mut *stream, &to).map_err(|e| {
        let hint = match e.kind() {
            io::ErrorKind::StorageFull => "; set TMPDIR to a place with more room",
            _ => "",
        };
        let text = format!("cannot be unpacked into {}: {e}{hint}", place.display());
        io::Error::new(e.kind(), text)
    })?;
    let access = Access {
        write: false,
        direct: false,
    };
    Raw::from_file(to, access).map(|raw| Arc::new(raw) as Arc<dyn Backend>)
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
    let head = input.fill_buf()?;
    let format = match head {
        [0x1f, 0x8b, ..] => Format::Gzip,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Format::Xz,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Format::Zstd,
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => Format::Bzip2,
        _ => return Ok(Box::new(input)),
    };
    decoder(input, format)
}

fn copy(from: &mut dyn Read, to: &File) -> io::Result<()> {
    let mut piece = vec![0; HOLE];
    let mut at = 0;
    loop {
        let mut len = 0;
        while len < HOLE {
            match from.read(&mut piece[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if piece[..len].iter().any(|b| *b != 0) {
            to.write_all_at(&piece[..len], at)?;
        }
        at += len as u64;
        if len < HOLE {
            return to.set_len(at);
        }
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
