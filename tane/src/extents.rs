//! Where a file lies on the device of its file system.

use crate::error::{Context, Result};
use crate::file::File;
use crate::kernel::Kernel;
use tane_linux::{shared_parts_from, Descriptor, Extent, SharedPart};

const ASK: &str = "ask where a file lies";

/// The extents of a file in order; between them are holes. EUCLEAN: they are not in
/// order.
pub struct Extents<D> {
    kernel: Kernel,
    walk: tane_linux::Extents<D>,
}

impl File {
    /// The parts of this file that it may share with others, in order, from the first
    /// that ends behind `from`; so many at once, and none if there are no more. Nothing
    /// is written for that: what is not written yet is shared with nobody. ENOTTY or
    /// EOPNOTSUPP where the file system does not say where its files lie.
    pub fn shared_parts(&self, from: u64) -> Result<Vec<SharedPart>> {
        let parts = shared_parts_from(self.kernel().sys(), &self.fd, from);
        parts.map_err(|errno| errno.during(ASK))
    }
}

impl<D: Descriptor> Extents<D> {
    pub(crate) fn of(kernel: &Kernel, file: D, end: u64) -> Self {
        Extents {
            kernel: kernel.clone(),
            walk: tane_linux::Extents::of(file, end),
        }
    }
}

impl<D: Descriptor> Iterator for Extents<D> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Result<Extent>> {
        let following = self.walk.following(self.kernel.sys()).transpose()?;
        Some(following.map_err(|errno| errno.during(ASK)))
    }
}
