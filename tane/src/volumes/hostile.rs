//! Headers of any bytes, as far as they are read here and not by Linux: for the fuzz
//! target, and for tests on a stable compiler.

use super::{bitlocker, ddf, luks, lvm};

/// The first byte chooses what the rest is taken for: LUKS, LVM, a partition table,
/// BitLocker, DDF. True if it made sense. Panics, hangs and memory without bounds are not
/// expected.
pub fn fuzz_volumes(data: &[u8]) -> bool {
    let Some((choice, bytes)) = data.split_first() else {
        return false;
    };
    match choice % 5 {
        0 => luks::fuzz(bytes),
        1 => lvm::fuzz(bytes),
        3 => bitlocker::fuzz(bytes),
        4 => ddf::fuzz(bytes),
        _ => crate::table::fuzz(bytes),
    }
}
