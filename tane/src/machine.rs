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
            Self::Tane(kernel) => kernel.syscall(nr, a),
            Self::Host => {
                let ret = libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
                if ret == -1 {
                    // SAFETY: this thread's errno.
                    -i64::from(*libc::__errno_location())
                } else {
                    ret
                }
            }
        }
    }
}
