//! Single system calls, as lmbench defines them where it has them, by our
//! kernel and by the host's, in batches that take turns.

use super::bed::{Bed, Buffer, Fs, Place};
use super::pair::Pair;
use crate::kernel::{boot, check, Host, Kernel, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{batches, race, Contestant, BATCHES};
use crate::report::{Report, HOST, TANE};
use crate::target::Target::{self, Faster};

const MAP: usize = 64 << 10;

#[rustfmt::skip]
const ROWS: [(&str, &str, Target); 17] = [
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
    let fs = if promise.name.starts_with("tmpfs-") {
        Fs::Tmpfs
    } else {
        Fs::Ramfs
    };
    let place = Place::new(paths, fs)?;
    place.mirror(&ours, fs)?;
    let inside = Bench::new(&ours, &place)?;
    let host = Bench::new(&Host, &place)?;
    let name = promise.name.trim_start_matches("tmpfs-");
    let on_file = ["fstat", "stat", "open-close"].contains(&name);
    let note = if on_file { &place.note } else { "" };
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
    fn new(kernel: &'a K, place: &Place) -> Result<Self, String> {
        let bed = Bed::new(kernel, &place.point, "file", 4096)?;
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
                "mmap" => Box::new(batches(move || map(kernel, false))),
                "mmap-touch" => Box::new(batches(move || map(kernel, true))),
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

fn map<K: Kernel>(kernel: &K, touch: bool) -> i64 {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let args = [0, MAP as u64, protection, flags, u64::MAX, 0];
    // SAFETY: a new mapping, used and unmapped here.
    unsafe {
        let at = kernel.call(libc::SYS_mmap, args);
        if at < 0 {
            return at;
        }
        if touch {
            for page in (0..MAP).step_by(4096) {
                ((at as usize + page) as *mut u8).write_volatile(1);
            }
        }
        kernel.call(libc::SYS_munmap, [at as u64, MAP as u64, 0, 0, 0, 0])
    }
}
