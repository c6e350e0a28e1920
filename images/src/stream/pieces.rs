//! A stream of pieces that can be unpacked one by one.

use crate::backend::{check_range, only_read, Backend};
use crate::buffers::{scatter, slice, total, Buffers};
use crate::kept::Kept;
use crate::pages::{invalid, read_exactly};
use std::io;
use std::sync::Arc;

/// Longest piece, unpacked, in bytes: a read of one byte unpacks all of it.
pub(super) const LONGEST: u64 = 32 << 20;
/// Unpacked bytes that are kept.
const KEPT: usize = 64 << 20;
/// Most pieces that are listed.
pub(super) const MOST: usize = 1 << 22;

/// Where a piece is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub at: u64,
    pub len: u32,
    /// Start and length, unpacked.
    pub start: u64,
    pub unpacked: u32,
    /// What else the format needs to unpack it.
    pub extra: u64,
}

/// Add a piece at the end of the list. None: it cannot be read in pieces.
pub(super) fn push(
    list: &mut Vec<Piece>,
    at: u64,
    len: u64,
    unpacked: u64,
    extra: u64,
) -> Option<()> {
    if unpacked == 0 {
        return Some(());
    }
    if unpacked > LONGEST || list.len() >= MOST {
        return None;
    }
    let start = list.last().map_or(0, |p| p.start + u64::from(p.unpacked));
    list.push(Piece {
        at,
        len: u32::try_from(len).ok()?,
        start,
        unpacked: unpacked as u32,
        extra,
    });
    Some(())
}

/// Unpack a piece's bytes into exactly this much.
type Unpack = fn(&dyn Backend, &Piece, packed: &[u8], to: &mut [u8]) -> io::Result<()>;

pub(super) struct Pieces {
    file: Arc<dyn Backend>,
    list: Vec<Piece>,
    unpack: Unpack,
    kept: Kept,
}

impl Pieces {
    pub fn new(file: Arc<dyn Backend>, list: Vec<Piece>, unpack: Unpack) -> Self {
        Self {
            file,
            list,
            unpack,
            kept: Kept::new(KEPT),
        }
    }

    /// The piece at `index`, unpacked.
    fn get(&self, index: usize) -> io::Result<Arc<[u8]>> {
        let piece = &self.list[index];
        let len = piece.unpacked as usize;
        self.kept.get(index as u64, len, true, || {
            let packed = read_exactly(&*self.file, piece.at, piece.len as usize)?;
            let mut bytes = vec![0; len];
            (self.unpack)(&*self.file, piece, &packed, &mut bytes)
                .map_err(|e| invalid(format!("is damaged at byte {}: {e}", piece.at)))?;
            Ok(bytes)
        })
    }
}

impl Backend for Pieces {
    fn size(&self) -> u64 {
        let last = self.list.last();
        last.map_or(0, |p| p.start + u64::from(p.unpacked))
    }

    only_read!();

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to);
        check_range(self.size(), offset, len as u64)?;
        let mut done = 0;
        while done < len {
            let position = offset + done as u64;
            let after = self.list.partition_point(|p| p.start <= position);
            let index = after.saturating_sub(1);
            let bytes = self.get(index)?;
            let within = (position - self.list[index].start) as usize;
            let n = (bytes.len() - within).min(len - done);
            // SAFETY: guest memory, see `Buffers`.
            unsafe { scatter(&bytes[within..within + n], &slice(to, done, n)) };
            done += n;
        }
        Ok(())
    }
}
