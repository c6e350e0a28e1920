//! UFS: its marks, and which of its dialects it is, which Linux wants to be told.

use crate::label::Read;
use std::ffi::CStr;

/// Where a superblock may be.
const PLACES: [u64; 3] = [8 << 10, 64 << 10, 256 << 10];
const MAGIC: u64 = 1372;
const INODE_FORMAT: u64 = 1324;
const UFS_1: u32 = 0x0001_1954;
const UFS_2: u32 = 0x1954_0119;
const OF_44BSD: u32 = 2;

pub(super) fn is_here(head: &[u8], read: Read) -> bool {
    dialect(&|at, len| from(head, read, at, len)).is_some()
}

/// Most superblocks are in the head.
fn from(head: &[u8], read: Read, at: u64, len: usize) -> Option<Vec<u8>> {
    let start = usize::try_from(at).ok()?;
    match head.get(start..start.checked_add(len)?) {
        Some(bytes) => Some(bytes.to_vec()),
        None => read(at, len),
    }
}

/// The name of the dialect for Linux's option `ufstype`; None if it is no UFS.
pub(crate) fn dialect(read: Read) -> Option<&'static CStr> {
    let word = |at: u64| read(at, 4)?.try_into().ok().map(u32::from_le_bytes);
    PLACES.iter().find_map(|place| {
        let magic = word(place + MAGIC)?;
        let big = [UFS_1, UFS_2].contains(&magic.swap_bytes());
        let turn = |word: u32| if big { word.swap_bytes() } else { word };
        let format = turn(word(place + INODE_FORMAT)?);
        match (turn(magic), format) {
            (UFS_2, _) => Some(c"ufs2"),
            (UFS_1, OF_44BSD) => Some(c"44bsd"),
            (UFS_1, _) if big => Some(c"sun"),
            (UFS_1, _) => Some(c"sunx86"),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64, magic: [u8; 4], format: [u8; 4]) -> Option<&'static CStr> {
        dialect(&move |at, len| {
            let bytes = match at {
                at if at == place + MAGIC => magic,
                at if at == place + INODE_FORMAT => format,
                _ => return None,
            };
            Some(bytes[..len].to_vec())
        })
    }

    #[test]
    fn dialects_are_told_by_mark_order_of_bytes_and_format_of_inodes() {
        let (one, two) = (UFS_1.to_le_bytes(), UFS_2.to_le_bytes());
        assert_eq!(at(65536, two, [0; 4]), Some(c"ufs2"));
        assert_eq!(at(8192, one, [2, 0, 0, 0]), Some(c"44bsd"));
        assert_eq!(at(8192, UFS_1.to_be_bytes(), [0, 0, 0, 2]), Some(c"44bsd"));
        assert_eq!(at(8192, UFS_1.to_be_bytes(), [9; 4]), Some(c"sun"));
        assert_eq!(at(8192, one, [9; 4]), Some(c"sunx86"));
        assert_eq!(at(8192, [0; 4], [0; 4]), None);
    }
}
