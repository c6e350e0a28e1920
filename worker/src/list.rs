//! Directories, and trees of them, as a stream of entries; here, or from a worker
//! that fills whole messages with them.

use crate::failure::{Failure, Result};
use crate::records::Stat;
use crate::wire::{Reader, Wire, Writer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use tane::{Dir, FileType, ReadDir, Tree};

/// Every entry comes with what stat(2) says of it, links not followed.
pub const STAT: u32 = 1;
/// All directories below as well, each before those in it, by their own order.
pub const WALK: u32 = 2;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub ino: u64,
    /// S_IFMT bits; 0 if the directory does not say.
    pub kind: u32,
    /// Never empty, "." or "..", without "/" and NUL, at most 255 bytes.
    pub name: OsString,
    /// If it was asked for, and the entry has not gone meanwhile.
    pub stat: Option<Stat>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    Entry(Entry),
    /// Entries from here on are in this directory, named from where the walk began.
    Directory(OsString),
}

/// The largest of them, in a message.
pub(crate) const LARGEST: usize = 6 * 8 + 256 + size_of::<Stat>() + 4096;

/// A listing that goes on.
pub struct Lister {
    flags: u32,
    /// Those that lead to the directory at hand, itself at the end; empty if it is
    /// only listed.
    trail: Vec<Step>,
    entries: ReadDir,
    /// The name of the directory at hand is still to be told.
    new: bool,
}

struct Step {
    dir: Dir,
    path: Vec<u8>,
    /// Directories in it that are still to be walked, the next one last.
    below: Vec<OsString>,
}

pub(crate) fn kind_bits(kind: Option<FileType>) -> u32 {
    match kind {
        Some(FileType::File) => libc::S_IFREG,
        Some(FileType::Dir) => libc::S_IFDIR,
        Some(FileType::Symlink) => libc::S_IFLNK,
        Some(FileType::BlockDevice) => libc::S_IFBLK,
        Some(FileType::CharDevice) => libc::S_IFCHR,
        Some(FileType::Fifo) => libc::S_IFIFO,
        Some(FileType::Socket) => libc::S_IFSOCK,
        Some(FileType::Unknown) | None => 0,
    }
}

impl Lister {
    /// Flags: [`STAT`], [`WALK`].
    pub fn new(tree: &Tree, path: &OsStr, flags: u32) -> Result<Lister> {
        if flags & !(STAT | WALK) != 0 {
            return Err(Failure::new(libc::EINVAL, "list: unknown flags"));
        }
        if flags == 0 {
            return Ok(Lister {
                flags,
                trail: Vec::new(),
                entries: tree.read_dir(path)?,
                new: false,
            });
        }
        let dir = tree.open_dir(path)?;
        Ok(Lister {
            flags,
            entries: dir.read_dir()?,
            trail: vec![Step {
                dir,
                path: Vec::new(),
                below: Vec::new(),
            }],
            new: false,
        })
    }

    /// Start again.
    pub fn rewind(&mut self) -> Result<()> {
        self.trail.truncate(1);
        match self.trail.first_mut() {
            None => self.entries.rewind()?,
            Some(top) => {
                top.below.clear();
                self.entries = top.dir.read_dir()?;
            }
        }
        self.new = false;
        Ok(())
    }

    /// None at the end.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Listing>> {
        loop {
            if std::mem::take(&mut self.new) {
                let path = self.trail.last().map(|step| step.path.clone());
                return Ok(path.map(|path| Listing::Directory(OsString::from_vec(path))));
            }
            if let Some(entry) = self.entry()? {
                return Ok(Some(Listing::Entry(entry)));
            }
            if self.flags & WALK == 0 || !self.descend()? {
                return Ok(None);
            }
        }
    }

    fn entry(&mut self) -> Result<Option<Entry>> {
        let Some(found) = self.entries.next_entry()? else {
            return Ok(None);
        };
        let mut entry = Entry {
            ino: found.ino(),
            kind: kind_bits(found.file_type()),
            name: found.file_name().to_owned(),
            stat: None,
        };
        if let Some(here) = self.trail.last_mut() {
            let walks = self.flags & WALK != 0;
            if self.flags & STAT != 0 || walks && entry.kind == 0 {
                let stat = here.dir.metadata(&entry.name).map(Stat::from);
                entry.stat = stat.ok();
            }
            if let Some(stat) = &entry.stat {
                entry.kind = stat.mode & libc::S_IFMT;
            }
            if walks && entry.kind == libc::S_IFDIR {
                here.below.push(entry.name.clone());
            }
        }
        Ok(Some(entry))
    }

    /// Into the next directory; false if there is none.
    fn descend(&mut self) -> Result<bool> {
        // Just listed, so in the order of the directory.
        if let Some(here) = self.trail.last_mut() {
            here.below.reverse();
        }
        while let Some(here) = self.trail.last_mut() {
            let Some(name) = here.below.pop() else {
                if self.trail.len() == 1 {
                    break;
                }
                self.trail.pop();
                continue;
            };
            let mut path = here.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let dir = here.dir.open_dir(&name)?;
            self.entries = dir.read_dir()?;
            self.trail.push(Step {
                dir,
                path,
                below: Vec::new(),
            });
            self.new = true;
            return Ok(true);
        }
        Ok(false)
    }
}

const END: u64 = 0;
const ENTRY: u64 = 1;
const DIRECTORY: u64 = 2;
const FAILED: u64 = 3;

/// Fill a message. False: the listing is at its end, or has failed.
pub(crate) fn fill(lister: &mut Lister, to: &mut Writer) -> Result<bool> {
    while to.left() >= LARGEST {
        match lister.next() {
            Ok(Some(Listing::Entry(entry))) => {
                to.int(ENTRY)?;
                to.int(entry.ino)?;
                entry.kind.put(to)?;
                entry.name.as_os_str().put(to)?;
                entry.stat.put(to)?;
            }
            Ok(Some(Listing::Directory(path))) => {
                if path.len() > libc::PATH_MAX as usize {
                    return failed(to, &Failure::of_errno(libc::ENAMETOOLONG, "walk"));
                }
                to.int(DIRECTORY)?;
                path.as_os_str().put(to)?;
            }
            Ok(None) => {
                to.int(END)?;
                return Ok(false);
            }
            Err(failure) => return failed(to, &failure),
        }
    }
    Ok(true)
}

fn failed(to: &mut Writer, failure: &Failure) -> Result<bool> {
    to.int(FAILED)?;
    failure.errno.put(to)?;
    let text = failure.text.as_bytes();
    to.bytes(&text[..text.len().min(512)])?;
    Ok(false)
}

/// Whether a directory can hold it. Callers make files of the host by such names.
fn is_name(name: &[u8]) -> bool {
    let odd = name.iter().any(|&b| b == b'/' || b == 0);
    !odd && (1..=255).contains(&name.len()) && name != b"." && name != b".."
}

/// Take one of what [`fill`] wrote, or somebody who would like to be taken for it.
/// None: at the end of the listing.
pub(crate) fn parse(from: &mut Reader) -> Result<Option<Listing>> {
    match from.int()? {
        END => Ok(None),
        ENTRY => {
            let entry = Entry {
                ino: from.int()?,
                kind: u32::get(from)? & libc::S_IFMT,
                name: <&OsStr>::get(from)?.to_owned(),
                stat: Option::<Stat>::get(from)?,
            };
            match is_name(entry.name.as_bytes()) {
                true => Ok(Some(Listing::Entry(entry))),
                false => from.malformed(),
            }
        }
        DIRECTORY => {
            let path = <&OsStr>::get(from)?;
            let fits = path.len() <= libc::PATH_MAX as usize;
            match fits && path.as_bytes().split(|&b| b == b'/').all(is_name) {
                true => Ok(Some(Listing::Directory(path.to_owned()))),
                false => from.malformed(),
            }
        }
        FAILED => {
            let errno = i32::get(from)?;
            let text = String::get(from)?;
            match errno {
                1..4096 => Err(Failure::new(
                    errno,
                    crate::failure::readable(text.as_bytes()),
                )),
                _ => from.malformed(),
            }
        }
        _ => from.malformed(),
    }
}
