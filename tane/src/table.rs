//! What a partition table says that the kernel does not hand on: the identities
//! of partitions. Everything read here may come from a hostile image.

use crate::kernel::Kernel;
use crate::path::with_cstr;
use crate::probe::hyphenated;
use crate::sys::SysResult;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// More entries than any table in the wild has, at the most common size.
const MOST_ENTRIES: usize = 1024;

/// What the table says of one partition: identity and type, as blkid(8) writes
/// PARTUUID and PART_ENTRY_TYPE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub uuid: Option<String>,
    pub kind: Option<String>,
}

/// A table that was read; empty if there was none.
#[derive(Default)]
pub(crate) struct Table {
    /// By number, from 1.
    entries: Vec<Identity>,
    /// Of an MBR: the disk's signature, which logical partitions have too.
    signature: Option<u32>,
}

impl Table {
    pub(crate) fn identity(&self, number: u32) -> Identity {
        let index = (number as usize).wrapping_sub(1);
        if let Some(entry) = self.entries.get(index) {
            return entry.clone();
        }
        let uuid = self.signature.map(|s| mbr_uuid(s, number));
        Identity { uuid, kind: None }
    }

    /// Read the table of a disk inside the kernel. `sector` is its logical
    /// block size in bytes.
    pub(crate) fn read(kernel: &Kernel, device: &Path, sector: u64) -> SysResult<Table> {
        let open = |path: &std::ffi::CStr| kernel.openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0);
        let fd = with_cstr(device.as_os_str().as_bytes(), open)?;
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            let mut done = 0;
            while done < len {
                match kernel
                    .sys()
                    .pread(fd.raw(), &mut bytes[done..], at + done as u64)?
                {
                    0 => break,
                    n => done += n,
                }
            }
            bytes.truncate(done);
            Ok(bytes)
        };
        let mbr = read(0, 512)?;
        if mbr.get(510..512) != Some(&b"\x55\xaa"[..]) {
            return Ok(Table::default());
        }
        let is_protective = (0..4).any(|i| mbr[446 + 16 * i + 4] == 0xee);
        if !is_protective {
            return Ok(from_mbr(&mbr));
        }
        let header = read(sector, 512)?;
        match gpt_place(&header, sector) {
            Some((at, count, size)) => Ok(from_gpt(&read(at, count * size)?, size)),
            None => Ok(Table::default()),
        }
    }
}

fn mbr_uuid(signature: u32, number: u32) -> String {
    format!("{signature:08x}-{number:02x}")
}

fn from_mbr(mbr: &[u8]) -> Table {
    let signature = u32::from_le_bytes([mbr[440], mbr[441], mbr[442], mbr[443]]);
    let signature = (signature != 0).then_some(signature);
    let entry = |number: u32| Identity {
        uuid: signature.map(|s| mbr_uuid(s, number)),
        kind: Some(format!("{:#x}", mbr[446 + 16 * (number as usize - 1) + 4])),
    };
    Table {
        entries: (1..=4).map(entry).collect(),
        signature,
    }
}

/// Where the entries are, how many, and how long each.
fn gpt_place(header: &[u8], sector: u64) -> Option<(u64, usize, usize)> {
    if !header.starts_with(b"EFI PART") {
        return None;
    }
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let lba = u64::from(word(72)?) | u64::from(word(76)?) << 32;
    let count = (word(80)? as usize).min(MOST_ENTRIES);
    let size = word(84)? as usize;
    let at = lba.checked_mul(sector).filter(|&at| at < 1 << 62)?;
    (128..=512).contains(&size).then_some((at, count, size))
}

fn from_gpt(entries: &[u8], size: usize) -> Table {
    let identity = |entry: &[u8]| Identity {
        uuid: guid(&entry[16..32]),
        kind: guid(&entry[..16]),
    };
    Table {
        entries: entries.chunks_exact(size).map(identity).collect(),
        signature: None,
    }
}

/// A GUID's first three fields are little-endian.
pub(crate) fn guid(bytes: &[u8]) -> Option<String> {
    let b: [u8; 16] = bytes.try_into().ok()?;
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    (b != [0; 16]).then(|| hyphenated(&order.map(|i| b[i])))
}

/// Whether the bytes of a disk begin with a table; see `volumes::hostile`.
pub(crate) fn fuzz(bytes: &[u8]) -> bool {
    let Some(mbr) = bytes.get(..512) else {
        return false;
    };
    let header = bytes.get(512..1024).unwrap_or_default();
    let table = match gpt_place(header, 512) {
        Some((at, count, size)) => {
            let rest = bytes.get(at as usize..).unwrap_or_default();
            from_gpt(&rest[..rest.len().min(count * size)], size)
        }
        None => from_mbr(mbr),
    };
    (0..200).any(|number| table.identity(number).uuid.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_written_as_blkid_writes_it() {
        let linux_data = [
            0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47,
            0x7d, 0xe4,
        ];
        let text = "0fc63daf-8483-4772-8e79-3d69d8477de4";
        assert_eq!(guid(&linux_data).as_deref(), Some(text));
        assert_eq!(guid(&[0; 16]), None);
    }

    #[test]
    fn a_hostile_header_asks_for_little() {
        let mut header = vec![0xff; 512];
        assert_eq!(gpt_place(&header, 512), None);
        header[..8].copy_from_slice(b"EFI PART");
        assert_eq!(gpt_place(&header, 512), None);
        header[72..80].copy_from_slice(&2u64.to_le_bytes());
        assert_eq!(gpt_place(&header, 512), None);
        header[84..88].copy_from_slice(&128u32.to_le_bytes());
        assert_eq!(gpt_place(&header, 512), Some((1024, MOST_ENTRIES, 128)));
        for len in 0..88 {
            assert_eq!(gpt_place(&header[..len], 512), None);
        }
    }

    #[test]
    fn logical_partitions_have_the_disks_signature() {
        let mut mbr = [0; 512];
        mbr[440..444].copy_from_slice(&0x1234_abcdu32.to_le_bytes());
        mbr[446 + 4] = 0x83;
        let table = from_mbr(&mbr);
        let first = table.identity(1);
        assert_eq!(first.uuid.as_deref(), Some("1234abcd-01"));
        assert_eq!(first.kind.as_deref(), Some("0x83"));
        assert_eq!(table.identity(5).uuid.as_deref(), Some("1234abcd-05"));
        assert_eq!(Table::default().identity(0), Identity::default());
    }
}
