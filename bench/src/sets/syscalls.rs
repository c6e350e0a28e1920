//! The same system calls by our kernel and by the host's, on a tmpfs each, in
//! batches that take turns.

use crate::paths::Paths;
use crate::promise::Promise;
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use std::ffi::CString;
use std::time::Instant;

/// Batches for each run that was asked for: they are short.
const BATCHES: u32 = 9;
const BATCH_NS: f64 = 3e6;
/// The largest read or write.
const LARGEST: usize = 4096;

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let image = tane_host::Image::open(&paths.image("default")).map_err(|e| e.to_string())?;
    let builder = tane_host::Builder {
        cmdline: "quiet".into(),
        ..Default::default()
    };
    let kernel = Ours(builder.boot(&image).map_err(|e| e.to_string())?);
    mount_tmpfs(&kernel)?;
    let (ours, host) = (Bed::new(kernel)?, Bed::new(Host)?);
    let contestants = vec![
        Contestant::new(TANE, ours.contest(promise.name)),
        Contestant::new("host", host.contest(promise.name)),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

/// Who answers system calls.
trait Kernel {
    /// Negative if it failed.
    ///
    /// # Safety
    /// As the call's man page says.
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64;
}

struct Ours(tane_host::Kernel);

impl Kernel for Ours {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        self.0.syscall(nr, args)
    }
}

struct Host;

impl Kernel for Host {
    #[inline]
    unsafe fn call(&self, nr: i64, [a, b, c, d, e, f]: [u64; 6]) -> i64 {
        libc::syscall(nr, a, b, c, d, e, f)
    }
}

/// A tmpfs where the host has its own, so that both look up the same path.
fn mount_tmpfs(kernel: &Ours) -> Result<(), String> {
    for dir in [c"/dev", c"/dev/shm"] {
        // It may be there already.
        // SAFETY: a C string.
        unsafe { kernel.call(libc::SYS_mkdir, [dir.as_ptr() as u64, 0o755, 0, 0, 0, 0]) };
    }
    let (kind, at) = (c"tmpfs".as_ptr() as u64, c"/dev/shm".as_ptr() as u64);
    // SAFETY: C strings.
    match unsafe { kernel.call(libc::SYS_mount, [kind, at, kind, 0, 0, 0]) } {
        0 => Ok(()),
        error => Err(format!("mounting a tmpfs inside: error {}", -error)),
    }
}

/// A kernel and an open file of 4 KiB on its tmpfs.
struct Bed<K: Kernel> {
    kernel: K,
    path: CString,
    fd: u64,
    buffer: Box<[u8; LARGEST]>,
}

impl<K: Kernel> Bed<K> {
    fn new(kernel: K) -> Result<Self, String> {
        let path = format!("/dev/shm/tane-bench-file-{}", std::process::id());
        let path = CString::new(path).map_err(|e| e.to_string())?;
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) as u64;
        let open = [path.as_ptr() as u64, flags, 0o600, 0, 0, 0];
        // SAFETY: a C string.
        let fd = unsafe { kernel.call(libc::SYS_open, open) };
        let bed = Self {
            kernel,
            path,
            fd: fd as u64,
            buffer: Box::new([1; LARGEST]),
        };
        if fd < 0 || bed.write(LARGEST) != LARGEST as i64 {
            return Err("no file on the tmpfs".into());
        }
        Ok(bed)
    }

    /// What one batch of the promised call takes, in ns for each call.
    fn contest<'a>(&'a self, what: &'a str) -> impl FnMut() -> Result<f64, String> + 'a {
        let mut count = 0;
        move || {
            if count == 0 {
                let one = self.batch(what, 2_000)?;
                count = ((BATCH_NS / one) as u32).max(100);
            }
            self.batch(what, count)
        }
    }

    fn batch(&self, what: &str, count: u32) -> Result<f64, String> {
        match what {
            "getppid" => time(count, || self.getppid()),
            "open-close" => time(count, || self.open_close()),
            "pread-1" => time(count, || self.read(1)),
            "pwrite-1" => time(count, || self.write(1)),
            "pread-4k" => time(count, || self.read(LARGEST)),
            "pwrite-4k" => time(count, || self.write(LARGEST)),
            _ => Err(format!("no call is called {what}")),
        }
    }

    #[inline]
    fn getppid(&self) -> i64 {
        // SAFETY: takes no pointers.
        unsafe { self.kernel.call(libc::SYS_getppid, [0; 6]) }
    }

    #[inline]
    fn open_close(&self) -> i64 {
        let path = self.path.as_ptr() as u64;
        // SAFETY: a C string; the descriptor is the one just opened.
        unsafe {
            let fd = self.kernel.call(libc::SYS_open, [path, 0, 0, 0, 0, 0]);
            self.kernel
                .call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])
        }
    }

    #[inline]
    fn read(&self, len: usize) -> i64 {
        self.transfer(libc::SYS_pread64, len)
    }

    #[inline]
    fn write(&self, len: usize) -> i64 {
        self.transfer(libc::SYS_pwrite64, len)
    }

    #[inline]
    fn transfer(&self, nr: i64, len: usize) -> i64 {
        let buffer = self.buffer.as_ptr() as u64;
        // SAFETY: at most the buffer, which nothing else looks at.
        let done = unsafe { self.kernel.call(nr, [self.fd, buffer, len as u64, 0, 0, 0]) };
        if done == len as i64 {
            done
        } else {
            -1
        }
    }
}

impl<K: Kernel> Drop for Bed<K> {
    fn drop(&mut self) {
        let path = self.path.as_ptr() as u64;
        // SAFETY: a C string, and our own descriptor.
        unsafe {
            self.kernel.call(libc::SYS_close, [self.fd, 0, 0, 0, 0, 0]);
            self.kernel.call(libc::SYS_unlink, [path, 0, 0, 0, 0, 0]);
        }
    }
}

/// ns for each of `count` calls, none of which may fail.
#[inline]
fn time(count: u32, call: impl Fn() -> i64) -> Result<f64, String> {
    let mut results = 0;
    let start = Instant::now();
    for _ in 0..count {
        results |= call();
    }
    let time = start.elapsed();
    if results < 0 {
        return Err("a call failed".into());
    }
    Ok(time.as_secs_f64() * 1e9 / f64::from(count))
}
