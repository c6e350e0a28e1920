//! How much memory the Linux of a copy gets. What is copied is read or written
//! once, so a page of it that is kept serves nobody, and Linux keeps pages until it
//! has no others: all the memory it was given would be in use after as many bytes.

use crate::session::Global;

/// What Linux and its file systems need for themselves, with room for enough pages
/// that reading, writing and the disk do not wait for each other.
const LEAST: u64 = 112 << 20;
/// ext4 keeps some 400 bytes of every group of blocks in memory for as long as it is
/// mounted, and a group of the smallest blocks is 8 MiB: 16 GiB are 2,048 of these.
const DISK: u64 = 16 << 30;
const FOR_IT: u64 = 1 << 20;
/// As Linux has it for everything else.
const MOST: u64 = tane::MEMORY;

/// Bytes for the Linux that serves disks of these sizes, if the command says that it
/// copies, and not how much.
pub fn of(disks: impl Iterator<Item = u64>, global: &Global) -> Option<u64> {
    if !global.copies || global.memory.is_some() || global.kept.is_session() {
        return global.memory;
    }
    Some(of_copy(disks.fold(0, u64::saturating_add)))
}

/// The most that a kernel of this command gets, in bytes.
pub fn most(global: &Global) -> u64 {
    global.memory.unwrap_or(MOST)
}

fn of_copy(size: u64) -> u64 {
    let for_it = size.div_ceil(DISK).saturating_mul(FOR_IT);
    LEAST.saturating_add(for_it).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gets_more_for_a_larger_image_and_never_more_than_the_default() {
        assert_eq!(of_copy(20 << 30), 114 << 20);
        assert_eq!(of_copy(1 << 40), (112 + 64) << 20);
        assert_eq!(of_copy(16 << 40), MOST);
        assert_eq!(of_copy(u64::MAX), MOST);
    }
}
