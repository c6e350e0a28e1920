//! Single system calls by our kernel and by the host's, in batches that take turns.
//! lmbench has the same of getppid, read, write, fstat, stat, open and close
//! (lat_syscall), of the mapping of a file (lat_mmap) and of a page fault
//! (lat_pagefault). Its pipes and sockets go to another process and back: those are
//! the `pingpong` rows of the set `threads`; here one thread has both ends.

use super::bed::{Bed, Buffer, Fs, HostSide};
use super::pair::Pair;
use crate::kernel::{boot, check, Host, Kernel, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{batches, race, Contestant, BATCHES};
use crate::report::{Report, HOST, TANE};
use crate::target::Target::{self, Faster};

const MAP: usize = 64 << 10;
/// What lmbench maps at the least, and every how many pages it writes.
const MAPPED: usize = 512 << 10;
const STRIDE: usize = 10 * PAGE;
const PAGE: usize = 4096;

#[rustfmt::skip]
const ROWS: [(&str, &str, Target); 19] = [
    ("getpid", "getpid(2)", Target::None),
    ("getppid", "getppid(2)", Faster(16.0)),
    ("read-zero", "read of 1 B from /dev/zero", Target::None),
    ("write-null", "write of 1 B to /dev/null", Target::None),
    ("fstat", "fstat on ramfs", Faster(10.0)),
    ("stat", "stat by path on ramfs", Faster(5.0)),
    ("open-close", "open and close a file on ramfs", Faster(9.0)),
    ("tmpfs-fstat", "fstat on tmpfs", Target::None),
    ("tmpfs-stat", "stat by path on tmpfs", Target::None),
    ("tmpfs-open-close", "open and close a file on tmpfs", Target::None),
    ("pipe", "1 B into a pipe and out, one thread", Target::None),
    ("eventfd", "raise an eventfd and read it, one thread", Target::None),
    ("mmap", "map 64 KiB and unmap it", Target::None),
    ("mmap-touch", "map 64 KiB, write each page, unmap it", Target::None),
    ("mmap-file", "map 512 KiB of a file on tmpfs, write every tenth page, unmap it", Target::None),
    ("page-fault", "a page of a file on tmpfs read in a mapping: 128 of them in no order", Target::None),
    ("udp", "4 B by UDP over loopback, one thread", Target::None),
    ("tcp", "1 B by TCP over loopback, one thread", Target::None),
    ("unix", "1 B by a Unix socket, one thread", Target::None),
];

pub fn promises() -> Vec<Promise> {
    let row = |(name, what, target)| Promise::new(name, Set::Syscalls, what, "ns", target);
    ROWS.map(row).into()
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let ours = boot(paths, "default", 1, RAM)?;
    let mapped = ["mmap-file", "page-fault"].contains(&promise.name.as_str());
    let (fs, size) = match promise.name.starts_with("tmpfs-") || mapped {
        true => (Fs::Tmpfs, if mapped { MAPPED } else { PAGE }),
        false => (Fs::Ramfs, PAGE),
    };
    let host_side = HostSide::new(paths, fs)?;
    host_side.mirror(&ours, fs)?;
    let inside = Bench::new(&ours, &host_side, size)?;
    let host = Bench::new(&Host, &host_side, size)?;
    let name = promise.name.trim_start_matches("tmpfs-");
    let on_file = ["fstat", "stat", "open-close"].contains(&name);
    let note = if on_file { &host_side.note } else { "" };
    let contestants = vec![
        Contestant::new(TANE, inside.contest(name)),
        Contestant::new(HOST, host.contest(name)).noted(note),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

/// One kernel and what its calls work on.
struct Bench<'a, K: Kernel> {
    bed: Bed<'a, K>,
}

type Once<'a> = Box<dyn FnMut() -> Result<f64, String> + 'a>;

impl<'a, K: Kernel> Bench<'a, K> {
    fn new(kernel: &'a K, host_side: &HostSide, size: usize) -> Result<Self, String> {
        let bed = Bed::new(kernel, &host_side.point, "file", size)?;
        Ok(Self { bed })
    }

    fn contest<'b>(&'b self, name: &str) -> Once<'b> {
        let bed = &self.bed;
        let kernel = bed.kernel;
        match self.prepare(name) {
            Ok(fds) => match name {
                "getpid" => Box::new(batches(|| plain(kernel, libc::SYS_getpid))),
                "getppid" => Box::new(batches(|| plain(kernel, libc::SYS_getppid))),
                "read-zero" => Box::new(batches(move || fds.read(1))),
                "write-null" => Box::new(batches(move || fds.write(1))),
                "fstat" => Box::new(batches(|| bed.fstat())),
                "stat" => Box::new(batches(|| bed.stat())),
                "open-close" => Box::new(batches(|| bed.open_close())),
                "eventfd" => Box::new(batches(move || fds.there_and_back(8))),
                "mmap" => Box::new(batches(move || map(kernel, None, |_| ()))),
                "mmap-touch" => Box::new(batches(move || map(kernel, None, write_all))),
                "mmap-file" => Box::new(batches(|| map(kernel, Some(bed.fd), write_some))),
                "page-fault" => {
                    let mut faults = batches(|| map(kernel, Some(bed.fd), read_in_no_order));
                    Box::new(move || Ok(faults()? / (MAPPED / PAGE) as f64))
                }
                "udp" => Box::new(batches(move || fds.there_and_back(4))),
                _ => Box::new(batches(move || fds.there_and_back(1))),
            },
            Err(error) => Box::new(move || Err(error.clone())),
        }
    }

    /// The descriptors that a call needs.
    fn prepare(&self, name: &str) -> Result<Ends<'a, K>, String> {
        let kernel = self.bed.kernel;
        let pair = match name {
            "read-zero" | "write-null" => Pair::same(device(kernel, name)?),
            "pipe" => Pair::pipe(kernel)?,
            "eventfd" => Pair::eventfd(kernel)?,
            "udp" => Pair::udp(kernel)?,
            "tcp" => Pair::tcp(kernel)?,
            "unix" => Pair::unix(kernel)?,
            _ => Pair::same(-1),
        };
        let buffer = Buffer::new(4096)?;
        if name == "eventfd" {
            // SAFETY: in the buffer; what is added must be less than 2^64 - 1.
            unsafe { buffer.pointer().cast::<u64>().write(1) };
        }
        Ok(Ends {
            kernel,
            pair,
            buffer,
        })
    }
}

/// Two ends that bytes go between, and the bytes.
struct Ends<'a, K: Kernel> {
    kernel: &'a K,
    pair: Pair,
    buffer: Buffer,
}

impl<K: Kernel> Ends<'_, K> {
    #[inline]
    fn read(&self, len: u64) -> i64 {
        let args = [self.pair.out as u64, self.buffer.address(), len, 0, 0, 0];
        // SAFETY: less than the buffer.
        unsafe { self.kernel.call(libc::SYS_read, args) }
    }

    #[inline]
    fn write(&self, len: u64) -> i64 {
        let args = [self.pair.into as u64, self.buffer.address(), len, 0, 0, 0];
        // SAFETY: less than the buffer.
        unsafe { self.kernel.call(libc::SYS_write, args) }
    }

    #[inline]
    fn there_and_back(&self, len: u64) -> i64 {
        let written = self.write(len);
        if written < 0 {
            return written;
        }
        self.read(len)
    }
}

impl<K: Kernel> Drop for Ends<'_, K> {
    fn drop(&mut self) {
        self.pair.close(self.kernel);
    }
}

#[inline]
fn plain<K: Kernel>(kernel: &K, nr: i64) -> i64 {
    // SAFETY: takes no pointers.
    unsafe { kernel.call(nr, [0; 6]) }
}

/// /dev/zero or /dev/null; inside it may have to be made.
fn device<K: Kernel>(kernel: &K, name: &str) -> Result<i64, String> {
    let (path, minor) = match name {
        "read-zero" => (c"/dev/zero", 5),
        _ => (c"/dev/null", 3),
    };
    let at = path.as_ptr() as u64;
    let mode = u64::from(libc::S_IFCHR | 0o666);
    // SAFETY: C strings.
    unsafe {
        let open = [at, libc::O_RDWR as u64, 0, 0, 0, 0];
        let mut fd = kernel.call(libc::SYS_open, open);
        if fd == -i64::from(libc::ENOENT) {
            let made = kernel.call(libc::SYS_mknod, [at, mode, 1 << 8 | minor, 0, 0, 0]);
            check(&format!("mknod {path:?}"), made)?;
            fd = kernel.call(libc::SYS_open, open);
        }
        check(&format!("{path:?}"), fd)
    }
}

/// Map a file, or memory without one, use it and unmap it.
fn map<K: Kernel>(kernel: &K, fd: Option<u64>, touch: impl Fn(*mut u8)) -> i64 {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let (flags, fd, len) = match fd {
        Some(fd) => (libc::MAP_SHARED, fd, MAPPED),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, u64::MAX, MAP),
    };
    let args = [0, len as u64, protection, flags as u64, fd, 0];
    // SAFETY: a new mapping, used and unmapped here.
    unsafe {
        let at = kernel.call(libc::SYS_mmap, args);
        if at < 0 {
            return at;
        }
        touch(at as *mut u8);
        kernel.call(libc::SYS_munmap, [at as u64, len as u64, 0, 0, 0, 0])
    }
}

fn write_all(at: *mut u8) {
    for page in (0..MAP).step_by(PAGE) {
        // SAFETY: in the mapping.
        unsafe { at.add(page).write_volatile(1) };
    }
}

fn write_some(at: *mut u8) {
    for page in (0..MAPPED).step_by(STRIDE) {
        // SAFETY: in the mapping.
        unsafe { at.add(page).write_volatile(1) };
    }
}

/// Each page once; neighbours are far apart in time.
fn read_in_no_order(at: *mut u8) {
    const PAGES: usize = MAPPED / PAGE;
    for turn in 0..PAGES {
        // 37 and a power of two have no common divisor.
        let page = turn * 37 % PAGES;
        // SAFETY: in the mapping.
        unsafe { at.add(page * PAGE).read_volatile() };
    }
}
