//! Directory listings by getdents64, in one allocation for the names.

use crate::errno::{Errno, Result};
use crate::{Fd, Kind};
use std::ffi::CStr;

/// struct linux_dirent64: ino, offset (8 bytes each), length (2), type (1), name. As
/// long as it says, and longer than [`Record::HEADER`].
#[derive(Clone, Copy)]
pub struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    /// Bytes before the name.
    pub const HEADER: usize = 19;

    /// The first of these records, and what follows. None if its length cannot be one:
    /// also at their end.
    pub fn first(records: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let len = usize::from(u16::from_ne_bytes([*records.get(16)?, *records.get(17)?]));
        let (record, rest) = records.split_at_checked(len)?;
        (len > Self::HEADER).then_some((Record(record), rest))
    }

    /// Bytes of the record.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// The inode number.
    pub fn ino(self) -> u64 {
        self.0
            .first_chunk()
            .map_or(0, |ino| u64::from_ne_bytes(*ino))
    }

    /// A DT_ constant.
    pub fn d_type(self) -> u8 {
        self.0[18]
    }

    /// Up to its NUL; all of the rest if there is none.
    pub fn name(self) -> &'a [u8] {
        let tail = &self.0[Self::HEADER..];
        &tail[..tail.iter().position(|&b| b == 0).unwrap_or(tail.len())]
    }

    /// The name; None without a NUL.
    pub fn c_name(self) -> Option<&'a CStr> {
        CStr::from_bytes_until_nul(&self.0[Self::HEADER..]).ok()
    }
}

/// One of [`Entries`].
pub struct Entry {
    /// The inode number.
    pub ino: u64,
    /// What the directory says the file is, if it says anything.
    pub kind: Option<Kind>,
    start: u32,
    end: u32,
}

/// The entries of one directory, without "." and "..".
#[derive(Default)]
pub struct Entries {
    /// In the file system's order, until they are sorted.
    pub list: Vec<Entry>,
    names: Vec<u8>,
}

/// Bytes of one listing, some ten million names: what reads an image may make up more.
const LONGEST: usize = 1 << 30;

impl Entries {
    /// Reads all of them. ENOMEM: they have more than a GiB.
    pub fn read(dir: &Fd) -> Result<Entries> {
        let mut entries = Entries::default();
        let mut buffer = [0u64; 4096];
        let mut left = LONGEST;
        loop {
            let n = dir.sys().getdents(dir, &mut buffer)?;
            if n == 0 {
                return Ok(entries);
            }
            left = left.checked_sub(n).ok_or(Errno(libc::ENOMEM))?;
            // SAFETY: the kernel has filled in n bytes of the buffer.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n) };
            entries.add_records(bytes);
        }
    }

    /// Whatever does not look like a record ends them.
    fn add_records(&mut self, mut bytes: &[u8]) {
        while let Some((record, rest)) = Record::first(bytes) {
            let name = record.name();
            if is_safe_name(name) {
                let start = self.names.len() as u32;
                self.names.extend_from_slice(name);
                self.names.push(0);
                let end = self.names.len() as u32;
                let kind = Kind::from_dirent(record.d_type());
                let ino = record.ino();
                self.list.push(Entry {
                    ino,
                    kind,
                    start,
                    end,
                });
            }
            bytes = rest;
        }
    }

    /// The entry's name with its terminating NUL.
    pub fn name<'e>(&'e self, entry: &Entry) -> &'e CStr {
        let bytes = &self.names[entry.start as usize..entry.end as usize];
        CStr::from_bytes_with_nul(bytes).unwrap_or_default()
    }

    /// As bytes.
    pub fn sort_by_name(&mut self) {
        let names = &self.names;
        self.list.sort_by(|a, b| {
            names[a.start as usize..a.end as usize].cmp(&names[b.start as usize..b.end as usize])
        });
    }

    /// Inode order: neighbouring inodes share a block of the inode table.
    pub fn sort_by_inode(&mut self) {
        self.list.sort_by_key(|e| e.ino);
    }
}

/// A name that can only mean an entry of the directory at hand. The kernel
/// refuses other names itself; an untrusted image deserves a second look.
pub fn is_safe_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(len: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![7, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0; 8]);
        bytes.extend(len.to_ne_bytes());
        bytes.push(libc::DT_REG);
        bytes.extend(name);
        bytes
    }

    #[test]
    fn a_broken_record_is_refused() {
        let bytes = record(24, b"abcd\0");
        let (first, rest) = Record::first(&bytes).expect("a record");
        assert_eq!((first.len(), first.ino(), rest.len()), (24, 7, 0));
        assert_eq!((first.d_type(), first.name()), (libc::DT_REG, &b"abcd"[..]));
        for len in [0, 18, 19, 25, u16::MAX] {
            assert!(Record::first(&record(len, b"abcd\0")).is_none(), "{len}");
        }
        assert!(Record::first(&[0; 5]).is_none());
        assert!(Record::first(&record(24, b"abcde")).is_some_and(|(r, _)| r.c_name().is_none()));
    }

    #[test]
    fn names_that_leave_the_directory_are_unsafe() {
        for name in [&b""[..], b".", b"..", b"/", b"a/b", b"../x"] {
            assert!(!is_safe_name(name), "{name:?}");
        }
        for name in [&b"a"[..], b"...", b"..a", b"\xff\n"] {
            assert!(is_safe_name(name), "{name:?}");
        }
    }
}
