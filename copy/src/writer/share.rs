//! Blocks that a file of the source has in common with one before it: the copies get
//! them in common too. Linux compares the bytes first.

use super::super::loss::Loss;
use super::super::room::Content;
use super::super::sharing::{SharerId, Twin};
use super::files::Open;
use super::{Result, Writer};
use tane_linux::{Errno, Fd};

const OPEN: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// What is read and written at once where that is not possible.
const BUFFER: usize = 256 << 10;

impl<'a> Writer<'a, '_> {
    /// All of a file of the same kernel into the open one.
    pub(super) fn clone_of(&mut self, from: &Fd) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let stat = &open.stat;
        let (size, data) = (stat.size, stat.data());
        let done = match self.sys.clone_file(from, &open.fd) {
            Ok(()) => {
                open.end = size;
                self.report.wrote(data);
                Ok(())
            }
            Err(e) => {
                // Who cannot share at all shares nothing with anybody.
                if e != Errno(libc::EOPNOTSUPP) {
                    self.report.lose(Loss::Reflink, &self.path, b"", e);
                }
                self.copy_of(&mut open, from, size)
            }
        };
        self.report.update_progress();
        match done {
            Ok(()) => {
                self.open = Some(open);
                Ok(())
            }
            Err(e) => self.close(open, Err(e)),
        }
    }

    pub(super) fn copy_of(&self, open: &mut Open<'a>, from: &Fd, size: u64) -> Result<()> {
        let sys = self.sys;
        let mut buffer = vec![0; BUFFER];
        let mut at = 0;
        while at < size {
            if self.report.interrupted() {
                return Err(Errno(libc::ECANCELED));
            }
            let begun = at;
            at = match sys.lseek(from, at as i64, libc::SEEK_DATA) {
                Ok(start) => start,
                Err(Errno(libc::ENXIO)) => break, // a hole up to the end
                Err(e) => return Err(e),
            };
            let stop = sys.lseek(from, at as i64, libc::SEEK_HOLE)?.min(size);
            if at < begun || stop <= at.min(size - 1) {
                return Err(Errno(libc::EIO));
            }
            while at < stop {
                let len = (stop - at).min(BUFFER as u64) as usize;
                let got = sys.pread_all(from, &mut buffer[..len], at)?;
                self.put(open, at, Content::Settled(&buffer[..got]))?;
                self.report.wrote(got as u64);
                at += got as u64;
                if got < len {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Of a file that has all its data.
    pub(super) fn share(&mut self, open: &Open<'a>) {
        let Some(shares) = open.shares.as_ref().filter(|s| !s.twins.is_empty()) else {
            return;
        };
        let shared = match self.unshared {
            Some(e) => Err(e),
            None => self.share_all(open, shares.file, &shares.twins),
        };
        if let Err(e) = shared {
            if e == Errno(libc::EOPNOTSUPP) {
                self.unshared = Some(e);
            }
            self.report.lose(Loss::Reflink, &self.path, b"", e);
        }
    }

    fn share_all(&self, open: &Open<'a>, own: SharerId, twins: &[Twin]) -> Result<()> {
        for twins in twins.chunk_by(|a, b| a.file == b.file) {
            let file = twins[0].file;
            let from: Fd = match self.sharers.get(&file) {
                Some(path) => self.reopen(path)?,
                None if file == own => {
                    let dir = &self.frame()?.fd;
                    self.sys.openat(dir, &open.temporary, OPEN, 0)?
                }
                None => return Err(Errno(libc::ENOENT)),
            };
            for twin in twins {
                let to = (&open.fd, twin.at);
                self.sys.share((&from, twin.from), to, twin.len)?;
            }
        }
        Ok(())
    }
}
