//! What has no data: symlinks, devices, fifos and sockets.

use super::super::batch::{Op, Sender};
use super::{Reader, Result};
use crate::sys::{Fd, Xattrs};
use std::ffi::CStr;

impl Reader<'_, '_> {
    pub(super) fn symlink(&mut self, dir: &Fd, name: &CStr, to: &CStr) -> Result<()> {
        let stat = self.sys.lstat(dir, name)?;
        let std::ops::ControlFlow::Continue(link) = self.link(&stat, to)? else {
            return Ok(());
        };
        let mut target = self.sys.readlink(dir, name)?;
        target.push(0);
        let xattrs = Xattrs::of_entry(dir, name).unwrap_or_default();
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
        let xattrs = Xattrs::of_entry(dir, name).unwrap_or_default();
        self.out.reserve(Sender::head_size(to, &xattrs))?;
        let head = self.out.head(to, stat, &xattrs, link);
        self.out.push(Op::Node(head));
        Ok(())
    }
}
