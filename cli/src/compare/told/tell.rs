//! At the end of who reads the directory, and has no Linux.

use super::{Entry, Known, Wanted};
use crate::passing::{self, MOST};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tane_copy::patterns::Excludes;
use tane_linux::{
    is_subvolume, split, Entries, Errno, Fd, Flags, Host, Kind, Root, Stat, Sys, Xattrs,
};

/// A message is sent when it has so many bytes.
const FULL: usize = 32 << 10;
/// How long to wait when as many descriptors are on their way as may be.
const PAUSE: Duration = Duration::from_millis(1);

/// A message that is being made.
#[derive(Default)]
struct Draft {
    bytes: Vec<u8>,
    fds: Vec<RawFd>,
}

impl Draft {
    fn long(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn string(&mut self, string: &[u8]) {
        self.long(string.len() as u64);
        self.bytes.extend_from_slice(string);
    }

    fn known<T>(&mut self, what: Known<T>, put: impl FnOnce(&mut Self, T)) {
        match what {
            Ok(known) => {
                self.long(0);
                put(self, known);
            }
            Err(Errno(errno)) => self.long(errno.unsigned_abs().max(1).into()),
        }
    }

    fn stat(&mut self, stat: &Stat) {
        let times = [stat.atime, stat.mtime, stat.ctime];
        let numbers = [
            stat.dev,
            stat.ino,
            stat.mode.into(),
            stat.nlink,
            stat.uid.into(),
            stat.gid.into(),
            stat.rdev,
            stat.size,
            stat.block_size,
            stat.blocks,
        ];
        numbers.into_iter().for_each(|number| self.long(number));
        for time in times {
            self.long(time.sec as u64);
            self.long(time.nsec.into());
        }
        self.long(stat.flags.bits.into());
        self.long(stat.flags.project.into());
    }

    fn entry(&mut self, entry: Entry) {
        self.long(entry.depth.into());
        self.string(entry.name.to_bytes());
        self.known(entry.stat, |draft, stat| draft.stat(&stat));
        self.known(entry.listed, |_, ()| {});
        self.known(entry.target, |draft, target| draft.string(&target));
        self.known(entry.xattrs, |draft, packed| draft.string(&packed));
        self.known(entry.flags, |draft, letters| draft.string(&letters));
        self.long(entry.is_subvolume.into());
        self.known(entry.content, |draft, fd| draft.fds.push(fd.into_raw()));
    }

    fn is_full(&self) -> bool {
        self.fds.len() == MOST || self.bytes.len() >= FULL
    }

    /// Also an empty one.
    fn send(&mut self, mut line: &File) -> io::Result<()> {
        let numbers = [self.bytes.len() as u32, self.fds.len() as u32];
        let header = numbers.map(u32::to_le_bytes).concat();
        let message = [header, std::mem::take(&mut self.bytes)].concat();
        let sent = loop {
            match passing::send(line, &message, &self.fds) {
                Err(e) if e.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    std::thread::sleep(PAUSE);
                }
                sent => break sent,
            }
        };
        let sys = Sys(&Host);
        self.fds.drain(..).for_each(|fd| sys.close(fd));
        line.write_all(&message[sent?..])
    }
}

/// A directory that is being told.
struct Open {
    fd: Fd<'static>,
    identity: (u64, u64),
    entries: Entries,
    next: usize,
    path_len: usize,
}

/// In the teller: all of it, as long as after each message somebody says that it goes on. An
/// error: nobody listens any more.
pub fn tell(
    line: &File,
    path: &Path,
    wanted: &Wanted,
    mut goes_on: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    let excludes = Excludes::new(&wanted.excludes);
    let wanted = (wanted, &excludes);
    let mut draft = Draft::default();
    let mut levels: Vec<Open> = Vec::new();
    let mut below = b".".to_vec();
    let root = Root::host(Sys(&Host));
    let path = path.as_os_str().as_bytes();
    let top = match split(path) {
        // A trailing slash asks for a directory, through a symlink if need be.
        Some(_) if !path.ends_with(b"/") => root.parent(path),
        _ => root.open_dir(path).map(|dir| (dir, c".".into())),
    };
    let (entry, opened) = match top {
        Ok((dir, name)) => look((&dir, &name), &below, &levels, wanted),
        Err(e) => (Entry::unknown(0, c".", e), None),
    };
    draft.entry(entry);
    levels.extend(opened);
    while let Some(level) = levels.last_mut() {
        below.truncate(level.path_len);
        let Some(next) = level.entries.list.get(level.next) else {
            levels.pop();
            continue;
        };
        let name = level.entries.name(next).to_owned();
        level.next += 1;
        match levels.len() {
            1 => below.clear(),
            _ => below.push(b'/'),
        }
        below.extend_from_slice(name.to_bytes());
        let Some(level) = levels.last() else {
            break;
        };
        let (entry, opened) = look((&level.fd, &name), &below, &levels, wanted);
        draft.entry(entry);
        levels.extend(opened);
        if draft.is_full() {
            draft.send(line)?;
            if !goes_on()? {
                return draft.send(line);
            }
        }
    }
    if !draft.bytes.is_empty() {
        draft.send(line)?;
        // It is the end in any case.
        goes_on()?;
    }
    draft.send(line)
}

/// What is not told, and why.
pub(super) fn refuse(
    line: &File,
    e: &io::Error,
    mut goes_on: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    let mut draft = Draft::default();
    let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
    draft.entry(Entry::unknown(0, c".", errno));
    draft.send(line)?;
    goes_on()?;
    draft.send(line)
}

impl Entry {
    fn has(&mut self, flags: Flags) {
        self.flags = Ok(flags.letters());
        if let Ok(stat) = &mut self.stat {
            stat.flags = flags;
        }
    }
}

/// What there is to be told of an entry, and what is in it, of a directory.
fn look(
    (dir, name): (&Fd<'static>, &CStr),
    path: &[u8],
    above: &[Open],
    (wanted, excludes): (&Wanted, &Excludes),
) -> (Entry, Option<Open>) {
    let sys = dir.sys();
    let depth = above.len() as u32;
    let stat = match sys.lstat(dir, name) {
        Ok(stat) => stat,
        Err(e) => return (Entry::unknown(depth, name, e), None),
    };
    let kind = stat.kind();
    let unasked = Errno(libc::ENODATA);
    let nonblocking = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut entry = Entry {
        stat: Ok(stat),
        listed: Ok(()),
        ..Entry::unknown(depth, name, unasked)
    };
    // What is left out whatever it is: the other one may have a file where this is a
    // directory.
    if [true, false]
        .iter()
        .all(|is_dir| excludes.has(path, *is_dir))
    {
        return (entry, None);
    }
    if kind == Kind::Symlink && wanted.targets {
        entry.target = sys.readlink(dir, name);
    }
    if wanted.xattrs {
        let found = Xattrs::of_entry(dir, name);
        entry.xattrs = found.map(|found| found.portable().to_vec());
    }
    if kind == Kind::File && (wanted.content || wanted.flags) {
        let file = sys.openat(dir, name, nonblocking, 0);
        if wanted.flags {
            match &file {
                Ok(file) => entry.has(Flags::of(file)),
                Err(e) => entry.flags = Err(*e),
            }
        }
        if wanted.content {
            entry.content = file;
        }
    }
    if kind != Kind::Directory || above.len() >= wanted.depth {
        return (entry, None);
    }
    match list((dir, name), stat.identity(), above, path.len()) {
        Ok(open) => {
            if wanted.flags {
                entry.has(Flags::of(&open.fd));
                entry.is_subvolume = is_subvolume(&open.fd, stat.ino);
            }
            (entry, Some(open))
        }
        Err(e) => {
            entry.listed = Err(e);
            entry.flags = Err(e);
            (entry, None)
        }
    }
}

fn list(
    (dir, name): (&Fd<'static>, &CStr),
    identity: (u64, u64),
    above: &[Open],
    path_len: usize,
) -> Known<Open> {
    if above.iter().any(|open| open.identity == identity) {
        return Err(Errno(libc::ELOOP));
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let fd = dir.sys().openat(dir, name, flags, 0)?;
    let mut entries = Entries::read(&fd)?;
    entries.sort_by_name();
    Ok(Open {
        fd,
        identity,
        entries,
        next: 0,
        path_len,
    })
}
