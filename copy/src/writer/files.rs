//! Regular files: data first, then attributes, then the name.

use super::super::batch::{Batch, Head, LinkId};
use super::super::finish::Made;
use super::super::loss::Loss;
use super::super::room::Content;
use super::super::sharing::Shares;
use super::super::SparseMode;
use super::{Result, Writer};
use std::ffi::{CStr, CString};
use tane_linux::{allow_holes, Errno, Fd, Flags, Kind, Stat};

/// A file whose pieces are arriving.
pub(super) struct Open<'a> {
    pub(super) fd: Fd<'a>,
    pub(super) temporary: CString,
    name: CString,
    pub(super) stat: Stat,
    xattrs: Vec<u8>,
    link: Option<LinkId>,
    pub(super) shares: Option<Shares>,
    /// The mode it was created with.
    mode: u32,
    /// Where the data ends so far.
    pub(super) end: u64,
}

/// Names that are tried for a file that is not complete.
const TRIES: u32 = 1000;

impl<'a> Writer<'a, '_> {
    /// A file that came in one piece.
    pub(super) fn file(&mut self, batch: &Batch, head: &Head, data: Content) -> Result<()> {
        let Some(mut open) = self.create(batch, head)? else {
            return Ok(());
        };
        let result = self.data(&mut open, 0, data);
        open.stat.size = data.len() as u64; // it may have shrunk since
        self.close(open, result)
    }

    pub(super) fn create(&mut self, batch: &Batch, head: &Head) -> Result<Option<Open<'a>>> {
        let xattrs = batch.bytes(head.xattrs).to_vec();
        self.create_as(batch.name(head.name), head.stat, xattrs, head.link)
    }

    pub(super) fn create_as(
        &mut self,
        name: &CStr,
        stat: Stat,
        xattrs: Vec<u8>,
        link: Option<LinkId>,
    ) -> Result<Option<Open<'a>>> {
        if self.is_kept(name)? {
            self.remember(link);
            return Ok(None);
        }
        if self.is_guarded(name)? {
            return Ok(None);
        }
        self.expect_room(&stat)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let mode = self.creation_mode(&stat)?;
        let fresh = self.frame()?.fresh && !self.settings.duplicates;
        let mut tries = 0;
        loop {
            tries += 1;
            let temporary = if fresh { name.into() } else { self.temporary() };
            match self.sys.openat(&self.frame()?.fd, &temporary, flags, mode) {
                Ok(fd) => {
                    self.begin_with(&fd, stat.flags);
                    if self.may_have_holes(&stat) {
                        // Without them it is the same file, and longer on the disk.
                        let _ = allow_holes(&fd);
                    }
                    return Ok(Some(Open {
                        fd,
                        temporary,
                        name: name.into(),
                        stat,
                        xattrs,
                        link,
                        shares: None,
                        mode,
                        end: 0,
                    }));
                }
                Err(Errno(libc::EEXIST)) if !fresh && tries < TRIES => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn may_have_holes(&self, stat: &Stat) -> bool {
        match self.settings.sparse {
            SparseMode::Never => false,
            // Inode or directory may hold the data of short ones.
            _ if stat.size <= 4096 => false,
            SparseMode::Auto => stat.data() < stat.size,
            SparseMode::Always => true,
        }
    }

    /// The final mode if that is safe before the file has its owner.
    fn creation_mode(&self, stat: &Stat) -> Result<u32> {
        let owner = self.settings.owner.of(stat.uid, stat.gid);
        let frame = self.frame()?;
        let exact = self.settings.no_umask || self.sys.0.is_ours();
        let direct = exact && frame.owner == Some(owner) && !frame.default_acl;
        let mode = stat.permissions();
        Ok(if direct && mode < 0o1000 { mode } else { 0o600 })
    }

    pub(super) fn data(&self, open: &mut Open, at: u64, data: Content) -> Result<()> {
        self.put(open, at, data)?;
        self.report.wrote(data.len() as u64);
        Ok(())
    }

    pub(super) fn put(&self, open: &mut Open, at: u64, data: Content) -> Result<()> {
        if self.settings.sparse == SparseMode::Always {
            let data = &data.settle()[..];
            let is_hole = |block: &[u8]| block.iter().all(|&b| b == 0);
            let mut next = at;
            let blocks = data.chunks(4096).collect::<Vec<_>>();
            for run in blocks.chunk_by(|a, b| is_hole(a) == is_hole(b)) {
                let len: usize = run.iter().map(|block| block.len()).sum();
                let start = (next - at) as usize;
                if !is_hole(run[0]) {
                    let data = &data[start..start + len];
                    self.sys.pwrite_all(&open.fd, data, next)?;
                    open.end = next + len as u64;
                }
                next += len as u64;
            }
        } else if !data.is_empty() {
            // SAFETY: a batch's room stays mapped.
            unsafe {
                self.sys
                    .pwrite_all_at(&open.fd, data.address(), data.len(), at)?;
            }
            open.end = at + data.len() as u64;
        }
        Ok(())
    }

    /// Gives a file its attributes and its name, or removes it.
    pub(super) fn close(&mut self, open: Open<'a>, written: Result<()>) -> Result<()> {
        let result = written.and_then(|()| self.complete(&open));
        if result.is_err() {
            let _ = self.sys.unlink(&self.frame()?.fd, &open.temporary, 0);
            return result;
        }
        if open.link.is_some_and(|id| self.links.contains_key(&id)) {
            // Whoever reads knows that there are no links here.
            let why = Errno(libc::EOPNOTSUPP);
            self.report.lose(Loss::HardLink, &self.path, b"", why);
        }
        self.remember(open.link);
        if let Some(shares) = &open.shares {
            self.sharers.insert(shares.file, self.below_base());
        }
        let flags = open.stat.flags;
        // Names may follow, which a sealed file does not get.
        let late = open.link.map_or(Flags::default(), |_| flags);
        self.seal(&open.fd, flags, late);
        self.report.done(Kind::File, &self.path);
        Ok(())
    }

    fn complete(&mut self, open: &Open<'a>) -> Result<()> {
        let sys = self.sys;
        if open.stat.size > open.end {
            sys.ftruncate(&open.fd, open.stat.size)?;
        }
        self.share(open);
        let frame = self.frames.last_mut().ok_or(Errno(libc::EBADF))?;
        let owner = match frame.owner {
            Some(owner) => owner,
            None => {
                let stat = sys.fstat(&open.fd)?;
                *frame.owner.insert((stat.uid, stat.gid))
            }
        };
        let acl = frame.default_acl;
        let made = Made {
            owner,
            mode: open.mode,
            acl,
        };
        self.finish
            .file(&open.fd, &open.stat, &open.xattrs, made, &self.path);
        if open.temporary == open.name {
            return Ok(());
        }
        self.rename(
            &self.frame()?.fd,
            &open.temporary,
            &open.name,
            self.replace(),
        )
    }

    /// Flags for renames of files: may they replace what is there?
    pub(super) fn replace(&self) -> u32 {
        if self.settings.no_clobber {
            libc::RENAME_NOREPLACE
        } else {
            0
        }
    }

    pub(super) fn rename(&self, dir: &Fd, temporary: &CStr, name: &CStr, flags: u32) -> Result<()> {
        match self.sys.rename(dir, temporary, dir, name, flags) {
            Err(e) if flags != 0 && e.is_unsupported() => {
                self.sys.rename(dir, temporary, dir, name, 0)
            }
            other => other,
        }
    }

    pub(super) fn abort(&mut self) {
        if let (Some(open), Ok(frame)) = (self.open.take(), self.frame()) {
            let _ = self.sys.unlink(&frame.fd, &open.temporary, 0);
        }
    }
}
