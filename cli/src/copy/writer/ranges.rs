//! Pieces of a file that lie in a file of the host.

use super::super::SparseMode;
use super::files::Open;
use super::{Result, Writer};
use crate::failure::remedy;
use crate::sys::{Errno, Sys};
use std::os::unix::fs::FileExt;
use tane::images::HostRange;

/// Bytes that are read and written at once: they stay in the processor's cache.
const BUFFER: usize = 256 << 10;

/// How the host's bytes get into a file, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Within a kind of file system; some share the blocks.
    CopyFileRange,
    SendFile,
    /// Read and written, whatever the two are.
    Buffer,
}

/// Whose fault it is.
#[derive(Debug)]
enum Trouble {
    /// The image's file gives less than it had.
    Source(Errno),
    Destination(Errno),
}

impl Way {
    /// Only the host can copy from its files to its files, and blocks of zeroes
    /// are found only by looking at them.
    pub fn of(sys: Sys, sparse: SparseMode) -> Way {
        if sys.0.is_ours() || sparse == SparseMode::Always {
            Way::Buffer
        } else {
            Way::CopyFileRange
        }
    }

    fn next(self) -> Way {
        match self {
            Way::CopyFileRange => Way::SendFile,
            Way::SendFile | Way::Buffer => Way::Buffer,
        }
    }
}

impl Writer<'_, '_> {
    /// Adds to the open file. A file that cannot be read any more is given up;
    /// others may be.
    pub(super) fn range(&mut self, at: u64, range: &HostRange) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        match self.copy_range(&mut open, at, range) {
            Ok(()) => {
                self.open = Some(open);
                self.report.wrote_by_host(range.len);
                self.report.update_progress();
                Ok(())
            }
            Err(Trouble::Source(e)) => {
                let text = format!("the image cannot be read: {}", remedy(e));
                self.report.error_text(&self.path, text);
                self.open = Some(open);
                self.abort();
                Ok(())
            }
            Err(Trouble::Destination(e)) => self.close(open, Err(e)),
        }
    }

    fn copy_range(
        &mut self,
        open: &mut Open,
        at: u64,
        range: &HostRange,
    ) -> std::result::Result<(), Trouble> {
        let mut done = 0;
        let mut way = self.way;
        while done < range.len && way != Way::Buffer {
            let (from, to, len) = (range.offset + done, at + done, range.len - done);
            let moved = match way {
                Way::CopyFileRange => {
                    self.sys
                        .copy_file_range(&range.file, from, &open.fd, to, len)
                }
                _ => self.sys.sendfile(&range.file, from, &open.fd, to, len),
            };
            match moved {
                Ok(n @ 1..) => {
                    done += n;
                    open.end = at + done;
                }
                // Those who cannot do it will not learn it. For the rest the
                // buffer tells who is to blame.
                Err(e) if e.is_unsupported() || e == Errno(libc::EXDEV) => {
                    way = way.next();
                    self.way = way;
                }
                Ok(0) | Err(_) => way = Way::Buffer,
            }
        }
        if done == range.len {
            return Ok(());
        }
        self.buffer.resize(BUFFER, 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.copy_buffered(open, at, range, done, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn copy_buffered(
        &self,
        open: &mut Open,
        at: u64,
        range: &HostRange,
        mut done: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), Trouble> {
        while done < range.len {
            let len = (range.len - done).min(buffer.len() as u64) as usize;
            let part = &mut buffer[..len];
            let read = range.file.read_exact_at(part, range.offset + done);
            read.map_err(|e| Trouble::Source(Errno(e.raw_os_error().unwrap_or(libc::EIO))))?;
            let put = self.put(open, at + done, part);
            put.map_err(Trouble::Destination)?;
            done += len as u64;
        }
        Ok(())
    }
}
