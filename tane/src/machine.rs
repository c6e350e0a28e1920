//! Who answers system calls.

use std::sync::Arc;
use tane_linux::{Host, Linux};

/// A Linux. All kinds have the same ABI.
pub(crate) enum Machine {
    Tane(tane_host::Kernel),
    /// The Linux that runs this process.
    Host,
    /// One in another process.
    Remote(Arc<dyn Remote>),
}

/// A Linux in another process, which somebody passes calls on to: see
/// [`Kernel::remote`](crate::Kernel::remote). A call whose arguments do not cross is
/// answered with ENOSYS.
pub trait Remote: Linux {
    /// Its log so far.
    fn dmesg(&self) -> String;
    /// Whether calls still have an effect.
    fn is_alive(&self) -> bool;
    /// Why it ended.
    fn last_words(&self) -> String;
    /// End it now, without a sync.
    fn halt(&self);
}

impl Linux for Machine {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        match self {
            // SAFETY: as the caller promises.
            Self::Tane(kernel) => unsafe { kernel.syscall(nr, args) },
            // SAFETY: the same.
            Self::Host => unsafe { Host.call(nr, args) },
            // SAFETY: the same.
            Self::Remote(there) => unsafe { there.call(nr, args) },
        }
    }

    fn is_ours(&self) -> bool {
        match self {
            Self::Tane(_) => true,
            Self::Host => false,
            Self::Remote(there) => there.is_ours(),
        }
    }
}
