//! What has no data: symlinks, devices, fifos and sockets.

use super::super::batch::{Op, Sender};
use super::super::loss::Loss;
use super::{Reader, Result};
use std::ffi::CStr;
use tane_linux::{Errno, Fd, Xattrs};

impl Reader<'_, '_> {
    /// Those of what is not opened. What cannot be read is told, and the rest is copied.
    fn xattrs_of(&self, dir: &Fd, name: &CStr) -> Result<Xattrs> {
        match Xattrs::of_entry(dir, name) {
            Err(e) if e != Errno(libc::ECANCELED) => {
                self.report.lose(Loss::Xattr, &self.path, b"", e);
                Ok(Xattrs::default())
            }
            other => Ok(other?),
        }
    }

    pub(super) fn symlink(&mut self, dir: &Fd, name: &CStr, to: &CStr) -> Result<()> {
        let stat = self.sys.lstat(dir, name)?;
        let std::ops::ControlFlow::Continue(link) = self.link(&stat, to)? else {
            return Ok(());
        };
        let mut target = self.sys.readlink(dir, name)?;
        target.push(0);
        let xattrs = self.xattrs_of(dir, name)?;
        self.out
            .reserve(Sender::head_size(to, &xattrs) + target.len())?;
        let head = self.out.head(to, stat, &xattrs, link);
        let target = self.out.put(&target);
        self.out.push(Op::Symlink(head, target));
        Ok(())
    }

    pub(super) fn node(&mut self, dir: &Fd, name: &CStr, to: &CStr) -> Result<()> {
        let stat = self.sys.lstat(dir, name)?;
        let std::ops::ControlFlow::Continue(link) = self.link(&stat, to)? else {
            return Ok(());
        };
        let xattrs = self.xattrs_of(dir, name)?;
        self.out.reserve(Sender::head_size(to, &xattrs))?;
        let head = self.out.head(to, stat, &xattrs, link);
        self.out.push(Op::Node(head));
        Ok(())
    }
}
