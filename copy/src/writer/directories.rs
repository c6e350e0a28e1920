//! Directories that are being filled: entered, left, and given what they get then.

use super::{Result, Writer};
use crate::finish::Finish;
use std::ffi::{CStr, CString};
use tane_linux::{Errno, Fd, Flags, Kind, Stat, Xattrs};

/// A directory that is being filled.
pub(super) struct Frame<'a> {
    pub fd: Fd<'a>,
    /// Made by us, so nothing of ours can be there already.
    pub fresh: bool,
    /// It has a temporary name still, and gets this one.
    pub rename: Option<(CString, CString)>,
    /// What it gets when it is left; None: it stays as it was.
    pub wanted: Option<(Stat, Xattrs)>,
    /// Owner and group a new file gets here, once one was made.
    pub owner: Option<(u32, u32)>,
    /// A default ACL changes the modes of new files here.
    pub default_acl: bool,
    pub path_len: usize,
}

impl<'a> Writer<'a, '_> {
    pub(super) fn frame(&self) -> Result<&Frame<'a>> {
        self.frames.last().ok_or(Errno(libc::EBADF))
    }

    pub(super) fn push(
        &mut self,
        fd: Fd<'a>,
        fresh: bool,
        wanted: Option<(Stat, Xattrs)>,
        acl: bool,
    ) {
        let path_len = self.path.len();
        self.frames.push(Frame {
            fd,
            fresh,
            rename: None,
            wanted,
            owner: None,
            default_acl: acl,
            path_len,
        });
    }

    /// Enters a directory that gets nothing new; times included, in the end.
    pub(super) fn pass(&mut self, name: &CStr) -> Result<()> {
        let now = match self.sys.lstat(&self.frame()?.fd, name) {
            Ok(stat) => stat,
            Err(Errno(libc::ENOENT)) => {
                let mut stat = self.sys.fstat(&self.frame()?.fd)?;
                stat.mode = libc::S_IFDIR | 0o755;
                stat.flags = Flags::default();
                stat
            }
            Err(e) => return Err(e),
        };
        self.enter(name, (now, Xattrs::default()), false)
    }

    pub(super) fn enter(&mut self, name: &CStr, wanted: (Stat, Xattrs), keep: bool) -> Result<()> {
        let sys = self.sys;
        let parent_is_fresh = self.frame()?.fresh && !self.settings.duplicates;
        let mut rename = None;
        let fresh = parent_is_fresh || self.is_missing(name)?;
        if fresh && !parent_is_fresh {
            let temporary = self.temporary();
            sys.mkdir(&self.frame()?.fd, &temporary, 0o700)?;
            rename = Some((temporary, name.into()));
        } else if fresh {
            match sys.mkdir(&self.frame()?.fd, name, 0o700) {
                // lost+found
                Err(Errno(libc::EEXIST)) if self.settings.empty => {}
                made => made?,
            }
        }
        let parent = self.frame()?;
        let made = rename.as_ref().map_or(name, |(temporary, _)| temporary);
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = sys.openat(&parent.fd, made, flags, 0)?;
        if fresh {
            self.begin_with(&fd, wanted.0.flags);
        }
        let acl = if fresh {
            parent.default_acl
        } else {
            Finish::has_default_acl(&fd)
        };
        let keep = keep && !fresh;
        let wanted = (!keep).then_some(wanted);
        self.push(fd, fresh, wanted, acl);
        if let Some(frame) = self.frames.last_mut() {
            frame.rename = rename;
        }
        Ok(())
    }

    /// The first directory stays until the end: more may be copied into it.
    pub(super) fn leave_below_first(&mut self) {
        if self.frames.len() > 1 {
            self.leave();
        }
    }

    pub(super) fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.path.truncate(frame.path_len);
        if let Some((stat, xattrs)) = &frame.wanted {
            let inherited = frame.fresh && frame.default_acl;
            self.finish
                .directory(&frame.fd, stat, xattrs, inherited, &self.path);
            self.report.done(Kind::Directory, &self.path);
        }
        if let (Some((temporary, name)), Some(parent)) = (&frame.rename, self.frames.last()) {
            let flags = libc::RENAME_NOREPLACE;
            match (
                self.rename(&parent.fd, temporary, name, flags),
                &frame.wanted,
            ) {
                (Err(e), _) => self.report.error(&self.path, e),
                (Ok(()), Some((stat, _))) => self.finish.renamed(&frame.fd, stat),
                (Ok(()), None) => {}
            }
        }
        if let Some((stat, _)) = &frame.wanted {
            let last = self.frames.is_empty();
            let late = if last {
                Flags::default()
            } else {
                stat.flags.sealing()
            };
            self.seal(&frame.fd, stat.flags, late);
        }
        self.path.truncate(self.dir_len());
    }
}
