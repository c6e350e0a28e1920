//! The host's own kernel.

use crate::Linux;

/// The Linux that runs this process.
#[derive(Debug)]
pub struct Host;

impl Linux for Host {
    #[inline]
    unsafe fn call(&self, nr: i64, a: [u64; 6]) -> i64 {
        // SAFETY: the caller vouches for the arguments; and this thread's errno.
        unsafe {
            match libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) {
                -1 => -i64::from(*libc::__errno_location()),
                result => result,
            }
        }
    }
}
