//! Disk images inside compressed streams: read only.
//!
//! A stream that was written in pieces is read in pieces, as they are needed.
//! Any other has to be unpacked before its end can be seen, into a temporary
//! file that has no name and takes no room for zeros.
//!
//! ```text
//! pieces.rs  a stream of pieces
//!   xz.rs zstd.rs bgzf.rs   how each format tells where they are
//! unpack.rs  any other stream
//! pack.rs    making one
//! ```

mod bgzf;
mod pack;
mod pieces;
mod unpack;
mod xz;
mod zstd;

use crate::backend::Backend;
use crate::format::Format;
pub use pack::Packer;
use pieces::Pieces;
use std::io;
use std::sync::Arc;
pub use unpack::{compression, decompressed, most_unpacked};

/// Open the stream in `file`; `say` is told if it has to be unpacked first.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    format: Format,
    say: &dyn Fn(&str),
) -> io::Result<Arc<dyn Backend>> {
    let pieces = match format {
        Format::Xz => xz::pieces(&file)?.map(|list| Pieces::new(file.clone(), list, xz::unpack)),
        Format::Zstd => {
            zstd::pieces(&file)?.map(|list| Pieces::new(file.clone(), list, zstd::unpack))
        }
        Format::Gzip => {
            bgzf::pieces(&file)?.map(|list| Pieces::new(file.clone(), list, bgzf::unpack))
        }
        _ => None,
    };
    match pieces {
        Some(pieces) => Ok(Arc::new(pieces)),
        None => unpack::unpack(file, format, say),
    }
}
