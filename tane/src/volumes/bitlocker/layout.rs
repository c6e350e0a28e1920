//! Where the content is on the device: in its place, but for its first bytes, which
//! are elsewhere, and for where these and the metadata are, which reads as zeros.

use super::metadata::{self, Metadata};
use std::ops::Range;

/// A part of the content, in sectors of 512 bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub start: u64,
    pub len: u64,
    /// Where it is on the device; None: nowhere, it is zeros.
    pub from: Option<u64>,
}

/// All of the content; None: the metadata makes no sense, for encrypted sectors of so
/// many bytes.
pub(super) fn pieces(metadata: &Metadata, sector: u32) -> Option<Vec<Piece>> {
    let unit = u64::from(sector);
    let moved = &metadata.moved;
    let first = moved.end - moved.start;
    let areas = metadata.copies.iter().map(|at| {
        let end = at.checked_add(metadata::SIZE as u64)?;
        Some(*at..end)
    });
    let mut zeros: Vec<Range<u64>> = areas.collect::<Option<_>>()?;
    zeros.push(moved.clone());
    zeros.sort_by_key(|area| area.start);

    let size = metadata.size;
    let is_whole = |area: &Range<u64>| {
        area.start.is_multiple_of(unit)
            && area.end.is_multiple_of(unit)
            && area.start >= first
            && area.end <= size
    };
    if first == 0 || !size.is_multiple_of(unit) || !zeros.iter().all(is_whole) {
        return None;
    }
    let piece = |place: Range<u64>, from: Option<u64>| Piece {
        start: place.start / 512,
        len: (place.end - place.start) / 512,
        from: from.map(|from| from / 512),
    };
    let mut pieces = vec![piece(0..first, Some(moved.start))];
    let mut done = first;
    for area in zeros {
        if area.start > done {
            pieces.push(piece(done..area.start, Some(done)));
        }
        if area.end > done {
            pieces.push(piece(done.max(area.start)..area.end, None));
            done = area.end;
        }
    }
    if size > done {
        pieces.push(piece(done..size, Some(done)));
    }
    Some(pieces)
}
