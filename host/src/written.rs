//! Which pages of a kernel's memory were written since they were last looked at.
//!
//! The host tells it, from Linux 6.7 on: userfaultfd(2) protects the pages against writing,
//! in its asynchronous mode, in which nobody has to answer a fault: the first write to a
//! page costs some 0.8 µs, whoever writes, the host's own calls too. The ioctl
//! PAGEMAP_SCAN then finds those that are not protected any more.

use crate::address::Virtual;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Of linux/userfaultfd.h.
const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
/// Of linux/fs.h.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const PM_SCAN_WP_MATCHING: u64 = 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// `struct uffdio_api`
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct pm_scan_arg`
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found: u64,
    found_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Memory whose pages the host watches; not any more once this is dropped.
pub struct Watch {
    _faults: OwnedFd,
    pagemap: File,
    range: Range<u64>,
}

impl Watch {
    /// An error if the host cannot, or will not let this process.
    pub fn new(range: Range<Virtual>) -> io::Result<Self> {
        // SAFETY: a plain call; the descriptor is ours alone.
        let faults = unsafe {
            let flags = libc::O_CLOEXEC | UFFD_USER_MODE_ONLY;
            let fd = libc::syscall(libc::SYS_userfaultfd, flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        let mut api = Api {
            api: UFFD_API,
            features: UFFD_FEATURE_WP_ASYNC,
            ioctls: 0,
        };
        let mut register = Register {
            start: range.start.0,
            len: range.end.0 - range.start.0,
            mode: UFFDIO_REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: structures of ours; what is registered stays as it is, but for when a
        // write is noticed.
        unsafe {
            let fd = faults.as_raw_fd();
            if libc::ioctl(fd, UFFDIO_API, &raw mut api) != 0
                || libc::ioctl(fd, UFFDIO_REGISTER, &raw mut register) != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        let watch = Self {
            _faults: faults,
            pagemap: File::open("/proc/self/pagemap")?,
            range: range.start.0..range.end.0,
        };
        watch.forget()?;
        Ok(watch)
    }

    /// What was written up to now does not count.
    pub fn forget(&self) -> io::Result<()> {
        let mut scan = self.scan_for(PAGE_IS_WRITTEN, 0);
        scan.flags = PM_SCAN_WP_MATCHING;
        self.scan(&mut scan, &mut [], |_| ())
    }

    /// The ranges of addresses that were written, in order.
    pub fn written(&self, found: impl FnMut(Range<u64>)) -> io::Result<()> {
        let mut scan = self.scan_for(PAGE_IS_WRITTEN, 0);
        self.scan(&mut scan, &mut [Region::default(); 512], found)
    }

    /// Those of which the host has nothing to tell: nobody has touched them, or they were
    /// written and then swapped out.
    pub fn unknown(&self, found: impl FnMut(Range<u64>)) -> io::Result<()> {
        let neither = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
        let mut scan = self.scan_for(neither, neither);
        self.scan(&mut scan, &mut [Region::default(); 512], found)
    }

    fn scan_for(&self, all_of: u64, inverted: u64) -> Scan {
        Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start: self.range.start,
            end: self.range.end,
            walk_end: 0,
            found: 0,
            found_len: 0,
            max_pages: 0,
            inverted,
            all_of,
            any_of: 0,
            returned: PAGE_IS_WRITTEN,
        }
    }

    fn scan(
        &self,
        scan: &mut Scan,
        regions: &mut [Region],
        mut found: impl FnMut(Range<u64>),
    ) -> io::Result<()> {
        if !regions.is_empty() {
            scan.found = regions.as_mut_ptr() as u64;
            scan.found_len = regions.len() as u64;
        }
        while scan.start < scan.end {
            let fd = self.pagemap.as_raw_fd();
            // SAFETY: structures of ours. Protecting a page changes nothing of it.
            let n = unsafe { libc::ioctl(fd, PAGEMAP_SCAN, &raw mut *scan) };
            if n < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            regions
                .iter()
                .take(n as usize)
                .for_each(|region| found(region.start..region.end));
            if scan.walk_end <= scan.start {
                return Err(io::Error::other("the host's scan of pages does not go on"));
            }
            scan.start = scan.walk_end;
        }
        Ok(())
    }
}
