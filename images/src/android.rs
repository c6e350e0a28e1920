//! Android's sparse image, which fastboot takes: runs of blocks that are there, that
//! are a word again and again, or that do not matter. After system/core's
//! sparse_format.h. Only read.

use crate::backend::{only_read, Backend};
use crate::buffers::{scatter, total, Buffers};
use crate::concat::{Concat, Part};
use crate::neighbours::Neighbours;
use crate::pages::{invalid, le32, read_exactly, unsupported};
use std::io;
use std::sync::Arc;

/// With the major version, which is the only one there is.
pub(crate) const MARK: &[u8] = b"\x3a\xff\x26\xed\x01\0";
/// Most runs that are listed.
const MOST: u32 = 1 << 20;

/// Open the sparse image in `file`. Runs that do not matter read as zero.
pub(crate) fn open(file: Arc<dyn Backend>, others: &Neighbours) -> io::Result<Arc<dyn Backend>> {
    let is_piece = |name: &String| name.contains("_sparsechunk");
    if others.names().iter().any(is_piece) {
        return Err(unsupported(
            "is one of several sparse images that make up a disk: join them first (simg2img)",
        ));
    }
    let header = read_exactly(&*file, 0, 28)?;
    let word = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (header_len, chunk_len) = (word(8), word(10));
    let block = u64::from(le32(&header, 12));
    let (blocks, chunks) = (u64::from(le32(&header, 16)), le32(&header, 20));
    if chunks > MOST {
        return Err(unsupported(format!(
            "is in {chunks} runs, which are too many"
        )));
    }
    let fits = header.starts_with(MARK) && header_len >= 28 && chunk_len >= 12;
    if !fits || block == 0 || !block.is_multiple_of(4) {
        return Err(invalid("its header makes no sense"));
    }
    let (mut parts, mut at, mut found) = (Vec::new(), header_len, 0u64);
    for _ in 0..chunks {
        let chunk = read_exactly(&*file, at, 12)?;
        let (count, whole) = (u64::from(le32(&chunk, 4)), u64::from(le32(&chunk, 8)));
        let (start, len) = (at + chunk_len, count * block);
        let stored = whole.checked_sub(chunk_len);
        let from = match (u16::from_le_bytes([chunk[0], chunk[1]]), stored) {
            (0xcac1, Some(stored)) if stored == len => {
                if start + len > file.size() {
                    let text = format!("is cut short: {len} bytes at {start} are missing");
                    return Err(invalid(text));
                }
                Some((file.clone(), start))
            }
            (0xcac2, Some(4)) => Fill::of(&read_exactly(&*file, start, 4)?),
            (0xcac3, Some(0)) => None,
            // A checksum, which nobody writes; it has no blocks.
            (0xcac4, Some(_)) if count == 0 => None,
            _ => return Err(invalid(format!("is damaged at byte {at}"))),
        };
        if len > 0 {
            parts.push(Part { len, from });
        }
        (at, found) = (at + whole, found + count);
    }
    if found > blocks {
        return Err(invalid("holds more blocks than it says"));
    }
    // What no run is about does not matter either.
    let len = (blocks - found) * block;
    parts.push(Part { len, from: None });
    Ok(Arc::new(Concat::new(parts, false)?))
}

/// A word of the host again and again.
struct Fill([u8; 4]);

impl Fill {
    /// None: it is zero.
    fn of(word: &[u8]) -> Option<(Arc<dyn Backend>, u64)> {
        let word: [u8; 4] = word.try_into().ok()?;
        (word != [0; 4]).then(|| (Arc::new(Self(word)) as Arc<dyn Backend>, 0))
    }
}

impl Backend for Fill {
    fn size(&self) -> u64 {
        u64::MAX
    }

    only_read!();

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let start = (offset % 4) as usize;
        let word = self.0.iter().cycle().skip(start);
        let bytes: Vec<u8> = word.copied().take(total(to)).collect();
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes, to) };
        Ok(())
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        self.read(to, offset).map(|()| true)
    }
}
