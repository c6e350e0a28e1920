//! FAT, whose only mark is a boot sector that makes sense: by the rules of libblkid,
//! which are those of Linux and more, so that what only looks like one is not taken
//! for one.

use crate::label::Read;

const MOST_12: u64 = 0xff4;
const MOST_16: u64 = 0xfff4;
const MOST_32: u64 = 0x0fff_fff6;
/// Where 12 and 16 bits have the byte that says whether a serial number and a name
/// follow.
const SHORT: usize = 38;

fn le16(head: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([head[at], head[at + 1]]))
}

fn le32(head: &[u8], at: usize) -> u64 {
    le16(head, at) | le16(head, at + 2) << 16
}

/// Its clusters are counted by 32 bits.
pub(super) fn is_32_bits(head: &[u8], _: Read) -> bool {
    is_fat(head) == Some(true)
}

/// By 12 or 16.
pub(super) fn is_short(head: &[u8], _: Read) -> bool {
    is_fat(head) == Some(false)
}

fn is_fat(head: &[u8]) -> Option<bool> {
    let boot = head.get(..512)?;
    let named = |at: usize, names: &[&[u8]]| names.iter().any(|name| boot[at..].starts_with(name));
    let is_named = named(82, &[b"FAT32   ", b"MSWIN"])
        || named(54, &[b"FAT12   ", b"FAT16   ", b"FAT     ", b"MSDOS"]);
    // OS/2 puts the like before its own file systems.
    let is_other = named(54, &[b"JFS     ", b"HPFS    "]);
    let is_bootable = matches!(boot[0], 0xeb | 0xe9) && boot[510..] == *b"\x55\xaa";
    if is_other || !(is_named || is_bootable) {
        return None;
    }
    let (sector, cluster) = (le16(boot, 11), u64::from(boot[13]));
    let (reserved, tables, media) = (le16(boot, 14), u64::from(boot[16]), boot[21]);
    let is_sane = sector.is_power_of_two()
        && (512..=4096).contains(&sector)
        && cluster.is_power_of_two()
        && reserved > 0
        && tables > 0
        && (media >= 0xf8 || media == 0xf0);
    if !is_sane {
        return None;
    }
    let first = |short: u64, long: u64| if short > 0 { short } else { long };
    let is_long = le16(boot, 22) == 0 && le32(boot, 36) > 0;
    let table = first(le16(boot, 22), le32(boot, 36));
    let all = first(le16(boot, 19), le32(boot, 32));
    let root = (le16(boot, 17) * 32).div_ceil(sector);
    let clusters = all.checked_sub(reserved + table * tables + root)? / cluster;
    let most = match is_long {
        true => MOST_32,
        false if clusters > MOST_12 => MOST_16,
        false => MOST_12,
    };
    (table > 0 && clusters <= most).then_some(is_long)
}

/// Whether it has a name and a serial number at all.
fn has_names(head: &[u8], at: usize) -> bool {
    matches!(head.get(at), Some(0x28 | 0x29))
}

/// The name of a short one; a long one's is always there.
pub(super) fn label(read: Read) -> Option<String> {
    let boot = read(0, 512)?;
    let name = has_names(&boot, SHORT).then(|| &boot[SHORT + 5..SHORT + 16])?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Where the serial number of a short one is.
pub(super) fn serial(head: &[u8]) -> Option<usize> {
    has_names(head, SHORT).then_some(SHORT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A floppy disk's, without a name for its type.
    fn floppy() -> Vec<u8> {
        let mut boot = vec![0; 512];
        boot[..3].copy_from_slice(b"\xeb\x3c\x90");
        boot[11..24].copy_from_slice(&[0, 2, 1, 1, 0, 2, 224, 0, 0x40, 0x0b, 0xf0, 9, 0]);
        boot[510..].copy_from_slice(b"\x55\xaa");
        boot
    }

    #[test]
    fn a_boot_sector_that_makes_sense_is_a_fat_without_a_name() {
        assert_eq!(is_fat(&floppy()), Some(false));
    }

    #[test]
    fn a_boot_sector_that_makes_none_is_no_fat_with_a_name() {
        let mut named = floppy();
        named[54..62].copy_from_slice(b"FAT12   ");
        assert_eq!(is_fat(&named), Some(false));
        for (at, byte) in [(11, 1), (13, 3), (14, 0), (16, 0), (21, 7), (22, 0)] {
            let mut damaged = named.clone();
            damaged[at] = byte;
            assert_eq!(is_fat(&damaged), None, "{at}");
        }
        let mut of_os2 = floppy();
        of_os2[54..62].copy_from_slice(b"HPFS    ");
        assert_eq!(is_fat(&of_os2), None);
        for len in 0..512 {
            assert_eq!(is_fat(&named[..len]), None);
        }
    }
}
