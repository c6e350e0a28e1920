//! Listing a directory.

use crate::error::{Context, Errno, Error, Result};
use crate::metadata::{FileType, Metadata};
use crate::sys::Fd;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane_linux::Record;

/// One getdents64(2) fills it: some 1,000 entries of ordinary names.
const BUFFER: usize = 32 * 1024;

/// A directory has "." and "..": so many calls bring one more entry, or its end.
const FILLS: u32 = 4;

/// The entries of a directory, in the file system's order. Entries made or
/// removed meanwhile may or may not show; the others show exactly once.
///
/// As an iterator it gives owned [`DirEntry`]s; [`ReadDir::next_entry`] gives
/// borrowed ones without allocating.
pub struct ReadDir {
    /// Its entries look at themselves through it, as long as there are any.
    fd: Arc<Fd>,
    /// What the caller called the directory.
    path: Arc<Path>,
    buffer: Box<[u64]>,
    /// The unread records, in bytes from the start of the buffer.
    at: usize,
    end: usize,
    finished: bool,
}

/// An entry that borrows its name from the listing's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    name: &'a CStr,
    ino: u64,
    kind: u8,
}

impl<'a> Entry<'a> {
    /// Its name in the directory.
    pub fn file_name(&self) -> &'a OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    /// The name as system calls want it.
    pub fn c_name(&self) -> &'a CStr {
        self.name
    }

    /// Its inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// The entry's type; None if this file system's directories do not hold it,
    /// so that only [`Dir::metadata`](crate::Dir::metadata) can tell.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_dirent(self.kind)
    }
}

/// An entry with a name of its own; it keeps the directory open.
#[derive(Clone)]
pub struct DirEntry {
    dir: Arc<Fd>,
    parent: Arc<Path>,
    name: OsString,
    ino: u64,
    kind: Option<FileType>,
}

impl DirEntry {
    /// The path that was listed, and the name; of a [`Dir`](crate::Dir), which has no
    /// path, the name alone.
    pub fn path(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Its name in the directory.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// Its name, without a copy.
    pub fn into_file_name(self) -> OsString {
        self.name
    }

    /// Its inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// What the directory says it is; where it does not hold that, what the file says.
    pub fn file_type(&self) -> Result<FileType> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => self.metadata().map(|found| found.file_type()),
        }
    }

    /// About the entry; of a link, about the link. It is found by its name in the
    /// directory that was listed, wherever that is by now: ENOENT if it is gone.
    pub fn metadata(&self) -> Result<Metadata> {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        CString::new(self.name.as_bytes())
            .map_err(|_| Errno(libc::EINVAL))
            .and_then(|name| self.dir.kernel.statx(&*self.dir, &name, flags))
            .map(Metadata::new)
            .map_err(|errno| errno.on("stat", &self.path()))
    }
}

impl std::fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

impl ReadDir {
    /// `path` is what the caller calls this directory, or "".
    pub(crate) fn new(fd: Fd, path: &Path) -> Self {
        ReadDir {
            fd: Arc::new(fd),
            path: path.into(),
            buffer: vec![0; BUFFER / 8].into_boxed_slice(),
            at: 0,
            end: 0,
            finished: false,
        }
    }

    /// The next entry, or None after the last one. After an error the listing
    /// has ended.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        let mut fills = 0;
        let (at, end) = loop {
            if self.at == self.end {
                // Where a directory's first block is damaged, some file systems
                // answer each call with ".." once more, and never get on.
                if fills == FILLS {
                    return Err(self.fail(libc::EIO));
                }
                fills += 1;
                if !self.fill()? {
                    return Ok(None);
                }
            }
            let start = self.at;
            let Some((record, _)) = Record::first(self.bytes(start)) else {
                return Err(self.fail(libc::EIO));
            };
            let len = record.len();
            let is_itself = matches!(record.name(), b"." | b"..");
            self.at += len;
            if !is_itself {
                break (start, start + len);
            }
        };
        // A record without a NUL, or whose name a hostile image put a slash in,
        // is an error and not an entry. (Two looks: the borrow checker's wish.)
        if parse(&self.bytes(at)[..end - at]).is_none() {
            return Err(self.fail(libc::EIO));
        }
        Ok(parse(&self.bytes(at)[..end - at]))
    }

    /// Start again at the first entry.
    pub fn rewind(&mut self) -> Result<()> {
        let result = self.fd.sys().lseek(&*self.fd, 0, libc::SEEK_SET);
        result.map_err(|errno| errno.during("rewind the directory"))?;
        (self.at, self.end, self.finished) = (0, 0, false);
        Ok(())
    }

    fn bytes(&self, from: usize) -> &[u8] {
        let start = self.buffer.as_ptr().cast::<u8>();
        // SAFETY: initialised memory of the buffer; `end` is at most its size.
        let all = unsafe { std::slice::from_raw_parts(start, self.end) };
        &all[from..]
    }

    /// False at the end of the directory.
    fn fill(&mut self) -> Result<bool> {
        if self.finished {
            return Ok(false);
        }
        match self.fd.sys().getdents(&*self.fd, &mut self.buffer) {
            Ok(n) => {
                (self.at, self.end) = (0, n.min(BUFFER));
                self.finished = n == 0;
                Ok(n != 0)
            }
            Err(errno) => Err(self.fail(errno.0)),
        }
    }

    fn fail(&mut self, errno: i32) -> Error {
        (self.at, self.end, self.finished) = (0, 0, true);
        Error::new(errno, "read the directory")
    }
}

/// An entry by that name; None: nothing can be called so.
fn entry(record: Record<'_>) -> Option<Entry<'_>> {
    let name = record.c_name()?;
    let bytes = name.to_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') {
        return None;
    }
    Some(Entry {
        name,
        ino: record.ino(),
        kind: record.d_type(),
    })
}

/// The first of these records.
fn parse(records: &[u8]) -> Option<Entry<'_>> {
    entry(Record::first(records)?.0)
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let (dir, parent) = (Arc::clone(&self.fd), Arc::clone(&self.path));
        match self.next_entry() {
            Ok(Some(entry)) => Some(Ok(DirEntry {
                dir,
                parent,
                name: OsString::from_vec(entry.name.to_bytes().to_vec()),
                ino: entry.ino,
                kind: entry.file_type(),
            })),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadDir({} of {:?})", self.fd.number(), self.fd.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the kernel has it, long enough for its name and padding.
    fn record(name: &[u8]) -> Vec<u8> {
        let mut bytes = [0; 24];
        bytes[16] = 24;
        bytes[Record::HEADER..].copy_from_slice(name);
        bytes.into()
    }

    #[test]
    fn a_name_with_a_slash_is_refused() {
        let entry = record(b"abcd\0");
        assert_eq!(parse(&entry).unwrap().file_name(), "abcd");
        for bad in [&b"../a\0"[..], b"\0\0\0\0\0", b"abcde"] {
            assert!(parse(&record(bad)).is_none());
        }
    }
}
