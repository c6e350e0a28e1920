//! The reading half of a copy: walks the source and describes it.
//!
//! Directories are walked by descriptor, so no path is resolved twice, no depth
//! is too deep for a path and no symlink is ever followed. Entries are taken in
//! inode order, which is the order of the inode tables on disk.

mod entries;
mod large;
mod small;

use super::batch::{LinkId, Op, Sender, SenderBy, Stopped, DATA};
use super::loss::Loss;
use super::observer::Observer;
use super::sharing::Sharing;
use super::{Source, SparseMode, DEEPEST};
use crate::patterns::Excludes;
use std::collections::HashMap;
use std::ffi::CStr;
use tane::HostBlocks;
use tane_linux::{is_subvolume, Entries, Errno, Fd, Flags, Kind, Stat, Sys, Xattrs};

const OPEN: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// A directory that is being walked.
struct Level<'a> {
    fd: Fd<'a>,
    identity: (u64, u64),
    entries: Entries,
    next: usize,
    path_len: usize,
}

pub struct Reader<'a, 'r> {
    sys: Sys<'a>,
    out: SenderBy<'r>,
    report: &'r dyn Observer,
    sparse: SparseMode,
    /// A directory of the same kernel that must not be walked: the destination.
    avoid: Option<(u64, u64)>,
    /// Whoever writes wants to know beforehand where a file has data.
    maps: bool,
    /// The destination has hard links. Else a file is sent again under each name.
    to_links: bool,
    links: HashMap<(u64, u64), LinkId>,
    sharing: Sharing,
    /// Descriptors on their way to the writer.
    sent: u32,
    excludes: Option<&'r Excludes>,
    /// Where the host has the bytes of files of a device.
    host_blocks: Option<&'a HostBlocks>,
    /// The length of the path of the source at hand.
    top: usize,
    /// In the file at hand.
    zeroes_are_holes: bool,
    noatime: i32,
    path: Vec<u8>,
}

/// A file that could not be read; or nobody wants to know.
enum Trouble {
    File(Errno),
    /// Whoever writes has failed with it, and said so.
    GivenUp,
    Stopped,
}

impl From<Errno> for Trouble {
    fn from(e: Errno) -> Self {
        Trouble::File(e)
    }
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Trouble::Stopped
    }
}

type Result<T> = std::result::Result<T, Trouble>;

impl<'a, 'r> Reader<'a, 'r> {
    pub fn new(
        sys: Sys<'a>,
        out: SenderBy<'r>,
        report: &'r dyn Observer,
        sparse: SparseMode,
        avoid: Option<(u64, u64)>,
    ) -> Self {
        let (links, sharing, path) = Default::default();
        Reader {
            sys,
            out,
            report,
            sparse,
            avoid,
            maps: false,
            to_links: true,
            links,
            sharing,
            sent: 0,
            excludes: None,
            host_blocks: None,
            top: 0,
            zeroes_are_holes: false,
            noatime: libc::O_NOATIME,
            path,
        }
    }

    /// Send `Op::Map` before each file with holes.
    pub fn with_maps(mut self) -> Self {
        self.maps = true;
        self
    }

    /// The destination has no hard links.
    pub fn without_links(mut self, without: bool) -> Self {
        self.to_links = !without;
        self
    }

    /// What matches these below a source is left out.
    pub fn without(mut self, excludes: &'r Excludes) -> Self {
        self.excludes = Some(excludes);
        self
    }

    /// The host may have the bytes of files there.
    pub fn with_host_blocks(mut self, host_blocks: Option<&'a HostBlocks>) -> Self {
        self.host_blocks = host_blocks;
        self
    }

    /// Reads one entry of a directory, and all below; the copy is called `to`.
    /// `shown` is the source as the user wrote it.
    fn entry(&mut self, dir: &Fd<'a>, name: &CStr, to: &CStr, shown: &[u8]) -> bool {
        self.begin(shown);
        let result = self.one(dir, name, None, to).and_then(|below| match below {
            Some(level) => self.walk(level),
            None => Ok(()),
        });
        self.settle(result)
    }

    /// Reads what is inside a directory; the copy's directory exists already.
    fn contents(&mut self, dir: Fd<'a>, shown: &[u8]) -> bool {
        self.begin(shown);
        let result = self.adopt(dir).and_then(|level| self.walk(level));
        self.settle(result)
    }

    /// Reads all of them, and sends what is left.
    pub fn read(mut self, sources: Vec<Source<'a>>) {
        for source in sources {
            if self.report.interrupted() {
                break;
            }
            let go_on = match source {
                Source::Entry {
                    dir,
                    name,
                    to,
                    shown,
                } => self.entry(&dir, &name, &to, &shown),
                Source::Contents { dir, shown } => self.contents(dir, &shown),
            };
            if !go_on {
                break;
            }
        }
        let _ = self.out.flush();
    }

    fn begin(&mut self, shown: &[u8]) {
        self.path = shown.to_vec();
        self.top = shown.len();
    }

    /// Whether what is at hand is left out.
    fn is_excluded(&self, kind: Kind) -> bool {
        let (below, is_dir) = (&self.path[self.top..], kind == Kind::Directory);
        let excludes = self.excludes.filter(|_| !below.is_empty());
        excludes.is_some_and(|excludes| excludes.has(below, is_dir))
    }

    fn settle(&mut self, result: Result<()>) -> bool {
        match result {
            Ok(()) | Err(Trouble::GivenUp) => true,
            // What else there is of a kernel that has died is named as well.
            Err(Trouble::File(e)) => self.file_failed(e) || e == Errno(libc::ESHUTDOWN),
            Err(Trouble::Stopped) => false,
        }
    }

    /// What is at hand cannot be read. False: nothing else can be, or is to be.
    fn file_failed(&self, e: Errno) -> bool {
        if self.sys.0.is_ours() && e == Errno(libc::ECANCELED) {
            self.report.cancel();
            return false;
        }
        self.report.error(&self.path, e);
        e != Errno(libc::ESHUTDOWN) // its kernel has died
    }

    fn adopt(&mut self, dir: Fd<'a>) -> Result<Level<'a>> {
        let mut stat = self.sys.fstat(&dir)?;
        stat.flags = Flags::of(&dir);
        let xattrs = Xattrs::of(&dir)?;
        self.out.reserve(Sender::head_size(c".", &xattrs))?;
        let head = self.out.head(c".", stat, &xattrs, None);
        self.out.push(Op::Adopt(head));
        self.level(dir, &stat)
    }

    fn level(&self, fd: Fd<'a>, stat: &Stat) -> Result<Level<'a>> {
        let mut entries = Entries::read(&fd)?;
        entries.sort_by_inode();
        Ok(Level {
            fd,
            identity: stat.identity(),
            entries,
            next: 0,
            path_len: self.path.len(),
        })
    }

    /// Walks depth first, without recursion.
    fn walk(&mut self, top: Level<'a>) -> Result<()> {
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            if self.report.interrupted() {
                return Err(Trouble::Stopped);
            }
            self.path.truncate(level.path_len);
            let Some(entry) = level.entries.list.get(level.next) else {
                levels.pop();
                self.out.reserve(0)?;
                self.out.push(Op::Leave);
                continue;
            };
            level.next += 1;
            let name = level.entries.name(entry);
            if self.path.last() != Some(&b'/') {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            match self.one(&level.fd, name, entry.kind, name) {
                Ok(None) | Err(Trouble::GivenUp) => {}
                Ok(Some(below)) => {
                    if levels.len() >= DEEPEST
                        || levels.iter().any(|l| l.identity == below.identity)
                    {
                        // A damaged image can hold a directory in itself, and what reads
                        // it may make up directories without end: each keeps one open.
                        self.report.error(&self.path, Errno(libc::ELOOP));
                        self.out.reserve(0)?;
                        self.out.push(Op::Leave);
                    } else {
                        levels.push(below);
                    }
                }
                Err(Trouble::File(e)) if self.file_failed(e) => {}
                Err(Trouble::File(_) | Trouble::Stopped) => return Err(Trouble::Stopped),
            }
        }
        Ok(())
    }

    /// Sends one entry. A directory is entered, and returned to be walked.
    fn one(
        &mut self,
        dir: &Fd<'a>,
        name: &CStr,
        kind: Option<Kind>,
        to: &CStr,
    ) -> Result<Option<Level<'a>>> {
        let kind = match kind {
            Some(kind) => kind,
            None => self.sys.lstat(dir, name)?.kind(),
        };
        if self.is_excluded(kind) {
            return Ok(None);
        }
        match kind {
            Kind::Directory => self.directory(dir, name, to),
            _ if self.report.has_stopped() => {
                self.out.reserve(to.count_bytes() + 1)?;
                let name = self.out.put(to.to_bytes_with_nul());
                self.out.push(Op::Omit(name));
                Ok(None)
            }
            Kind::File => self.file(dir, name, to).map(|()| None),
            Kind::Symlink => self.symlink(dir, name, to).map(|()| None),
            _ => self.node(dir, name, to).map(|()| None),
        }
    }

    /// Opens without touching the access time, if that is allowed.
    fn open(&mut self, dir: &Fd, name: &CStr, flags: i32) -> Result<Fd<'a>> {
        match self.sys.openat(dir, name, OPEN | flags | self.noatime, 0) {
            Err(Errno(libc::EPERM)) if self.noatime != 0 => {
                self.noatime = 0;
                Ok(self.sys.openat(dir, name, OPEN | flags, 0)?)
            }
            other => Ok(other?),
        }
    }

    fn directory(&mut self, dir: &Fd, name: &CStr, to: &CStr) -> Result<Option<Level<'a>>> {
        let fd = self.open(dir, name, libc::O_DIRECTORY)?;
        let mut stat = self.sys.fstat(&fd)?;
        stat.flags = Flags::of(&fd);
        if self.avoid == Some(stat.identity()) {
            let text = "is the destination: a directory cannot be copied into itself";
            self.report.error_text(&self.path, text.into());
            return Ok(None);
        }
        if is_subvolume(&fd, stat.ino) {
            let why = Errno(libc::EOPNOTSUPP);
            self.report.lose(Loss::Subvolume, &self.path, b"", why);
        }
        let xattrs = Xattrs::of(&fd)?;
        // List it before announcing it: nothing is entered that cannot be read.
        let level = self.level(fd, &stat)?;
        self.out.reserve(Sender::head_size(to, &xattrs))?;
        let head = self.out.head(to, stat, &xattrs, None);
        self.out.push(Op::Enter(head));
        Ok(Some(level))
    }

    /// Sends a further name of a file that was sent before. Else returns the
    /// number under which it will be known.
    fn link(
        &mut self,
        stat: &Stat,
        to: &CStr,
    ) -> Result<std::ops::ControlFlow<(), Option<LinkId>>> {
        use std::ops::ControlFlow::{Break, Continue};
        if stat.nlink < 2 {
            return Ok(Continue(None));
        }
        if let Some(&id) = self.links.get(&stat.identity()) {
            if !self.to_links {
                return Ok(Continue(Some(id)));
            }
            self.out.reserve(to.count_bytes() + 1)?;
            let name = self.out.put(to.to_bytes_with_nul());
            self.out.push(Op::Link(name, id));
            return Ok(Break(()));
        }
        let id = self.links.len() as LinkId;
        self.links.insert(stat.identity(), id);
        Ok(Continue(Some(id)))
    }

    fn file(&mut self, dir: &Fd, name: &CStr, to: &CStr) -> Result<()> {
        let fd = self.open(dir, name, 0)?;
        let mut stat = self.sys.fstat(&fd)?;
        if stat.kind() != Kind::File {
            return Err(Errno(libc::ESTALE).into()); // replaced meanwhile
        }
        let std::ops::ControlFlow::Continue(link) = self.link(&stat, to)? else {
            return Ok(());
        };
        let result = self.new_file(&fd, &mut stat, to, link);
        if matches!(result, Err(Trouble::File(_))) && link.is_some() {
            self.links.remove(&stat.identity());
        }
        result
    }

    fn new_file(
        &mut self,
        fd: &Fd,
        stat: &mut Stat,
        to: &CStr,
        link: Option<LinkId>,
    ) -> Result<()> {
        let plain;
        (stat.flags, plain) = Flags::and_plain(fd);
        let xattrs = Xattrs::of(fd)?;
        let head_size = Sender::head_size(to, &xattrs);
        let has_holes = self.sparse != SparseMode::Never && stat.data() < stat.size;
        // Within one kernel the copy has the same blocks, if that can be.
        let within = self.avoid.is_some() && self.sparse == SparseMode::Auto;
        if within && self.sharing.mount(fd, stat).is_some() {
            return self.clone_of(fd, stat, to, &xattrs, link);
        }
        let shares = self.sharing.of(fd, stat);
        let small = stat.size as usize <= DATA - head_size.min(DATA) && !has_holes;
        if !small || shares.is_some() || stat.size == 0 && self.endless(fd)? {
            let more = large::More {
                link,
                shares,
                has_holes,
                plain,
            };
            return self.large_file(fd, stat, to, &xattrs, more);
        }
        self.out.reserve(head_size + stat.size as usize)?;
        let head = self.out.head(to, *stat, &xattrs, link);
        // A further name could already be sent when the data turns out unreadable.
        let range = match link {
            None if plain => self.small_by_host(fd, stat),
            _ => None,
        };
        if let Some(range) = range {
            self.report.read_by_host(range.len);
            self.out.file_later(head, range);
            return Ok(());
        }
        let size = self
            .sys
            .pread_all(fd, self.out.space(stat.size as usize), 0)?;
        let data = self.out.take(size);
        self.out.push(Op::File(head, data));
        Ok(())
    }
}
