//! Holes in the file where clusters are discarded. imago (0.2.6) gives such
//! clusters back to the image only, for writes to come.

use super::stored::Stored;
use imago::{FormatAccess, Mapping};
use std::io;
use std::sync::atomic::Ordering;

/// Punches out the whole clusters of a range of the disk that is about to be
/// discarded. Not afterwards: then they may be others' already. The caller keeps
/// everybody else out until the range is discarded.
pub(super) fn punch(access: &FormatAccess<Stored>, offset: u64, len: u64) -> io::Result<()> {
    let end = offset + len;
    let mut at = offset;
    while at < end {
        let (mapping, n) = access.get_mapping(at, end - at)?;
        if n == 0 {
            break;
        }
        // Writable: of this layer, and of no snapshot.
        if let Mapping::Raw {
            storage,
            offset: place,
            writable: true,
            ..
        } = mapping
        {
            storage.punch(place, n)?;
        }
        at += n;
    }
    Ok(())
}

impl Stored {
    /// Makes a hole of the whole clusters in a range of the file.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let cluster = self.cluster as u64;
        let end = (offset + len).min(self.file.size()) / cluster * cluster;
        let start = offset.next_multiple_of(cluster);
        if start >= end {
            return Ok(());
        }
        self.dirty.store(true, Ordering::SeqCst);
        self.file.discard(start, end - start)
    }
}
