//! Small files. One whose data lies in one piece in a file of the host is read from
//! there, together with others (gather.rs).

use super::Reader;
use crate::sys::{sole_extent, Fd, Stat};
use tane::images::HostRange;

impl Reader<'_, '_> {
    /// Where the host has all of a plain file's data. None: the file system must read it.
    pub(super) fn small_by_host(&self, fd: &Fd, stat: &Stat) -> Option<HostRange> {
        // No bytes at all: a question about the device. Asking other file systems
        // where a file lies may make them write it first.
        self.sys.0.host_range(stat.dev, 0, 0)?;
        let physical = sole_extent(fd, stat.size)?;
        self.sys.0.host_range(stat.dev, physical, stat.size)
    }
}
