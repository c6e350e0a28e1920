//! A range of the kernel's user window: what mmap(2) gave this process.

use crate::ages::{Age, Given};
use crate::error::Errno;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::missing::Watch;
use crate::sys::{Fd, SysResult};
use std::ptr::NonNull;

pub(crate) const PAGE: usize = 4096;

/// What mmap(2) is asked for.
pub(crate) struct Request<'f> {
    pub len: usize,
    pub prot: i32,
    pub flags: i32,
    /// None: memory of its own.
    pub file: Option<&'f Fd>,
    pub offset: u64,
}

/// Mapped as long as it lives, and keeps the kernel's memory there too.
pub(crate) struct Region {
    kernel: Kernel,
    start: NonNull<u8>,
    len: usize,
    /// When it was mapped.
    age: Age,
    /// None on the host, whose faults are its own.
    watch: Option<Watch>,
}

// SAFETY: memory that any thread may touch; who may write is the owner's matter.
unsafe impl Send for Region {}
// SAFETY: the same.
unsafe impl Sync for Region {}

impl Region {
    pub fn new(kernel: &Kernel, request: &Request) -> SysResult<Region> {
        let (at, age) = kernel.dated(|| {
            // What the file's number stands for is asked in the moment in which it is mapped.
            let fd = request.file.map_or(-1, Fd::raw);
            let args = [
                0,
                request.len as u64,
                request.prot as u64,
                request.flags as u64,
                fd as i64 as u64,
                request.offset,
            ];
            // SAFETY: a new mapping where none is; nothing is read or written.
            match unsafe { kernel.syscall(libc::SYS_mmap, args) } {
                errno @ ..0 => Err(Errno(-errno as i32)),
                at => Ok(at),
            }
        })?;
        let start = NonNull::new(at as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        let writable = request.prot & libc::PROT_WRITE != 0;
        let watch = matches!(kernel.machine(), Machine::Tane(_))
            .then(|| Watch::new(at as usize, request.len.next_multiple_of(PAGE), writable));
        Ok(Region {
            kernel: kernel.clone(),
            start,
            len: request.len,
            age,
            watch,
        })
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Have all pages there now, writable ones for a private mapping.
    pub fn populate(&self, write: bool) -> SysResult<()> {
        const MADV_POPULATE_READ: i32 = 22;
        const MADV_POPULATE_WRITE: i32 = 23;
        let advice = match write {
            true => MADV_POPULATE_WRITE,
            false => MADV_POPULATE_READ,
        };
        self.call(libc::SYS_madvise, 0, self.len, advice)
    }

    /// Write back what was changed in a range, and wait for the disk; msync(2).
    pub fn sync(&self, offset: usize, len: usize) -> SysResult<()> {
        self.call(libc::SYS_msync, offset, len, libc::MS_SYNC)
    }

    /// A call that takes a range of this mapping; `offset` may be inside a page.
    fn call(&self, nr: i64, offset: usize, len: usize, flags: i32) -> SysResult<()> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        let end = end.ok_or(Errno(libc::EINVAL))?;
        let first = offset - offset % PAGE;
        let at = self.start.as_ptr() as u64 + first as u64;
        let args = [at, (end - first) as u64, flags as u64, 0, 0, 0];
        if !self.kernel.has(&self.age) {
            return Err(Errno(libc::ESTALE));
        }
        // SAFETY: the range is ours, and none of these calls takes it away.
        match unsafe { self.kernel.syscall(nr, args) } {
            // It was undone just now.
            errno if errno == -i64::from(libc::EBADF) => Err(Errno(libc::ESTALE)),
            errno @ ..0 => Err(Errno(-errno as i32)),
            _ => Ok(()),
        }
    }

    /// Whether every page that was touched could be shown.
    pub fn check(&self) -> SysResult<()> {
        match &self.watch {
            Some(watch) if watch.missed() && self.kernel.is_alive() => Err(Errno(libc::EIO)),
            Some(watch) if watch.missed() => Err(Errno(libc::ESHUTDOWN)),
            _ => Ok(()),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Somebody else may get the same place as soon as it is free.
        drop(self.watch.take());
        // A kernel that is gone refuses; its memory goes with its last handle.
        let what = Given::Mapping(self.start.as_ptr() as u64, self.len as u64);
        self.kernel.take_back(what, &self.age);
    }
}
