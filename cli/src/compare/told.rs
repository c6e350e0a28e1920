//! A directory of the host as another process tells it: all of it, depth first, in the order
//! of names, with descriptors of files. Nobody asks for anything, but in a session for the
//! directory.
//!
//! A message begins with its length and the number of descriptors that come with it, four
//! bytes each; then come entries. An empty one is the end. In a session each that is none is
//! answered by a byte: whether there is to be another one.

use crate::failure::{Failure, Result};
use crate::passing;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::rc::Rc;
use tane_linux::{Errno, Fd, Flags, Host, Stat, Sys, Time};

mod asked;
mod tell;
#[cfg(test)]
mod tests;

pub use asked::{answer, ask};
pub use tell::tell;

/// What is told of files beside what stat(2) knows.
pub struct Wanted {
    /// Descriptors of those that have content.
    pub content: bool,
    pub targets: bool,
    pub xattrs: bool,
    /// And which directories are roots of subvolumes.
    pub flags: bool,
    /// Nobody looks into these.
    pub excludes: Vec<OsString>,
    /// Nor into directories that are so deep below the one that is told.
    pub depth: usize,
}

impl Wanted {
    /// What there is, so many levels of it.
    pub fn names(depth: usize) -> Wanted {
        Wanted {
            content: false,
            targets: false,
            xattrs: false,
            flags: false,
            excludes: Vec::new(),
            depth,
        }
    }
}

/// Longest message: an entry has a name, and attributes in as many bytes as Linux lists.
const LONGEST: usize = 64 << 20;
/// What a message begins with.
const HEADER: usize = 8;
/// Whatever could not be found out, and why.
type Known<T> = std::result::Result<T, Errno>;

/// An entry of a directory.
pub struct Entry {
    /// Below what is compared, which has 0.
    pub depth: u32,
    pub name: CString,
    pub stat: Known<Stat>,
    /// Why it cannot be listed, of a directory.
    pub listed: Known<()>,
    pub target: Known<Vec<u8>>,
    /// Packed, as [`tane_linux::Xattrs`] has them.
    pub xattrs: Known<Vec<u8>>,
    /// As chattr(1) writes them; `stat` has them too.
    pub flags: Known<Vec<u8>>,
    /// The root of a subvolume, if that was looked for.
    pub is_subvolume: bool,
    /// For reading.
    pub content: Known<Fd<'static>>,
}

/// That directory, at the end of who has Linux.
pub struct Told {
    line: Option<File>,
    entries: VecDeque<Rc<Entry>>,
    over: bool,
    /// Of a session: where the line goes when all has been told, or nobody wants more.
    back: Option<fn(File)>,
}

impl Told {
    pub fn new(line: File) -> Told {
        Told {
            line: Some(line),
            entries: VecDeque::new(),
            over: false,
            back: None,
        }
    }

    /// Of a session, whose line goes on; it has been asked for this.
    pub fn asked(line: File, back: fn(File)) -> Told {
        let mut told = Told::new(line);
        told.back = Some(back);
        told
    }

    /// The next entry.
    pub fn next(&mut self) -> Result<Option<Rc<Entry>>> {
        self.hear()?;
        Ok(self.entries.pop_front())
    }

    /// The name of the next one of this depth in the directory at hand, past all that is
    /// deeper.
    pub fn name_at(&mut self, depth: u32) -> Result<Option<CString>> {
        loop {
            self.hear()?;
            match self.entries.front() {
                Some(next) if next.depth > depth => drop(self.entries.pop_front()),
                Some(next) if next.depth == depth => return Ok(Some(next.name.clone())),
                _ => return Ok(None),
            }
        }
    }

    fn hear(&mut self) -> Result<()> {
        while self.entries.is_empty() && !self.over {
            let gone = |_| Failure::image("the process that reads on the host has died");
            let entries = self.message().map_err(gone)?;
            self.entries.extend(entries.into_iter().map(Rc::new));
        }
        Ok(())
    }

    /// An error: nobody is heard any more.
    fn message(&mut self) -> io::Result<Vec<Entry>> {
        let line = self.line.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
        let got = receive(line).and_then(|entries| {
            // The next one is made while this one is looked at.
            if self.back.is_some() && !entries.is_empty() {
                asked::go_on(line, true)?;
            }
            Ok(entries)
        });
        match &got {
            Ok(entries) => self.over = entries.is_empty(),
            Err(_) => drop(self.line.take()),
        }
        got
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let Some((line, back)) = self.line.take().zip(self.back) else {
            return;
        };
        // The one that is on its way, and the end.
        let stop = || asked::go_on(&line, false);
        let over = |_| receive(&line).map(|entries| entries.is_empty());
        let rest = || Ok::<_, io::Error>(over(())? || over(())?);
        if self.over || stop().and_then(|()| rest()).is_ok_and(|over| over) {
            back(line);
        }
    }
}

fn receive(mut line: &File) -> io::Result<Vec<Entry>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let mut header = [0; HEADER];
    let (got, fds) = passing::receive(line, &mut header)?;
    line.read_exact(&mut header[got..])?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i])) as usize;
    let (length, count) = (number(0), number(4));
    if length > LONGEST || count != fds.len() {
        return Err(malformed());
    }
    let mut bytes = vec![0; length];
    line.read_exact(&mut bytes)?;
    let mut message = Message {
        bytes: &bytes,
        fds: fds.into_iter(),
    };
    let mut entries = Vec::new();
    while !message.bytes.is_empty() {
        entries.push(message.entry().ok_or_else(malformed)?);
    }
    Ok(entries)
}

/// A message that is taken apart.
struct Message<'m> {
    bytes: &'m [u8],
    fds: std::vec::IntoIter<OwnedFd>,
}

impl Message<'_> {
    fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.long()?).ok()?;
        let string = self.bytes.get(..length)?.to_vec();
        self.bytes = &self.bytes[length..];
        Some(string)
    }

    /// 0 and something, or an error.
    fn known<T>(&mut self, what: impl FnOnce(&mut Self) -> Option<T>) -> Option<Known<T>> {
        match self.long()? {
            0 => what(self).map(Ok),
            errno => Some(Err(Errno(i32::try_from(errno).ok()?))),
        }
    }

    fn stat(&mut self) -> Option<Stat> {
        let mut numbers = [0; 18];
        for number in &mut numbers {
            *number = self.long()?;
        }
        let [dev, ino, mode, nlink, uid, gid, rdev, size, block_size, blocks, times @ ..] = numbers;
        let time = |at: usize| Time {
            sec: times[at] as i64,
            nsec: times[at + 1] as u32,
        };
        Some(Stat {
            dev,
            ino,
            mode: mode as u32,
            nlink,
            uid: uid as u32,
            gid: gid as u32,
            rdev,
            size,
            block_size,
            blocks,
            atime: time(0),
            mtime: time(2),
            ctime: time(4),
            flags: Flags {
                bits: times[6] as u32,
                project: times[7] as u32,
            },
        })
    }

    fn entry(&mut self) -> Option<Entry> {
        Some(Entry {
            depth: u32::try_from(self.long()?).ok()?,
            name: CString::new(self.string()?).ok()?,
            stat: self.known(Self::stat)?,
            listed: self.known(|_| Some(()))?,
            target: self.known(Self::string)?,
            xattrs: self.known(Self::string)?,
            flags: self.known(Self::string)?,
            is_subvolume: self.long()? != 0,
            content: self.known(|message| {
                let fd = message.fds.next()?.into_raw_fd();
                Some(Fd::new(Sys(&Host), fd))
            })?,
        })
    }
}

impl Entry {
    fn unknown(depth: u32, name: &CStr, e: Errno) -> Entry {
        Entry {
            depth,
            name: name.to_owned(),
            stat: Err(e),
            listed: Err(e),
            target: Err(e),
            xattrs: Err(e),
            flags: Err(e),
            is_subvolume: false,
            content: Err(e),
        }
    }
}
