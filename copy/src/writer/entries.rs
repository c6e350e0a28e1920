//! What needs no data: symlinks, devices, fifos, sockets and further names.

use super::super::batch::{Batch, Head, LinkId, Span};
use super::super::loss::Loss;
use super::{Frame, Result, Writer};
use std::ffi::{CStr, CString};
use tane_linux::{Errno, Fd, Kind, Xattrs};

const OPEN: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// What became of a further name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Linked,
    /// A file of its own.
    Copied,
    /// What was there before stays, or there is nothing.
    Kept,
}

impl<'a> Writer<'a, '_> {
    /// Where further names of this file can be linked from.
    pub(super) fn remember(&mut self, link: Option<LinkId>) {
        if let Some(id) = link {
            self.links.insert(id, self.below_base());
        }
    }

    /// What is at hand cannot be here, and so no further name of it.
    fn lose(&mut self, loss: Loss, detail: &[u8], link: Option<LinkId>, why: Errno) {
        self.report.lose(loss, &self.path, detail, why);
        self.lost.insert(self.below_base());
        self.remember(link);
    }

    /// The path of what is at hand, below the destination.
    pub(super) fn below_base(&self) -> Vec<u8> {
        let base = self.frames.first().map_or(0, |f| f.path_len);
        self.path[base..].to_vec()
    }

    /// Makes something that needs no data, under its name or, where that is
    /// taken, under a temporary one that replaces it. False: kept.
    fn make(&mut self, name: &CStr, make: impl Fn(&Fd, &CStr) -> Result<()>) -> Result<bool> {
        if self.is_kept(name)? {
            return Ok(false);
        }
        match make(&self.frame()?.fd, name) {
            Err(Errno(libc::EEXIST)) if !self.settings.no_clobber => {}
            other => return other.map(|()| true),
        }
        if self.is_guarded(name)? {
            return Ok(false);
        }
        let temporary = self.temporary();
        let dir = &self.frame()?.fd;
        make(dir, &temporary)?;
        let result = self.rename(dir, &temporary, name, self.replace());
        // Renaming one name of a file to another of its names does nothing.
        let _ = self.sys.unlink(dir, &temporary, 0);
        result.map(|()| true)
    }

    pub(super) fn symlink(&mut self, batch: &Batch, head: &Head, target: Span) -> Result<()> {
        let (name, target) = (batch.name(head.name), batch.name(target));
        let sys = self.sys;
        match self.make(name, |dir, name| sys.symlink(target, dir, name)) {
            Ok(true) => {
                let xattrs = batch.bytes(head.xattrs);
                self.finish
                    .entry(&self.frame()?.fd, name, &head.stat, xattrs, &self.path);
                self.report.done(Kind::Symlink, &self.path);
            }
            Ok(false) => {}
            Err(e @ Errno(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS)) => {
                self.lose(Loss::Symlink, target.to_bytes(), head.link, e);
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        self.remember(head.link);
        Ok(())
    }

    pub(super) fn node(&mut self, batch: &Batch, head: &Head) -> Result<()> {
        let name = batch.name(head.name);
        let (sys, stat) = (self.sys, &head.stat);
        let mode = stat.mode & libc::S_IFMT | 0o600;
        if stat.kind().is_device() && !self.settings.devices {
            let remedy = b"(--devices, as root, makes it)";
            let error = Errno(libc::EPERM);
            self.lose(Loss::Device, remedy, head.link, error);
            return Ok(());
        }
        match self.make(name, |dir, name| sys.mknod(dir, name, mode, stat.rdev)) {
            Ok(true) => {
                let xattrs = batch.bytes(head.xattrs);
                self.finish
                    .entry(&self.frame()?.fd, name, stat, xattrs, &self.path);
                self.report.done(stat.kind(), &self.path);
            }
            Ok(false) => {}
            Err(e) if e == Errno(libc::EPERM) || e.is_unsupported() => {
                let loss = if stat.kind().is_device() {
                    Loss::Device
                } else {
                    Loss::Special
                };
                self.lose(loss, b"", head.link, e);
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        self.remember(head.link);
        Ok(())
    }

    pub(super) fn link(&mut self, name: &CStr, id: LinkId) -> Result<()> {
        let Some(first) = self.links.get(&id).cloned() else {
            let text = "the file that it is a further name of was not copied";
            self.report.error_text(&self.path, text.into());
            return Ok(());
        };
        if self.link_to(name, &first)? == Named::Copied {
            // More names fit to this one.
            self.remember(Some(id));
        }
        Ok(())
    }

    pub(super) fn link_to(&mut self, name: &CStr, first: &[u8]) -> Result<Named> {
        let (above, old) = self.parent_of(first)?;
        let sys = self.sys;
        let made = self.make(name, |dir, name| {
            sys.link(above.as_ref().unwrap_or(dir), &old, dir, name)
        });
        match made {
            Ok(true) => {
                self.report.linked(&self.path);
                Ok(Named::Linked)
            }
            Ok(false) => Ok(Named::Kept),
            Err(e @ Errno(libc::ENOENT)) if self.lost.contains(first) => {
                self.lose(Loss::HardLink, b"", None, e);
                Ok(Named::Kept)
            }
            Err(e) if e.forbids_links() => {
                self.copy_again(name, above.as_ref(), &old, e)?;
                Ok(Named::Copied)
            }
            Err(e) => Err(e),
        }
    }

    /// In place of a further name: a copy of a file that was made before. `why` there is
    /// no such name.
    fn copy_again(
        &mut self,
        name: &CStr,
        above: Option<&Fd<'a>>,
        old: &CStr,
        why: Errno,
    ) -> Result<()> {
        let dir = above.map_or(&self.frame()?.fd, |dir| dir);
        // Of the host's files the jail lets none be read.
        let from = self.sys.openat(dir, old, OPEN, 0).map_err(|_| why)?;
        let stat = self.sys.fstat(&from)?;
        if stat.kind() != Kind::File {
            return Err(why);
        }
        let xattrs = Xattrs::of(&from)?;
        let Some(mut open) = self.create_as(name, stat, xattrs.packed, None)? else {
            return Ok(());
        };
        let copied = self.copy_of(&mut open, &from, stat.size);
        self.close(open, copied)?;
        self.report.lose(Loss::HardLink, &self.path, b"", why);
        Ok(())
    }

    /// Opens the directory of a file made earlier; None: it is the current one.
    pub(super) fn parent_of(&self, path: &[u8]) -> Result<(Option<Fd<'a>>, CString)> {
        let (parent, name) = match path.iter().rposition(|&b| b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        let name = CString::new(name).map_err(|_| Errno(libc::EINVAL))?;
        // From the innermost directory that is still open down to it: those
        // above may have temporary names.
        let base = self.frames.first().map_or(0, |f| f.path_len);
        let within = |f: &&Frame| {
            let rest = parent.strip_prefix(&self.path[base..f.path_len]);
            rest.is_some_and(|rest| f.path_len == base || matches!(rest, [] | [b'/', ..]))
        };
        let from = self.frames.iter().rfind(within).ok_or(Errno(libc::EBADF))?;
        let rest = &parent[from.path_len - base..];
        if rest.is_empty() && from.path_len == self.frame()?.path_len {
            return Ok((None, name));
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let mut dir = self.sys.openat(&from.fd, c".", flags, 0)?;
        for part in rest.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
            let part = CString::new(part).map_err(|_| Errno(libc::EINVAL))?;
            dir = self.sys.openat(&dir, &part, flags, 0)?;
        }
        Ok((Some(dir), name))
    }
}
