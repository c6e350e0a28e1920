//! Small files. One whose data lies in one piece in a file of the host is read from
//! there, together with others.

use super::Reader;
use tane::images::HostRange;
use tane::HostBlocks;
use tane_linux::{Fd, Stat};

impl<'a> Reader<'a, '_> {
    /// Where the host has the bytes of files of a device. Asking file systems that have
    /// none where a file lies may make them write it first.
    pub(super) fn host_blocks(&self, device: u64) -> Option<&'a HostBlocks> {
        let blocks = self.host_blocks?;
        (blocks.device() == device).then_some(blocks)
    }

    /// Where the host has all of a plain file's data. None: the file system must read it.
    pub(super) fn small_by_host(&self, fd: &Fd, stat: &Stat) -> Option<HostRange> {
        self.host_blocks(stat.dev)?.whole(fd.raw(), stat.size)
    }
}
