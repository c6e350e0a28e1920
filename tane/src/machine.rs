//! Who answers system calls.

/// A Linux. Both kinds have the same ABI.
pub(crate) enum Machine {
    Tane(tane_host::Kernel),
    /// The Linux that runs this process.
    Host,
}

impl Machine {
    /// # Safety
    /// The call may read and write what its arguments point to.
    #[inline]
    pub(crate) unsafe fn syscall(&self, nr: i64, a: [u64; 6]) -> i64 {
        match self {
            // SAFETY: as the caller promises.
            Self::Tane(kernel) => unsafe { kernel.syscall(nr, a) },
            // SAFETY: the same; and this thread's errno.
            Self::Host => unsafe {
                match libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) {
                    -1 => -i64::from(*libc::__errno_location()),
                    ret => ret,
                }
            },
        }
    }
}
