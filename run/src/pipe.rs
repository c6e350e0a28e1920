//! A pipe inside the kernel.

use std::io;
use tane::Kernel;

/// An end of it, or of a terminal: a descriptor of process 1. Closed when dropped.
pub struct End {
    pub kernel: Kernel,
    pub fd: u64,
}

/// The ends to read and to write. Neither has the number of a standard stream, of which
/// process 1 may have none.
pub fn pipe(kernel: &Kernel) -> io::Result<(End, End)> {
    let mut ends = [0i32; 2];
    let flags = libc::O_CLOEXEC as u64;
    // SAFETY: the call fills the array.
    unsafe { kernel.try_syscall(libc::SYS_pipe2, [&raw mut ends as u64, flags, 0, 0, 0, 0])? };
    let [read, write] = ends.map(|fd| End {
        kernel: kernel.clone(),
        fd: fd as u64,
    });
    Ok((read.above_standard()?, write.above_standard()?))
}

impl End {
    /// None of the numbers of the standard streams, which a new process puts in their places.
    pub fn above_standard(self) -> io::Result<Self> {
        if self.fd > 2 {
            return Ok(self);
        }
        let nr = libc::SYS_fcntl;
        let args = [self.fd, libc::F_DUPFD_CLOEXEC as u64, 3, 0, 0, 0];
        // SAFETY: no pointers.
        let fd = unsafe { self.kernel.try_syscall(nr, args)? } as u64;
        Ok(Self {
            kernel: self.kernel.clone(),
            fd,
        })
    }

    /// As read(2).
    pub fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        let args = [self.fd, to.as_mut_ptr() as u64, to.len() as u64, 0, 0, 0];
        // SAFETY: the slice is as long as said.
        let n = unsafe { self.kernel.try_syscall(libc::SYS_read, args)? };
        Ok(n as usize)
    }

    /// As write(2), until all is written.
    pub fn write_all(&self, mut from: &[u8]) -> io::Result<()> {
        while !from.is_empty() {
            let args = [self.fd, from.as_ptr() as u64, from.len() as u64, 0, 0, 0];
            // SAFETY: the slice is as long as said.
            let n = unsafe { self.kernel.try_syscall(libc::SYS_write, args)? };
            from = &from[n as usize..];
        }
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: no pointers; nobody uses it after.
        unsafe {
            self.kernel
                .syscall(libc::SYS_close, [self.fd, 0, 0, 0, 0, 0])
        };
    }
}
