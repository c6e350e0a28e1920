//! ioctl(2) inside the kernel, and reads of whole structures from its devices.

use crate::error::Errno;
use crate::kernel::Kernel;
use crate::path::with_cstr;
use crate::sys::{Fd, SysResult};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Kernel {
    /// With a structure that the kernel reads and writes; its length has to be
    /// what the request takes.
    pub(super) fn ioctl(&self, fd: &Fd, request: u64, structure: &mut [u8]) -> SysResult<u64> {
        let at = structure.as_mut_ptr() as u64;
        self.ioctl_number(fd, request, at)
    }

    /// With a number for an argument.
    pub(super) fn ioctl_number(&self, fd: &Fd, request: u64, argument: u64) -> SysResult<u64> {
        let args = [fd.raw() as u64, request, argument, 0, 0, 0];
        // SAFETY: the argument is a number, or a structure borrowed meanwhile.
        match unsafe { self.syscall(libc::SYS_ioctl, args) } {
            result @ 0.. => Ok(result as u64),
            errno => Err(Errno(-errno as i32)),
        }
    }

    pub(super) fn open_device(&self, device: &Path, flags: i32) -> SysResult<Fd> {
        let open = |path: &std::ffi::CStr| self.openat(libc::AT_FDCWD, path, flags, 0);
        with_cstr(device.as_os_str().as_bytes(), open)
    }

    /// `len` bytes of a device from `at` on; less at its end.
    pub(super) fn read_device(&self, device: &Path, at: u64, len: usize) -> SysResult<Vec<u8>> {
        let fd = self.open_device(device, libc::O_RDONLY)?;
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match self
                .sys()
                .pread(&fd, &mut bytes[done..], at.saturating_add(done as u64))?
            {
                0 => break,
                n => done += n,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// A device's size in bytes.
    pub(super) fn device_size(&self, device: &Path) -> SysResult<u64> {
        let fd = self.open_device(device, libc::O_RDONLY)?;
        self.sys().lseek(&fd, 0, libc::SEEK_END)
    }
}
