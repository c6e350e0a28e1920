//! Who answers system calls.

use tane_linux::{Host, Linux};

/// A Linux. Both kinds have the same ABI.
pub(crate) enum Machine {
    Tane(tane_host::Kernel),
    /// The Linux that runs this process.
    Host,
}

impl Linux for Machine {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        match self {
            // SAFETY: as the caller promises.
            Self::Tane(kernel) => unsafe { kernel.syscall(nr, args) },
            // SAFETY: the same.
            Self::Host => unsafe { Host.call(nr, args) },
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self, Self::Tane(_))
    }
}
