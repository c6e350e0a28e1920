//! What cannot be written costs itself. When nothing else can be either, the copy
//! stops, and what is left is only named.

use super::super::batch::Op;
use super::{name_of, Result, Writer};
use std::num::NonZeroU64;
use tane_linux::{Errno, Stat};

/// Data of what fits wherever anything does, in bytes.
const SMALL: u64 = 4096;
/// Small things in a row without room: there is none if the file system says so too,
/// which is not so of a single directory that is full,
const FULL: u32 = 32;
/// and else after this many.
const AT_LAST: u32 = 1000;
/// What is left of a file system that is full, in bytes.
const REST: u64 = 256 << 10;

impl Writer<'_, '_> {
    /// An operation failed: tells that, and sees what it means for the others.
    pub(super) fn failed(&mut self, op: &Op, e: Errno) {
        if self.sys.0.is_ours() && e == Errno(libc::ECANCELED) {
            return self.report.cancel();
        }
        match why(op, e) {
            Some(hint) => {
                let text = format!("{e}: {hint}");
                self.report.failed(&self.path, text, Some(e));
            }
            None => self.report.error(&self.path, e),
        }
        if matches!(op, Op::Enter(_) | Op::Pass(_)) {
            self.omitted.push(self.path.len());
        }
        self.give_up();
        if self.settings.empty {
            // An image that lacks anything is not made.
            self.fatal = e.ends_writing() || e.strains_writing();
            return;
        }
        let small = match op {
            Op::File(_, data) => data.size() as u64 <= SMALL,
            op => name_of(op).is_some() && !matches!(op, Op::Begin(_)),
        };
        if e.strains_writing() {
            self.short = true;
            self.strained += u32::from(small);
        }
        let full = self.strained >= FULL && (self.strained >= AT_LAST || self.is_full());
        if e.ends_writing() || full {
            self.report.stop(e);
        }
    }

    /// Whoever reads need not send what is left of the file that was begun last.
    fn give_up(&self) {
        if let Some(number) = NonZeroU64::new(self.begun) {
            self.report.give_up(number);
        }
    }

    fn is_full(&self) -> bool {
        let Some((free, no_inodes)) = self.room() else {
            return true;
        };
        free <= REST || no_inodes
    }

    /// Bytes that are free, and whether there are no inodes for them.
    fn room(&self) -> Option<(u64, bool)> {
        let found = self.sys.fstatfs(&self.frame().ok()?.fd).ok()?;
        let free = found.bavail.saturating_mul(found.bsize as u64);
        Some((free, found.files > 0 && found.ffree == 0))
    }

    /// In a directory that could not be made, and after the end, nothing is made. True:
    /// this was named.
    pub(super) fn omit(&mut self, op: &Op) -> bool {
        let stopped = self.report.has_stopped();
        if self.omitted.is_empty() && !stopped {
            return false;
        }
        match op {
            Op::Leave => match self.omitted.pop() {
                Some(_) => self.path.truncate(self.dir_len()),
                // It was made, and gets what it should have.
                None => return false,
            },
            Op::Clone(raw) => self.sys.close(*raw),
            op if name_of(op).is_some() => {
                if stopped {
                    self.report.untried(&self.path);
                } else if !matches!(op, Op::Pass(_)) {
                    let text = "the directory that it is in was not made";
                    self.report.error_text(&self.path, text.into());
                }
                match op {
                    Op::Enter(_) | Op::Pass(_) => self.omitted.push(self.path.len()),
                    _ => self.path.truncate(self.dir_len()),
                }
                self.give_up();
                self.shares = None;
            }
            _ => {}
        }
        true
    }

    /// The length of the path of the directory at hand.
    pub(super) fn dir_len(&self) -> usize {
        let made = || self.frames.last().map(|frame| frame.path_len);
        self.omitted.last().copied().or_else(made).unwrap_or(0)
    }

    /// Where room was short before, a large file is not begun in vain.
    pub(super) fn expect_room(&self, stat: &Stat) -> Result<()> {
        let data = stat.data();
        if !self.short || data <= SMALL {
            return Ok(());
        }
        match self.room() {
            Some((free, _)) if data > free => Err(Errno(libc::ENOSPC)),
            _ => Ok(()),
        }
    }
}

/// Why it is wrong, where the operation tells.
fn why(op: &Op, e: Errno) -> Option<&'static str> {
    match e.0 {
        libc::EINVAL | libc::EILSEQ | libc::ENAMETOOLONG if name_of(op).is_some() => {
            Some("the file system there takes no such name")
        }
        libc::EFBIG => Some("the file system there takes no file of that length"),
        libc::EMLINK => Some("the directory there takes no more directories"),
        _ => None,
    }
}
