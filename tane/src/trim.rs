//! Memory that a kernel has no use for.

use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::open_options::OpenOptions;
use crate::tree::{io_errno, Tree};
use std::path::Path;

impl Kernel {
    /// Give memory back to the host: what is cached of files and names and could be read
    /// again is forgotten, and all that is free becomes the host's, down to single pages.
    /// A tenth of a second for a hundred megabytes on a busy machine; calls of other threads
    /// go on, and what they use next is had from the host anew, 2.4 µs a page.
    ///
    /// What is written and not yet on its disk stays: sync before to have more go. So does
    /// what is mapped, and what is in a tmpfs. Without this, what Linux frees (of a file
    /// system that is unmounted, of files that are deleted) goes back within some seconds
    /// by itself, in pieces of 64 KiB at least.
    ///
    /// Errors: ENOENT the kernel image cannot do it; ENOTSUP the kernel is the host's; EPERM this
    /// thread's task inside has given up its privileges; ESHUTDOWN the kernel has ended.
    pub fn trim(&self) -> Result<()> {
        if matches!(self.machine(), Machine::Host) {
            let text = "the host's memory is not given to anybody";
            return Err(Error::plain(libc::ENOTSUP, "trim", text));
        }
        let proc = self.tree("/proc")?;
        // 4: no line in the log but that; then files' pages, names and inodes.
        for what in ["4", "3"] {
            put(&proc, "sys/vm/drop_caches", what)?;
        }
        put(&proc, "tane-trim", "1")
    }
}

/// Into a file that is there.
fn put(proc: &Tree, file: &str, text: &str) -> Result<()> {
    let opened = OpenOptions::new().write(true).open(proc, file)?;
    let written = opened.write_all_at(text.as_bytes(), 0);
    written.map_err(|error| io_errno(&error).on("write", Path::new(file)))
}
