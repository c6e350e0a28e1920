//! Who answers system calls.

use crate::ages::Ages;
use std::ops::Deref;
use std::sync::Arc;
use tane_linux::{Host, Linux};

/// A Linux. All kinds have the same ABI.
pub(crate) enum Machine {
    Tane(Local),
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

/// One in this process, which can go back to checkpoints.
pub(crate) struct Local {
    kernel: tane_host::Kernel,
    pub ages: Ages,
}

impl Local {
    pub fn new(kernel: tane_host::Kernel) -> Self {
        let ages = Ages::default();
        Self { kernel, ages }
    }
}

impl Deref for Local {
    type Target = tane_host::Kernel;

    #[inline]
    fn deref(&self) -> &tane_host::Kernel {
        &self.kernel
    }
}

impl Linux for Local {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        let [a, b, c, d, e, f] = args;
        // SAFETY: as the caller promises.
        unsafe {
            match self.syscall_timeless(nr, args) {
                Some(answer) => answer,
                None => self.call_in_time(nr, a, b, c, d, e, f),
            }
        }
    }

    fn is_ours(&self) -> bool {
        true
    }
}

impl Linux for Machine {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        match self {
            // SAFETY: as the caller promises.
            Self::Tane(local) => unsafe { local.call(nr, args) },
            // SAFETY: the same.
            Self::Host => unsafe { Host.call(nr, args) },
            // SAFETY: the same.
            Self::Remote(there) => unsafe { there.call(nr, args) },
        }
    }

    fn is_ours(&self) -> bool {
        match self {
            Self::Tane(local) => local.is_ours(),
            Self::Host => false,
            Self::Remote(there) => there.is_ours(),
        }
    }
}
