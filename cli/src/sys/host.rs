//! The host's own kernel.

use super::Side;

pub struct Host;

impl Side for Host {
    unsafe fn call(&self, nr: libc::c_long, a: [usize; 6]) -> isize {
        // SAFETY: the caller vouches for the arguments.
        let result = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
        if result == -1 {
            -(std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO) as isize)
        } else {
            result as isize
        }
    }
}
