//! Streams that are compressed while they are written.

use crate::format::Format;
use std::io::{self, Write};

/// Compresses what is written to it; [`Packer::finish`] ends the stream.
pub enum Packer<W: Write> {
    Plain(W),
    Gzip(flate2::write::GzEncoder<W>),
    Xz(liblzma::write::XzEncoder<W>),
    Zstd(::zstd::stream::write::Encoder<'static, W>),
    Bzip2(bzip2::write::BzEncoder<W>),
}

/// As `xz` does unless told otherwise.
const XZ_LEVEL: u32 = 6;

impl<W: Write> Packer<W> {
    /// `format`: gzip, xz, zstd or bzip2; None leaves the bytes as they are. The levels are
    /// those of the programs of these names.
    pub fn new(to: W, format: Option<Format>) -> io::Result<Self> {
        Ok(match format {
            None => Self::Plain(to),
            Some(Format::Gzip) => {
                let level = flate2::Compression::default();
                Self::Gzip(flate2::write::GzEncoder::new(to, level))
            }
            Some(Format::Xz) => Self::Xz(liblzma::write::XzEncoder::new(to, XZ_LEVEL)),
            Some(Format::Zstd) => {
                let mut encoder = ::zstd::stream::write::Encoder::new(to, 0)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Some(Format::Bzip2) => {
                let level = bzip2::Compression::best();
                Self::Bzip2(bzip2::write::BzEncoder::new(to, level))
            }
            Some(other) => {
                let text = format!("{other} is no way to compress a stream");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        })
    }

    /// Writes what is left, and the end.
    pub fn finish(self) -> io::Result<W> {
        let mut to = match self {
            Self::Plain(to) => to,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Xz(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
            Self::Bzip2(encoder) => encoder.finish()?,
        };
        to.flush()?;
        Ok(to)
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(to) => to.write(from),
            Self::Gzip(encoder) => encoder.write(from),
            Self::Xz(encoder) => encoder.write(from),
            Self::Zstd(encoder) => encoder.write(from),
            Self::Bzip2(encoder) => encoder.write(from),
        }
    }

    /// Compressed, what is on its way stays there until [`Packer::finish`].
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.flush(),
            _ => Ok(()),
        }
    }
}
