//! Large files, piece by piece. What lies as it is in a file of the host goes to
//! the writer as a range of that file: it then passes through no cache of ours.

use super::super::batch::{LinkId, Op, Sender, DATA};
use super::super::sharing::Shares;
use super::super::SparseMode;
use super::{Reader, Result, Trouble};
use std::ffi::CStr;
use tane::{Content, HostBlocks};
use tane_linux::{Errno, Fd, Stat, Xattrs};

/// How much of a large file stays in the cache of a kernel of our own.
const FORGET: u64 = 2 << 20;
/// Files of this size, in bytes, are worth the question where they lie.
const BY_HOST: u64 = 1 << 20;
/// What the host copies at once, in bytes: between two of these the copy can be
/// interrupted, and progress is told.
const RANGE: u64 = 4 << 20;
/// Holes are made of such blocks, in bytes.
const BLOCK: usize = 4096;
/// Descriptors that a batch holds at most: a process may have 1024.
const SENT: u32 = 64;

/// What is known of a file already.
pub(super) struct More {
    pub link: Option<LinkId>,
    pub shares: Option<Shares>,
    pub has_holes: bool,
    /// Its bytes are on the disk as they are.
    pub plain: bool,
}

impl Reader<'_, '_> {
    /// Files of procfs and the like say they are empty and are not.
    pub(super) fn endless(&self, fd: &Fd) -> Result<bool> {
        Ok(self.sys.pread(fd, &mut [0], 0)? > 0)
    }

    pub(super) fn large_file(
        &mut self,
        fd: &Fd,
        stat: &mut Stat,
        to: &CStr,
        xattrs: &Xattrs,
        more: More,
    ) -> Result<()> {
        let More {
            link,
            shares,
            has_holes,
            plain,
        } = more;
        let end = if stat.size == 0 { u64::MAX } else { stat.size };
        if has_holes && self.maps {
            self.map(fd, end)?;
        }
        if let Some(shares) = shares {
            self.out.reserve(0)?;
            self.out.push(Op::Shares(Box::new(shares)));
        }
        self.out.reserve(Sender::head_size(to, xattrs))?;
        let head = self.out.head(to, *stat, xattrs, link);
        self.out.push(Op::Begin(head));
        let blocks = self
            .host_blocks(stat.dev)
            .filter(|_| plain && stat.size >= BY_HOST && !self.maps);
        let result = match blocks {
            Some(blocks) => self.by_host(fd, blocks, end),
            None => self.by_kernel(fd, 0, end, has_holes),
        };
        self.out.reserve(0)?;
        self.out
            .push(if result.is_ok() { Op::End } else { Op::Abort });
        result
    }

    /// An error if nobody wants the rest of the file.
    fn check_wanted(&self) -> Result<()> {
        if self.report.interrupted() {
            return Err(Trouble::Stopped);
        }
        match self.out.is_given_up(self.report) {
            true => Err(Trouble::GivenUp),
            false => Ok(()),
        }
    }

    /// Sends a descriptor in place of data.
    pub(super) fn clone_of(
        &mut self,
        fd: &Fd,
        stat: &Stat,
        to: &CStr,
        xattrs: &Xattrs,
        link: Option<LinkId>,
    ) -> Result<()> {
        self.out.reserve(Sender::head_size(to, xattrs))?;
        let head = self.out.head(to, *stat, xattrs, link);
        self.out.push(Op::Begin(head));
        self.out.reserve(0)?;
        let own = self.sys.duplicate(fd);
        let (clone, end) = match own {
            Ok(own) => {
                self.out.push(Op::Clone(own.into_raw()));
                (Ok(()), Op::End)
            }
            Err(e) => (Err(e), Op::Abort),
        };
        self.out.reserve(0)?;
        self.out.push(end);
        self.sent += 1;
        if self.sent.is_multiple_of(SENT) {
            self.out.flush()?;
        }
        Ok(clone?)
    }

    /// Sends what the host can copy itself as that, and reads the rest.
    fn by_host(&mut self, fd: &Fd, blocks: &HostBlocks, end: u64) -> Result<()> {
        let mut at = 0;
        for extent in blocks.extents(fd.raw(), end) {
            self.check_wanted()?;
            // Whatever is wrong with it, reading says it best.
            let Ok(extent) = extent else { break };
            let start = extent.start.clamp(at, end);
            let stop = extent.start.saturating_add(extent.len).clamp(start, end);
            self.hole(fd, at, start)?;
            match extent.content {
                Content::At(physical) => {
                    let physical = physical.saturating_add(start.saturating_sub(extent.start));
                    self.ranges(fd, blocks, physical, start, stop)?;
                }
                Content::Zeroes => self.hole(fd, start, stop)?,
                Content::Unknown => self.pieces(fd, start, stop)?,
            }
            at = stop;
        }
        // Usually a hole, if anything is left.
        self.by_kernel(fd, at, end, true)
    }

    /// Sends a part of a file that is somewhere on the device.
    fn ranges(
        &mut self,
        fd: &Fd,
        blocks: &HostBlocks,
        physical: u64,
        start: u64,
        end: u64,
    ) -> Result<()> {
        for at in (start..end).step_by(RANGE as usize) {
            let len = (end - at).min(RANGE);
            let from = physical.saturating_add(at - start);
            match blocks.range(from, len) {
                Some(range) => {
                    self.out.reserve(0)?;
                    self.out.push(Op::Range(at, range));
                }
                None => self.pieces(fd, at, at + len)?,
            }
        }
        Ok(())
    }

    fn hole(&mut self, fd: &Fd, at: u64, end: u64) -> Result<()> {
        match self.sparse {
            SparseMode::Never => self.pieces(fd, at, end),
            _ => Ok(()),
        }
    }

    fn by_kernel(&mut self, fd: &Fd, at: u64, end: u64, has_holes: bool) -> Result<()> {
        if has_holes && self.sparse != SparseMode::Never {
            self.data(fd, at, end)
        } else {
            self.pieces(fd, at, end)
        }
    }

    /// Sends where the data of a file with holes is, for who must know it first.
    fn map(&mut self, fd: &Fd, end: u64) -> Result<()> {
        let mut map = Vec::new();
        self.each_part(fd, 0, end, |_, at, stop| {
            map.extend_from_slice(&at.to_ne_bytes());
            map.extend_from_slice(&(stop - at).to_ne_bytes());
            Ok(())
        })?;
        self.out.reserve(map.len())?;
        let map = self.out.put(&map);
        self.out.push(Op::Map(map));
        Ok(())
    }

    /// Sends the parts of a file that are not holes. Where the file system does not
    /// tell them, as ntfs3, blocks of zeroes are holes.
    fn data(&mut self, fd: &Fd, at: u64, end: u64) -> Result<()> {
        self.each_part(fd, at, end, |reader, start, stop| {
            reader.zeroes_are_holes = !reader.maps && (start, stop) == (0, end);
            let sent = reader.pieces(fd, start, stop);
            reader.zeroes_are_holes = false;
            sent
        })
    }

    fn each_part(
        &mut self,
        fd: &Fd,
        mut at: u64,
        end: u64,
        mut each: impl FnMut(&mut Self, u64, u64) -> Result<()>,
    ) -> Result<()> {
        while at < end {
            // Not whether the file is wanted: a map is asked for before it is begun.
            if self.report.interrupted() {
                return Err(Trouble::Stopped);
            }
            let start = match self.sys.lseek(fd, at as i64, libc::SEEK_DATA) {
                Ok(start) => start,
                Err(Errno(libc::ENXIO)) => return Ok(()), // a hole up to the end
                Err(e) if e.is_unsupported() => return each(self, at, end),
                Err(e) => return Err(e.into()),
            };
            let stop = self.sys.lseek(fd, start as i64, libc::SEEK_HOLE)?.min(end);
            if start < at {
                return Err(Errno(libc::EIO).into());
            }
            each(self, start, stop)?;
            at = stop.max(start + 1);
        }
        Ok(())
    }

    /// Sends the `got` bytes that were read, but for blocks of zeroes.
    fn without_zeroes(&mut self, at: u64, got: usize) {
        let blocks = self.out.space(got).chunks(BLOCK);
        let parts: Vec<_> = (0..).step_by(BLOCK).zip(blocks).collect();
        let is_hole = |block: &[u8]| block.iter().all(|&b| b == 0);
        let runs = parts.chunk_by(|(_, a), (_, b)| is_hole(a) == is_hole(b));
        let runs = runs.filter(|run| !is_hole(run[0].1));
        let runs: Vec<(usize, usize)> = runs
            .map(|run| (run[0].0, run[run.len() - 1].0 + BLOCK))
            .collect();
        if runs.is_empty() {
            return;
        }
        let data = self.out.take(got);
        for (start, end) in runs {
            let part = data.part(start, end);
            self.out.push(Op::Piece(at + start as u64, part));
        }
    }

    fn pieces(&mut self, fd: &Fd, mut at: u64, end: u64) -> Result<()> {
        let mut cached = at;
        while at < end {
            self.check_wanted()?;
            if at - cached >= FORGET {
                self.sys.forget(fd, cached, at - cached);
                cached = at;
            }
            let size = (end - at).min(DATA as u64) as usize;
            self.out.reserve(size)?;
            let got = self.sys.pread_all(fd, self.out.space(size), at)?;
            if self.zeroes_are_holes {
                self.without_zeroes(at, got);
            } else {
                let data = self.out.take(got);
                self.out.push(Op::Piece(at, data));
            }
            at += got as u64;
            if got < size {
                return Ok(());
            }
        }
        Ok(())
    }
}
