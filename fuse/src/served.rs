//! The file system of an image, as operations on nodes.

use crate::bare::Bare;
use crate::caller::{act_for, afterwards, Acting};
use crate::node::{Dentry, Node};
use crate::prefetch::Prefetch;
use crate::table::Table;
use crate::turns::Turns;
use crate::{Death, FOREVER, ROOT};
use fuser::Request;
use std::any::Any;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;
use tane_linux::{folds_case, is_safe_name, Errno, Fd, Kind, Name, Stat, Sys};

pub type Result<T> = std::result::Result<T, Errno>;

// The numbers of file systems, as statfs(2) has them (linux/magic.h, fs/*).
const EXT: i64 = 0xef53;
const XFS: i64 = 0x5846_5342;
const BTRFS: i64 = 0x9123_683e;
const SQUASHFS: i64 = 0x7371_7368;
const ISO9660: i64 = 0x9660;
const FAT: i64 = 0x4d44;
const EXFAT: i64 = 0x2011_bab0;
const HFS: i64 = 0x4244;
const HFSPLUS: i64 = 0x482b;
const HPFS: i64 = 0xf995_e849;
const NTFS3: i64 = 0x7366_746e;

/// File systems in which no two names differ in case alone.
const FOLDING: [i64; 6] = [FAT, EXFAT, HFS, HFSPLUS, HPFS, NTFS3];

/// File systems in which a file has those extended attributes that it lists, and no
/// others.
const LISTING: [i64; 7] = [EXT, XFS, BTRFS, SQUASHFS, ISO9660, FAT, EXFAT];

/// How a file system is served.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether the host's programs may change it.
    pub writable: bool,
    /// The host's kernel checks permissions by users of the host, and what they
    /// make is theirs. Otherwise there is one user, who is root inside.
    pub many_users: bool,
    /// If no file has extended attributes, they may be called not supported.
    pub xattrs_if_any: bool,
    /// This process is there for the mount alone: who unmounts it can wait until it has
    /// ended, when all is in the image.
    pub ends_with_process: bool,
}

/// What an old kernel of the host's asks before it uses it.
#[derive(Default)]
pub struct Opens {
    pub files: bool,
    pub directories: bool,
}

/// A directory and all below it, as the host's kernel asks for it.
pub struct Served {
    pub(crate) sys: Sys<'static>,
    pub(crate) table: Table,
    pub(crate) manner: Manner,
    /// No two names of a directory differ in case alone.
    folds_case: bool,
    pub(crate) death: Death,
    pub(crate) asked_to_open: Opens,
    pub(crate) turns: Arc<Turns>,
    pub(crate) prefetch: Arc<Prefetch>,
    pub(crate) bare: Bare,
    /// Whose descriptors all of these are: the last to go.
    pub(crate) owner: Option<Arc<dyn Any + Send + std::marker::Sync>>,
}

/// A file of which the host's kernel is being told.
pub struct Found {
    pub id: u64,
    pub stat: Stat,
}

impl Served {
    /// Serves a directory. The descriptor is closed, and what was opened below it, when
    /// the connection that gets this is over. Its kernel must have room for some thousand
    /// descriptors of its process.
    ///
    /// Errors: those of fstat(2) and fstatfs(2); EAGAIN if there can be no more threads.
    pub fn new(root: Fd<'static>, manner: Manner, death: Death) -> Result<Served> {
        let sys = root.sys();
        let (stat, fstype) = (sys.fstat(&root)?, sys.fstatfs(&root)?.fstype);
        let served = Served {
            sys,
            table: Table::new(Node::root(ROOT, &stat, root), manner.writable),
            manner,
            folds_case: FOLDING.contains(&fstype),
            death,
            asked_to_open: Opens::default(),
            turns: Turns::new().map_err(|_| Errno(libc::EAGAIN))?,
            prefetch: Arc::default(),
            bare: Bare::new(manner.xattrs_if_any && LISTING.contains(&fstype)),
            owner: None,
        };
        served.learn_case(&served.table.get(ROOT)?)?;
        Ok(served)
    }

    // ---- names

    pub(crate) fn lookup(&self, parent: u64, name: &OsStr) -> Result<Found> {
        let (parent, name) = (self.table.get(parent)?, entry_name(name)?);
        let dir = self.table.open(&parent)?;
        self.tell(&parent, &dir.fd, name)
    }

    /// Whether names that are in this directory, or not, may be remembered: not if
    /// a change of one name changes others.
    pub(crate) fn remembers_names(&self, parent: u64) -> bool {
        let folds = |node: Arc<Node>| node.folds_case.load(Relaxed);
        !self.manner.writable || !self.table.get(parent).is_ok_and(folds)
    }

    /// And for how long, with the attributes: the protocol has one time for both.
    pub(crate) fn remembered(&self, parent: u64) -> Duration {
        match self.remembers_names(parent) {
            true => FOREVER,
            false => Duration::ZERO,
        }
    }

    /// Looks at an entry and makes it a node.
    fn tell(&self, parent: &Arc<Node>, dir: &Fd, name: CString) -> Result<Found> {
        let stat = self.sys.lstat(dir, &name)?;
        self.told(parent, &stat, name)
    }

    pub(crate) fn told(&self, parent: &Arc<Node>, stat: &Stat, name: CString) -> Result<Found> {
        let dentry = || Dentry {
            parent: parent.clone(),
            name,
        };
        let node = self.table.found(stat, dentry);
        if node.kind == Kind::Directory {
            self.learn_case(&node)?;
        }
        Ok(Found {
            id: node.id,
            stat: *stat,
        })
    }

    /// Finds out whether a directory folds case. Where nothing changes it makes no
    /// difference.
    pub(crate) fn learn_case(&self, node: &Arc<Node>) -> Result<()> {
        if self.manner.writable {
            let folds = self.folds_case || folds_case(&self.table.open(node)?.fd);
            node.folds_case.store(folds, Relaxed);
        }
        Ok(())
    }

    // ---- making

    /// `mode`: of what is made, its kind included, and what the caller's umask takes away.
    fn make(
        &self,
        request: &Request,
        (mode, umask): (u32, u32),
        parent: u64,
        name: &OsStr,
        make: impl FnOnce(&Fd<'static>, &CStr, u32) -> Result<()>,
    ) -> Result<Found> {
        let (parent, name) = (self.table.get(parent)?, entry_name(name)?);
        let dir = self.table.open(&parent)?;
        match act_for(self.sys, request, umask, self.manner.many_users)? {
            Acting::Already => make(&dir.fd, &name, mode)?,
            Acting::Afterwards(owner) => afterwards(&dir.fd, &name, mode, umask, owner, make)?,
        }
        self.tell(&parent, &dir.fd, name)
    }

    pub(crate) fn mknod(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    ) -> Result<Found> {
        self.make(request, (mode, umask), parent, name, |dir, name, mode| {
            self.sys.mknod(dir, name, mode, rdev.into())
        })
    }

    pub(crate) fn mkdir(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> Result<Found> {
        let kind = libc::S_IFDIR;
        self.make(
            request,
            (kind | mode, umask),
            parent,
            name,
            |dir, name, mode| self.sys.mkdir(dir, name, mode & !libc::S_IFMT),
        )
    }

    pub(crate) fn symlink(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Found> {
        let target = Name::new(target.as_bytes())?;
        self.make(request, (libc::S_IFLNK, 0), parent, name, |dir, name, _| {
            self.sys.symlink(&target, dir, name)
        })
    }

    pub(crate) fn link(&self, id: u64, parent: u64, name: &OsStr) -> Result<Found> {
        let (node, parent) = (self.table.get(id)?, self.table.get(parent)?);
        let name = entry_name(name)?;
        let (open, dir) = (self.table.open(&node)?, self.table.open(&parent)?);
        self.sys.link_fd(&open.fd, &dir.fd, &name)?;
        self.tell(&parent, &dir.fd, name)
    }

    // ---- removing and renaming

    pub(crate) fn remove(&self, parent: u64, name: &OsStr, flags: i32) -> Result<()> {
        let (parent, name) = (self.table.get(parent)?, entry_name(name)?);
        let dir = self.table.open(&parent)?;
        let victim = self.pin(&parent, &dir.fd, &name);
        let done = self.sys.unlink(&dir.fd, &name, flags);
        if let Some(victim) = victim {
            victim.unpin(&parent, &name, done.is_ok());
        }
        done
    }

    /// Keeps what goes with this name, for those who have it open.
    fn pin(&self, parent: &Node, dir: &Fd, name: &CString) -> Option<Arc<Node>> {
        let stat = self.sys.lstat(dir, name).ok()?;
        self.table.pin(parent, name, &stat)
    }

    pub(crate) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<()> {
        let (parent, name) = (self.table.get(from.0)?, entry_name(from.1)?);
        let (new_parent, new_name) = (self.table.get(to.0)?, entry_name(to.1)?);
        let (dir, new_dir) = (self.table.open(&parent)?, self.table.open(&new_parent)?);
        let stat = self.sys.lstat(&dir.fd, &name)?;
        let there = self.sys.lstat(&new_dir.fd, &new_name).ok();
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        // Two names of one file: nothing happens. Or only the case changes.
        let same = there.is_some_and(|there| there.identity() == stat.identity());
        let victim = there
            .filter(|_| !exchange && !same)
            .and_then(|there| self.table.pin(&new_parent, &new_name, &there));
        let done = self
            .sys
            .rename(&dir.fd, &name, &new_dir.fd, &new_name, flags);
        if let Some(victim) = victim {
            victim.unpin(&new_parent, &new_name, done.is_ok());
        }
        done?;
        let old = |node: Arc<Node>| {
            let dentry = Dentry {
                parent: parent.clone(),
                name: name.clone(),
            };
            node.moved((&new_parent, &new_name), dentry);
        };
        if exchange {
            there.and_then(|there| self.table.known(&there)).map(old);
        }
        if let Some(node) = self.table.known(&stat) {
            let dentry = Dentry {
                parent: new_parent.clone(),
                name: new_name.clone(),
            };
            node.moved((&parent, &name), dentry);
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // If it was never served, nobody else ends the thread that watches.
        self.turns.end();
    }
}

/// What a request calls an entry. The host's kernel sends no others.
fn entry_name(name: &OsStr) -> Result<CString> {
    if !is_safe_name(name.as_bytes()) {
        return Err(Errno(libc::EINVAL));
    }
    CString::new(name.as_bytes()).map_err(|_| Errno(libc::EINVAL))
}
