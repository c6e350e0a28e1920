//! What can be shown to the host: files that a Linux of ours serves, wherever it runs.

use std::ops::Deref;
use std::os::fd::RawFd;
use tane::Tree;
use tane_linux::Linux;

/// Files that the host's programs can be shown: a [`tane::Mount`] of a kernel in this
/// process, a mount of `tane-jailed`, whose kernel is a process of its own, or what a
/// caller makes of either.
///
/// What is shown stays in this as long as anybody can see it.
pub trait Shown: Send + Sync + 'static {
    /// Who serves the files. Any thread may call it, and what its calls are given up for
    /// is no interrupt of this program's: the host's programs would see errors.
    fn linux(&self) -> &(dyn Linux + 'static);

    /// A descriptor of the root there, which stays open.
    fn root_fd(&self) -> RawFd;
}

impl<M: Deref<Target = Tree> + Send + Sync + 'static> Shown for M {
    fn linux(&self) -> &(dyn Linux + 'static) {
        self.kernel()
    }

    fn root_fd(&self) -> RawFd {
        Tree::root_fd(self)
    }
}
