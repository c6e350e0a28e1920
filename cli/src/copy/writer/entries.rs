//! What needs no data: symlinks, devices, fifos, sockets and further names.

use super::super::batch::{Batch, Head, LinkId, Span};
use super::super::report::Loss;
use super::{Frame, Result, Writer};
use crate::sys::{Errno, Fd, Kind};
use std::ffi::{CStr, CString};

impl<'a> Writer<'a, '_> {
    /// Where further names of this file can be linked from.
    pub(super) fn remember(&mut self, link: Option<LinkId>) {
        if let Some(id) = link {
            self.links.insert(id, self.below_base());
        }
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
        if self.make(name, |dir, name| sys.symlink(target, dir, name))? {
            let xattrs = batch.bytes(head.xattrs);
            self.finish
                .entry(&self.frame()?.fd, name, &head.stat, xattrs, &self.path);
            self.report.done(Kind::Symlink, &self.path);
        }
        self.remember(head.link);
        Ok(())
    }

    pub(super) fn node(&mut self, batch: &Batch, head: &Head) -> Result<()> {
        let name = batch.name(head.name);
        let (sys, stat) = (self.sys, &head.stat);
        let mode = stat.mode & libc::S_IFMT | 0o600;
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
                self.report.lose(loss, &self.path, b"", e);
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        self.remember(head.link);
        Ok(())
    }

    pub(super) fn link(&mut self, name: &CStr, id: LinkId) -> Result<()> {
        let Some(first) = self.links.get(&id).cloned() else {
            self.report
                .lose(Loss::HardLink, &self.path, b"", Errno(libc::ENOENT));
            return Ok(());
        };
        self.link_to(name, &first)
    }

    pub(super) fn link_to(&mut self, name: &CStr, first: &[u8]) -> Result<()> {
        let (above, old) = self.parent_of(first)?;
        let sys = self.sys;
        let made = self.make(name, |dir, name| {
            sys.link(above.as_ref().unwrap_or(dir), &old, dir, name)
        })?;
        if made {
            self.report.linked(&self.path);
        }
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
