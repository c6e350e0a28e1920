//! Memory of the kernel's that the program uses.

use crate::error::{Context, Errno, Result};
use crate::kernel::Kernel;
use crate::region::{Region, Request, PAGE};
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

/// What page tables and the calls that fill them take beside the pages.
const RESERVE: u64 = 1 << 20;

/// Bytes that are pages of the kernel: a device writes into them and a pipe
/// takes them over without a copy, by O_DIRECT, vmsplice(2) or as a registered
/// buffer of io_uring. Ordinary memory of the program cannot be used for these,
/// since the kernel has no page of it: they answer EFAULT.
///
/// Zeroes at first, aligned to a page. All pages are there from the start and
/// count against the kernel's memory, not the program's. Freed when dropped.
///
/// ```no_run
/// # let kernel = tane::Kernel::boot()?;
/// # let mount = tane::MountOptions::new().mount(&kernel, "/dev/vda")?;
/// let mut direct = tane::OpenOptions::new();
/// let file = direct.read(true).custom_flags(libc::O_DIRECT).open(&mount, "f")?;
/// let mut buffer = kernel.buffer(1 << 20)?;
/// let n = file.read_at(&mut buffer, 0)?;
/// # std::io::Result::Ok(())
/// ```
///
/// It keeps the kernel alive like any handle. When the kernel is halted or dies
/// the bytes that are in view stay. The kernel takes pages out of view and shows
/// them again when they are touched: all of them whenever anything is unmapped,
/// another buffer for instance. Those that are out of view when the kernel ends
/// read as zeroes, and [`Buffer::check`] then fails.
///
/// Do not let the kernel write into it behind a `&mut` borrow's back: what was
/// submitted to io_uring must have completed before the buffer is looked at.
pub struct Buffer {
    region: Region,
    len: usize,
}

impl Kernel {
    /// Get `len` bytes of the kernel's memory; mmap(2) of anonymous memory.
    ///
    /// Errors: EINVAL a length of 0; ENOMEM the kernel has not that much memory
    /// available ([`Builder::memory`](crate::Builder::memory) gives it more);
    /// ESHUTDOWN the kernel has ended.
    pub fn buffer(&self, len: usize) -> io::Result<Buffer> {
        if len == 0 {
            return Err(Errno(libc::EINVAL).into());
        }
        // Linux promises more than it has, and when it comes to giving, process
        // 1 cannot be killed for it: the kernel would panic.
        let pages = len.checked_next_multiple_of(PAGE);
        let need = pages.and_then(|pages| pages.checked_add(pages / 512));
        let need = need.ok_or(Errno(libc::ENOMEM))? as u64 + RESERVE;
        if self.available()? < need {
            return Err(Errno(libc::ENOMEM).into());
        }
        let region = Region::new(
            self,
            &Request {
                len,
                prot: libc::PROT_READ | libc::PROT_WRITE,
                flags: libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                file: None,
                offset: 0,
            },
        )?;
        region.populate(true)?;
        Ok(Buffer { region, len })
    }

    /// Bytes that can be had without taking them from anybody: what proc(5) calls
    /// MemAvailable.
    fn available(&self) -> io::Result<u64> {
        let text = self.tree("/proc")?.read_to_string("meminfo")?;
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.ok_or(Errno(libc::EIO))? << 10)
    }
}

impl Buffer {
    /// The kernel whose memory it is.
    pub fn kernel(&self) -> &Kernel {
        self.region.kernel()
    }

    /// Whether all that was read so far is what was written. ESHUTDOWN if a page
    /// was out of view when the kernel ended.
    pub fn check(&self) -> Result<()> {
        let check = self.region.check();
        check.map_err(|errno| errno.during("access a buffer"))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped while this lives, and written through `&mut` only.
        unsafe { std::slice::from_raw_parts(self.region.start().as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped while this lives, and borrowed by one.
        unsafe { std::slice::from_raw_parts_mut(self.region.start().as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes of {:?})", self.len, self.kernel())
    }
}
