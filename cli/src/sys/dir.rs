//! Directory listings by getdents64, in one allocation for the names.

use super::errno::Result;
use super::{Fd, Kind};
use std::ffi::CStr;

pub struct Entry {
    pub ino: u64,
    /// What the directory says the file is, if it says anything.
    pub kind: Option<Kind>,
    start: u32,
    end: u32,
}

/// The entries of one directory, without "." and "..".
#[derive(Default)]
pub struct Entries {
    pub list: Vec<Entry>,
    names: Vec<u8>,
}

impl Entries {
    pub fn read(dir: &Fd) -> Result<Entries> {
        let mut entries = Entries::default();
        let mut buffer = [0u64; 4096];
        loop {
            let n = dir.sys().getdents(dir, &mut buffer)?;
            if n == 0 {
                return Ok(entries);
            }
            // SAFETY: the kernel has filled in n bytes of the buffer.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n) };
            entries.add_records(bytes);
        }
    }

    /// struct linux_dirent64: ino, off (8 bytes each), reclen (2), type (1), name.
    fn add_records(&mut self, mut bytes: &[u8]) {
        while bytes.len() > 19 {
            let ino = u64::from_ne_bytes(bytes[..8].try_into().unwrap_or_default());
            let length = usize::from(u16::from_ne_bytes([bytes[16], bytes[17]]));
            if length <= 19 || length > bytes.len() {
                return;
            }
            let tail = &bytes[19..length];
            let name = &tail[..tail.iter().position(|&b| b == 0).unwrap_or(tail.len())];
            if is_safe_name(name) {
                let start = self.names.len() as u32;
                self.names.extend_from_slice(name);
                self.names.push(0);
                let end = self.names.len() as u32;
                let kind = Kind::from_dirent(bytes[18]);
                self.list.push(Entry {
                    ino,
                    kind,
                    start,
                    end,
                });
            }
            bytes = &bytes[length..];
        }
    }

    /// The entry's name with its terminating NUL.
    pub fn name<'e>(&'e self, entry: &Entry) -> &'e CStr {
        let bytes = &self.names[entry.start as usize..entry.end as usize];
        CStr::from_bytes_with_nul(bytes).unwrap_or_default()
    }

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
