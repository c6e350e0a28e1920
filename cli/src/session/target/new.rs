//! Making all of a volume new where zeroes are no cheaper than other bytes, as they are
//! where they are encrypted: what a program wrote is copied, and what it left alone stays
//! as it is, as if the program had worked on the device.

use super::{jail, scratch, wrong, Target, PIECE};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use tane::images::Spool;
use tane_linux::{Errno, Fd};
use tane_make::file::next_extent;

/// What is zeroed at each end, in bytes: old file systems are recognised there.
const ENDS: u64 = 1 << 20;

impl Target {
    /// Zeroes it if the device does so by itself; false: it would write them one by one.
    pub(super) fn blank(&self, device: &Fd, range: &Range<u64>) -> io::Result<bool> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let len = range.end - range.start;
        match device.sys().fallocate(device, mode, range.start, len) {
            Ok(()) => Ok(true),
            Err(Errno(libc::EOPNOTSUPP)) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// What was written to the file, and zeroes at both ends.
    pub(super) fn copy_written(
        &self,
        from: &File,
        device: &Fd,
        range: &Range<u64>,
    ) -> io::Result<()> {
        let len = ENDS.min(range.end - range.start);
        for start in [range.start, range.end - len] {
            self.zero(device, start, len)?;
        }
        let mut piece = vec![0; PIECE];
        let mut at = range.start;
        while let Some(data) = next_extent(from, at)? {
            at = data.end;
            let end = data.end.min(range.end);
            for place in (data.start..end).step_by(PIECE) {
                let piece = &mut piece[..(end - place).min(PIECE as u64) as usize];
                from.read_exact_at(piece, place)?;
                device
                    .sys()
                    .pwrite_all(device, piece, place)
                    .map_err(wrong)?;
            }
        }
        Ok(())
    }
}

static KNOWN: OnceLock<bool> = OnceLock::new();

/// Whether files of the host tell what a program wrote from what it did not: it made no
/// holes, and zeroes that are written do not become some, as they do where files are
/// compressed.
pub(super) fn is_written_known() -> bool {
    jail::keeps_from_holes() && *KNOWN.get_or_init(tells_what_is_written)
}

/// Before the jail closes, which has no files.
pub fn look_at_temporary_files() {
    let _ = KNOWN.get_or_init(tells_what_is_written);
}

fn tells_what_is_written() -> bool {
    const LEN: usize = 64 << 10;
    let tells = || -> io::Result<bool> {
        let mut spool = Spool::new(&scratch::place())?;
        spool.append(&[0; LEN], 0)?;
        spool.end()?;
        spool.file().write_all_at(&[0; LEN], LEN as u64)?;
        spool.file().sync_data()?;
        let first = next_extent(spool.file(), 0)?;
        Ok(first.is_some_and(|data| data.end == 2 * LEN as u64))
    };
    tells().unwrap_or(false)
}
