//! What is looked at before imago opens a file.

use crate::backend::Backend;
use crate::buffers::buffer_mut;
use crate::pages::{be32, be64, invalid, Pages};
use std::io;
use std::sync::Arc;

/// The features that change the meaning of what is in the file, told by name.
pub(super) fn check_features(file: &dyn Backend) -> io::Result<()> {
    let mut head = [0; 104];
    let len = file.size().min(104) as usize;
    file.read(&[buffer_mut(&mut head[..len])], 0)?;
    let word = |at: usize| be32(&head, at);
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::Unsupported, text));
    let features = if word(4) >= 3 { word(76) } else { 0 };
    match () {
        () if features & 1 != 0 => {
            refuse("was not closed cleanly; repair it with qemu-img check -r all")
        }
        () if features & 2 != 0 => {
            refuse("is marked as damaged; repair it with qemu-img check -r all")
        }
        () => Ok(()),
    }
}

/// Look whether the tables of reference counts can be what they claim: imago
/// (0.2.6) looks for room by them without end when they make no sense.
pub(super) fn check_counts(file: &Arc<dyn Backend>) -> io::Result<()> {
    let damaged = || invalid("its reference counts are damaged; try qemu-img check -r all");
    let pages = Pages::new(file.clone());
    let head = pages.get::<104>(0, true)?;
    let (version, bits) = (be32(&head, 4), be32(&head, 20));
    let order = if version >= 3 { be32(&head, 96) } else { 4 };
    if !(9..=21).contains(&bits) || order > 6 {
        return Err(damaged());
    }
    let cluster = 1u64 << bits;
    // Clusters that one block of counts is about.
    let span = (cluster * 8) >> order;
    let table = be64(&head, 48);
    let entries = u64::from(be32(&head, 56)) * cluster / 8;
    if !table.is_multiple_of(cluster) || table == 0 || entries == 0 {
        return Err(damaged());
    }
    let block = |index: u64| -> io::Result<Option<u64>> {
        if index >= entries {
            return Ok(None);
        }
        let at = u64::from_be_bytes(pages.get(table.saturating_add(index * 8), true)?);
        match at {
            0 => Ok(None),
            at if at % cluster == 0 && at < file.size() => Ok(Some(at)),
            _ => Err(damaged()),
        }
    };
    let counted = |at: u64| -> io::Result<bool> {
        let index = at / cluster;
        let Some(block) = block(index / span)? else {
            return Ok(false);
        };
        let bit = (index % span) << order;
        let bytes = pages.get::<8>(block + bit / 64 * 8, true)?;
        // Counts of less than a byte start at its lowest bits.
        let (first, len) = ((bit % 64 / 8) as usize, (1usize << order).div_ceil(8));
        let mask = match order {
            0..3 => (((1u16 << (1 << order)) - 1) << (bit % 8)) as u8,
            _ => 0xff,
        };
        Ok(bytes[first..first + len].iter().any(|b| b & mask != 0))
    };
    let spans = file.size().div_ceil(cluster).div_ceil(span);
    for index in 0..entries.min(spans) {
        match block(index)? {
            Some(at) if counted(at)? => {}
            None if index > 0 => {}
            _ => return Err(damaged()),
        }
    }
    match counted(0)? && counted(table)? && counted(be64(&head, 40))? {
        true => Ok(()),
        false => Err(damaged()),
    }
}
