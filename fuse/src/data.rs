//! What is done with a file once it has been found: attributes and data.

use crate::attr::timespec;
use crate::bare;
use crate::node::{Node, Open};
use crate::served::{Result, Served};
use crate::ROOT;
use fuser::TimeOrNow;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tane_linux::{Errno, Fd, Kind, RawStatFs, Stat, Sync, Target};

/// What a request wants changed; None stays as it is.
#[derive(Default)]
pub struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
    /// Set-user-ID and set-group-ID end with a change of the size: root did not
    /// ask for it.
    pub kill_privileges: bool,
}

impl Served {
    pub(crate) fn node(&self, id: u64) -> Result<(Arc<Node>, Arc<Open>)> {
        let node = self.table.get(id)?;
        let open = self.table.open(&node)?;
        Ok((node, open))
    }

    fn open_file(&self, id: u64) -> Result<Arc<Open>> {
        let (node, open) = self.node(id)?;
        match node.kind {
            Kind::File => Ok(open),
            Kind::Directory => Err(Errno(libc::EISDIR)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn open_to_write(&self, id: u64) -> Result<Arc<Open>> {
        self.table.open_to_write(&self.table.get(id)?)
    }

    // ---- attributes

    pub(crate) fn getattr(&self, id: u64) -> Result<Stat> {
        let node = self.table.get(id)?;
        if let Some(open) = node.held() {
            return self.sys.fstat(&open.fd);
        }
        // To look at a file it need not be opened.
        if let Some(dentry) = node.dentry() {
            let dir = self.table.open(&dentry.parent)?;
            match self.sys.lstat(&dir.fd, &dentry.name) {
                Ok(stat) if stat.identity() == node.identity => return Ok(stat),
                _ => {} // renamed just now
            }
        }
        self.sys.fstat(&self.table.open(&node)?.fd)
    }

    pub(crate) fn setattr(&self, id: u64, change: &Change) -> Result<Stat> {
        let (node, open) = self.node(id)?;
        let fd = &open.fd;
        if change.uid.is_some() || change.gid.is_some() {
            let uid = change.uid.unwrap_or(u32::MAX);
            let gid = change.gid.unwrap_or(u32::MAX);
            self.sys.chown(fd, c"", uid, gid, libc::AT_EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            self.chmod(&node, fd, mode & 0o7777)?;
        }
        if let Some(size) = change.size {
            let open = self.table.open_to_write(&node)?;
            self.sys.ftruncate(&open.fd, size)?;
            if change.kill_privileges {
                self.kill_privileges(&open.fd)?;
            }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = [omit_or(change.atime), omit_or(change.mtime)];
            self.sys.utimens(fd, c"", &times, libc::AT_EMPTY_PATH)?;
        }
        self.sys.fstat(fd)
    }

    fn chmod(&self, node: &Node, fd: &Fd, mode: u32) -> Result<()> {
        match node.kind {
            Kind::File | Kind::Directory => self.sys.fchmod(fd, mode),
            _ => self.sys.chmod_path(fd, mode),
        }
    }

    /// What writing does to a file when it is not root who writes. The thread that
    /// serves is root, and Linux spares root's writes.
    fn kill_privileges(&self, fd: &Fd) -> Result<()> {
        let mode = self.sys.fstat(fd)?.permissions();
        let mut less = mode & !libc::S_ISUID;
        // Without the group's right to execute it means mandatory locking.
        if mode & libc::S_IXGRP != 0 {
            less &= !libc::S_ISGID;
        }
        match less == mode {
            true => Ok(()),
            false => self.sys.fchmod(fd, less),
        }
    }

    pub(crate) fn readlink(&self, id: u64) -> Result<Vec<u8>> {
        self.sys.readlink(&self.node(id)?.1.fd, c"")
    }

    pub(crate) fn statfs(&self) -> Result<RawStatFs> {
        self.sys.fstatfs(&self.node(ROOT)?.1.fd)
    }

    // ---- data

    pub(crate) fn read(&self, id: u64, at: u64, to: &mut [u8]) -> Result<usize> {
        self.sys.pread_all(&self.open_file(id)?.fd, to, at)
    }

    pub(crate) fn write(&self, id: u64, at: u64, data: &[u8], kill_privileges: bool) -> Result<()> {
        let open = self.open_to_write(id)?;
        self.sys.pwrite_all(&open.fd, data, at)?;
        match kill_privileges {
            true => self.kill_privileges(&open.fd),
            false => Ok(()),
        }
    }

    pub(crate) fn fsync(&self, id: u64, data_only: bool) -> Result<()> {
        let what = match data_only {
            true => Sync::Data,
            false => Sync::All,
        };
        self.sys.sync(&self.node(id)?.1.fd, what)
    }

    /// Everything of the file system.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sys.syncfs(&self.node(ROOT)?.1.fd)
    }

    pub(crate) fn lseek(&self, id: u64, offset: i64, whence: i32) -> Result<i64> {
        let open = self.open_file(id)?;
        let at = self.sys.lseek(&open.fd, offset, whence)?;
        Ok(at as i64)
    }

    pub(crate) fn fallocate(&self, id: u64, mode: i32, at: u64, length: u64) -> Result<()> {
        let open = self.open_to_write(id)?;
        self.sys.fallocate(&open.fd, mode, at, length)
    }

    pub(crate) fn copy(&self, from: (u64, u64), to: (u64, u64), length: u64) -> Result<usize> {
        let (source, target) = (self.open_file(from.0)?, self.open_to_write(to.0)?);
        let (source, target) = ((&source.fd, Some(from.1)), (&target.fd, Some(to.1)));
        self.sys.copy_range(source, target, length as usize)
    }

    // ---- extended attributes

    /// If no file has any: ENOSYS, and the host does not ask again.
    fn may_have_attributes(&self) -> Result<()> {
        match self.bare.is_known() {
            true => Err(Errno(libc::ENOSYS)),
            false => Ok(()),
        }
    }

    /// With no room in `to`, how long the value is.
    pub(crate) fn getxattr(&self, id: u64, name: &OsStr, to: &mut [u8]) -> Result<usize> {
        self.may_have_attributes()?;
        let (node, open) = self.node(id)?;
        let name = attribute_name(name)?;
        match node.kind {
            Kind::File | Kind::Directory => Target::Open(&open.fd).get(&name, to),
            _ => self.sys.get_attribute(&open.fd, &name, to),
        }
    }

    pub(crate) fn listxattr(&self, id: u64, to: &mut [u8]) -> Result<usize> {
        self.may_have_attributes()?;
        let (node, open) = self.node(id)?;
        let length = match node.kind {
            Kind::File | Kind::Directory => Target::Open(&open.fd).list(to),
            _ => self.sys.list_attributes(&open.fd, to),
        };
        self.bare
            .was_asked(bare::is_none(length), &self.node(ROOT)?.1.fd);
        length
    }

    pub(crate) fn setxattr(&self, id: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let (_, open) = self.node(id)?;
        let name = attribute_name(name)?;
        self.sys.set_attribute(&open.fd, &name, value, flags)
    }

    pub(crate) fn removexattr(&self, id: u64, name: &OsStr) -> Result<()> {
        let (_, open) = self.node(id)?;
        self.sys.remove_attribute(&open.fd, &attribute_name(name)?)
    }
}

fn omit_or(time: Option<TimeOrNow>) -> libc::timespec {
    let special = |tv_nsec| libc::timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(libc::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(libc::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => timespec(time),
    }
}

fn attribute_name(name: &OsStr) -> Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| Errno(libc::EINVAL))
}
