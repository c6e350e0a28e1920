//! Small files. One whose data lies in one piece in a file of the host is read from
//! there, together with others.

use super::Reader;
use tane::images::HostRange;
use tane::Place;
use tane_linux::{Fd, Stat};

impl<'a> Reader<'a, '_> {
    /// Where the host has the bytes of files of a device. Asking file systems that have
    /// none where a file lies may make them write it first.
    pub(super) fn place(&self, device: u64) -> Option<&'a Place> {
        let place = self.place?;
        (place.device() == device).then_some(place)
    }

    /// Where the host has all of a plain file's data. None: the file system must read it.
    pub(super) fn small_by_host(&self, fd: &Fd, stat: &Stat) -> Option<HostRange> {
        self.place(stat.dev)?.whole(fd.raw(), stat.size)
    }
}
