//! What chattr(1) sets. Some of it must be there before the first byte; some
//! forbids names and entries, and so comes when there are no more.

use super::super::loss::Loss;
use super::{Result, Writer};
use tane_linux::{Fd, Flags};

const OPEN: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;

impl<'a> Writer<'a, '_> {
    /// A new file or directory, empty still. What it does not get is told when
    /// it is sealed.
    pub(super) fn begin_with(&self, fd: &Fd, flags: Flags) {
        let early = flags.early();
        if !early.is_empty() {
            let _ = early.add_bits(fd);
        }
    }

    /// A file or directory under its name and with all else it gets; what is in
    /// `late` it gets in the end.
    pub(super) fn seal(&mut self, fd: &Fd, flags: Flags, late: Flags) {
        // A project keeps names out of directories of others: all or nothing.
        let now = if late.project != 0 {
            Flags::default()
        } else {
            flags.without(late)
        };
        if !now.is_empty() {
            self.finish.flags(fd, now, &self.path);
        }
        if !late.is_empty() {
            self.late.push((self.below_base(), late));
        }
    }

    pub(super) fn seal_late(&mut self) {
        let Some(base) = self.frames.first().map(|f| f.path_len) else {
            return;
        };
        for (below, flags) in std::mem::take(&mut self.late) {
            self.path.truncate(base);
            let found = self.reopen(&below);
            self.path.extend_from_slice(&below);
            match found {
                Ok(fd) => self.finish.flags(&fd, flags, &self.path),
                Err(e) => self
                    .report
                    .lose(Loss::Flags, &self.path, &flags.letters(), e),
            }
        }
        self.path.truncate(base);
    }

    pub(super) fn reopen(&self, below: &[u8]) -> Result<Fd<'a>> {
        let (above, name) = self.parent_of(below)?;
        let dir = above.as_ref().map_or(&self.frame()?.fd, |dir| dir);
        self.sys.openat(dir, &name, OPEN, 0)
    }
}
