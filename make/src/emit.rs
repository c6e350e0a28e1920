//! A tree to operations of a copy, in the order of names. Neither the order in
//! which the host has its files nor where they have holes makes a difference.

use super::limits::Limits;
use super::tree::{Content, Id, Node, Tree, ROOT};
use crate::means::{By, Means};
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tane_copy::{Head, Loss, Observer, Op, Part, SenderBy, Sharing, Stopped, DATA};
use tane_linux::{is_subvolume, Errno, Fd, Flags, Kind, Root, Stat, Sys, Time, Xattrs};

const OPEN: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// How times are kept.
#[derive(Clone, Copy)]
pub struct Times {
    /// Later times become this one.
    pub latest: Time,
    /// All times become it.
    pub all: bool,
}

impl Times {
    pub fn of(self, stat: &mut Stat) {
        if self.all || stat.mtime > self.latest {
            stat.mtime = self.latest;
        }
        // When somebody last read the source is none of the image's business.
        stat.atime = stat.mtime;
    }
}

pub struct Emit<'t, 'h> {
    pub tree: &'t Tree,
    pub out: SenderBy<'t>,
    pub report: &'t dyn Observer,
    /// Opens what lies in a directory that was told.
    means: &'t dyn Means,
    sys: Sys<'h>,
    pub times: Times,
    /// The host, and the directory that contents are below.
    pub host: Root<'h>,
    pub source: Vec<u8>,
    limits: Option<Limits>,
    links: HashMap<Id, u32>,
    /// What the host's files have in common makes no difference either: it is lost.
    sharing: Sharing,
    noatime: i32,
    /// Of the file at hand, from the root on.
    path: Vec<u8>,
}

enum Trouble {
    File(Errno),
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

impl<'t, 'h> Emit<'t, 'h> {
    pub fn new(
        tree: &'t Tree,
        out: SenderBy<'t>,
        by: By<'t>,
        times: Times,
        sys: Sys<'h>,
        source: &[u8],
    ) -> Self {
        Emit {
            tree,
            out,
            report: by.observer,
            means: by.means,
            sys,
            times,
            host: Root::host(sys),
            source: source.to_vec(),
            limits: None,
            links: HashMap::new(),
            sharing: Sharing::default(),
            noatime: libc::O_NOATIME,
            path: b"/".to_vec(),
        }
    }

    /// Leaves out what these forbid.
    pub fn within(mut self, limits: Option<Limits>) -> Self {
        self.limits = limits;
        self
    }

    pub fn all(mut self) {
        let _ = self.walk();
        let _ = self.out.flush();
    }

    fn walk(&mut self) -> Result<(), Stopped> {
        let tree = self.tree;
        match self.directory(c".", tree.node(ROOT)) {
            Ok(head) => self.out.push(Op::Adopt(head)),
            Err(Trouble::File(e)) => self.report.error(b"/", e),
            Err(Trouble::Stopped) => return Err(Stopped),
        }
        let mut levels = vec![(tree.node(ROOT).names.iter(), 0)];
        while let Some((names, length)) = levels.last_mut() {
            if self.report.interrupted() {
                return Err(Stopped);
            }
            self.path.truncate(*length);
            let Some((name, &id)) = names.next() else {
                levels.pop();
                self.out.reserve(0)?;
                self.out.push(Op::Leave);
                continue;
            };
            self.path.push(b'/');
            self.path.extend_from_slice(name);
            let name = CString::new(&name[..]).unwrap_or_default();
            let node = tree.node(id);
            let done = match node.is_dir() {
                true => self.directory(&name, node).map(|head| {
                    self.out.push(Op::Enter(head));
                    levels.push((node.names.iter(), self.path.len()));
                }),
                false => self.file(&name, id, node),
            };
            match done {
                Ok(()) => {}
                Err(Trouble::File(e)) => self.report.error(&self.path, e),
                Err(Trouble::Stopped) => return Err(Stopped),
            }
        }
        Ok(())
    }

    fn directory(&mut self, name: &CStr, node: &Node) -> Result<Head, Trouble> {
        let mut stat = node.stat;
        let mut xattrs = node.xattrs.clone();
        if let Content::Host(path) = &node.content {
            let fd = self.open(path, libc::O_DIRECTORY)?;
            if self.path != b"/" && is_subvolume(&fd, stat.ino) {
                self.lose(Loss::Subvolume);
            }
            stat.flags = Flags::of(&fd);
            xattrs = merged(Xattrs::of(&fd)?, xattrs);
        }
        if let Content::Told(_, had) = &node.content {
            if self.path != b"/" && had.is_subvolume {
                self.lose(Loss::Subvolume);
            }
            stat.flags = had.flags;
            xattrs = merged(had.xattrs.clone()?, xattrs);
        }
        Ok(self.head(name, stat, &xattrs, None, 0)?)
    }

    /// Something of the file at hand.
    fn lose(&self, loss: Loss) {
        let why = Errno(libc::EOPNOTSUPP);
        self.report.lose(loss, &self.path, b"", why);
    }

    fn head(
        &mut self,
        name: &CStr,
        mut stat: Stat,
        xattrs: &Xattrs,
        link: Option<u32>,
        more: usize,
    ) -> Result<Head, Stopped> {
        self.times.of(&mut stat);
        let mut xattrs = sorted(xattrs);
        if let Some(limits) = &self.limits {
            limits.apply(&self.path, &mut stat, &mut xattrs, self.report);
        }
        self.out
            .reserve(SenderBy::head_size(name, &xattrs) + more)?;
        Ok(self.out.head(name, stat, &xattrs, link))
    }

    fn file(&mut self, name: &CStr, id: Id, node: &Node) -> Result<(), Trouble> {
        if let Some(&link) = self.links.get(&id) {
            self.out.reserve(name.count_bytes() + 1)?;
            let name = self.out.put(name.to_bytes_with_nul());
            self.out.push(Op::Link(name, link));
            return Ok(());
        }
        let next = self.links.len() as u32;
        let link = (node.links > 1).then_some(next);
        match node.stat.kind() {
            Kind::File => self.regular(name, node, link)?,
            Kind::Symlink => {
                let xattrs = self.xattrs_of_entry(node)?;
                let target = CString::new(&node.target[..]).map_err(|_| Errno(libc::EINVAL))?;
                let target = target.to_bytes_with_nul();
                let head = self.head(name, node.stat, &xattrs, link, target.len())?;
                let target = self.out.put(target);
                self.out.push(Op::Symlink(head, target));
            }
            _ => {
                let xattrs = self.xattrs_of_entry(node)?;
                let head = self.head(name, node.stat, &xattrs, link, 0)?;
                self.out.push(Op::Node(head));
            }
        }
        if link.is_some() {
            self.links.insert(id, next);
        }
        Ok(())
    }

    fn regular(&mut self, name: &CStr, node: &Node, link: Option<u32>) -> Result<(), Trouble> {
        let mut stat = node.stat;
        match &node.content {
            Content::None => {
                let head = self.head(name, stat, &node.xattrs, link, 0)?;
                let data = Part::default();
                match stat.size {
                    0 => self.out.push(Op::File(head, data)),
                    _ => {
                        self.out.push(Op::Begin(head));
                        self.out.reserve(0)?;
                        self.out.push(Op::End);
                    }
                }
            }
            Content::Host(_) | Content::Told(..) => {
                let fd = self.content(&node.content)?;
                let now = fd.sys().fstat(&fd)?;
                if now.kind() != Kind::File {
                    return Err(Errno(libc::ESTALE).into()); // replaced meanwhile
                }
                stat.size = now.size;
                stat.flags = Flags::of(&fd);
                let shares = self.sharing.of(&fd, &now);
                if shares.is_some_and(|shares| !shares.twins.is_empty()) {
                    self.lose(Loss::Reflink);
                }
                let have = match &node.content {
                    Content::Told(_, had) => had.xattrs.clone()?,
                    _ => Xattrs::of(&fd)?,
                };
                let xattrs = merged(have, node.xattrs.clone());
                if stat.size as usize <= DATA / 2 {
                    let size = stat.size as usize;
                    let head = self.head(name, stat, &xattrs, link, size)?;
                    let got = fd.sys().pread_all(&fd, self.out.space(size), 0)?;
                    let data = self.out.take(got);
                    self.out.push(Op::File(head, data));
                    return Ok(());
                }
                let head = self.head(name, stat, &xattrs, link, 0)?;
                self.out.push(Op::Begin(head));
                let done = self.large(&fd, stat.size);
                self.end(done)?;
            }
            Content::Parts(file, parts) => {
                if let [(0, from, len)] = parts[..] {
                    if len == stat.size && len as usize <= DATA / 2 {
                        let size = len as usize;
                        let head = self.head(name, stat, &node.xattrs, link, size)?;
                        file.read_exact_at(self.out.space(size), from)
                            .map_err(errno)?;
                        let data = self.out.take(size);
                        self.out.push(Op::File(head, data));
                        return Ok(());
                    }
                }
                let head = self.head(name, stat, &node.xattrs, link, 0)?;
                self.out.push(Op::Begin(head));
                let done = self.parts(file, parts);
                self.end(done)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, done: Result<(), Trouble>) -> Result<(), Trouble> {
        self.out.reserve(0)?;
        self.out.push(match done {
            Ok(()) => Op::End,
            Err(_) => Op::Abort,
        });
        done
    }

    /// Holes need not be read: they are blocks of zeroes, which become holes.
    fn large(&mut self, fd: &Fd, end: u64) -> Result<(), Trouble> {
        let sys = fd.sys();
        let mut at = 0;
        while at < end {
            at = match sys.lseek(fd, at as i64, libc::SEEK_DATA) {
                // On the grid of what is looked at for zeroes.
                Ok(start) => (start & !4095).max(at),
                Err(Errno(libc::ENXIO)) => return Ok(()),
                Err(e) if e.is_unsupported() => at,
                Err(e) => return Err(e.into()),
            };
            if self.report.interrupted() {
                return Err(Trouble::Stopped);
            }
            let size = (end - at).min(DATA as u64) as usize;
            self.out.reserve(size)?;
            let got = sys.pread_all(fd, self.out.space(size), at)?;
            let data = self.out.take(got);
            self.out.push(Op::Piece(at, data));
            at += got as u64;
            if got < size {
                break;
            }
        }
        Ok(())
    }

    fn parts(&mut self, file: &std::fs::File, parts: &[(u64, u64, u64)]) -> Result<(), Trouble> {
        for &(mut at, mut from, len) in parts {
            let end = at + len;
            while at < end {
                if self.report.interrupted() {
                    return Err(Trouble::Stopped);
                }
                let size = (end - at).min(DATA as u64) as usize;
                self.out.reserve(size)?;
                file.read_exact_at(self.out.space(size), from)
                    .map_err(errno)?;
                let data = self.out.take(size);
                self.out.push(Op::Piece(at, data));
                at += size as u64;
                from += size as u64;
            }
        }
        Ok(())
    }

    fn path(&self, below: &[u8]) -> Vec<u8> {
        [&self.source, &b"/"[..], below].concat()
    }

    fn open(&mut self, below: &[u8], flags: i32) -> Result<Fd<'h>, Errno> {
        let path = self.path(below);
        match self.host.open(&path, OPEN | flags | self.noatime) {
            Err(Errno(libc::EPERM)) if self.noatime != 0 => {
                self.noatime = 0;
                self.host.open(&path, OPEN | flags)
            }
            other => other,
        }
    }

    /// A file of the host, for reading.
    fn content(&mut self, content: &Content) -> Result<Fd<'h>, Errno> {
        match content {
            Content::Host(path) => self.open(path, 0),
            Content::Told(path, _) => {
                let [dir, name] = [&self.source[..], path]
                    .map(OsStr::from_bytes)
                    .map(Path::new);
                let file = self.means.open_in(dir, name).map_err(errno)?;
                Ok(Fd::new(self.sys, file.into_raw_fd()))
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn xattrs_of_entry(&self, node: &Node) -> Result<Xattrs, Errno> {
        let below = match &node.content {
            Content::Host(below) => below,
            Content::Told(_, had) => {
                let have = had.xattrs.clone().unwrap_or_default();
                return Ok(merged(have, node.xattrs.clone()));
            }
            _ => return Ok(node.xattrs.clone()),
        };
        let (dir, name) = self.host.parent(&self.path(below))?;
        let have = Xattrs::of_entry(&dir, &name).unwrap_or_default();
        Ok(merged(have, node.xattrs.clone()))
    }
}

fn errno(e: std::io::Error) -> Errno {
    Errno(e.raw_os_error().unwrap_or(libc::EIO))
}

/// Attributes a file has, but for those that it is given.
fn merged(have: Xattrs, given: Xattrs) -> Xattrs {
    if given.packed.is_empty() {
        return have;
    }
    let mut all = given.clone();
    for (name, value) in have.iter() {
        if given.iter().all(|(other, _)| other != name) {
            all.push(name, value);
        }
    }
    all
}

/// In the order of names: the host has them in the order they came.
fn sorted(xattrs: &Xattrs) -> Xattrs {
    let mut list: Vec<_> = xattrs.iter().collect();
    if list.len() < 2 {
        return xattrs.clone();
    }
    list.sort();
    let mut all = Xattrs::default();
    for (name, value) in list {
        all.push(name, value);
    }
    all
}
