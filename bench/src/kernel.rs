//! Who answers system calls: ours, as a function, or the host's, as a trap.

use crate::paths::Paths;
use std::ffi::CString;
use std::path::Path;

pub trait Kernel: Sync {
    /// Negative errno if it failed.
    ///
    /// # Safety
    /// As the call's man page says.
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64;

    /// For calls on paths: mkdir(2) and its kin.
    fn on_path(&self, nr: i64, path: &Path, a: u64, b: u64) -> i64 {
        let path = c_path(path);
        // SAFETY: a C string; what else these calls take are numbers.
        unsafe { self.call(nr, [path.as_ptr() as u64, a, b, 0, 0, 0]) }
    }
}

pub struct Ours(pub tane_host::Kernel);

impl Kernel for Ours {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        self.0.syscall(nr, args)
    }
}

pub struct Host;

impl Kernel for Host {
    /// The instruction itself: what the host can do at best, and -errno as the
    /// kernel returns it.
    #[inline]
    unsafe fn call(&self, nr: i64, [a, b, c, d, e, f]: [u64; 6]) -> i64 {
        let result: i64;
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr => result,
            in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
        result
    }
}

/// A path of ours never has a zero byte in it.
pub fn c_path(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The error of a call as text.
pub fn check(what: &str, result: i64) -> Result<i64, String> {
    if result >= 0 {
        return Ok(result);
    }
    let error = std::io::Error::from_raw_os_error(-result as i32);
    Err(format!("{what}: {error}"))
}

/// Boot an image with so many virtual CPUs and so much memory.
pub fn boot(paths: &Paths, config: &str, cpus: u32, ram: u64) -> Result<Ours, String> {
    boot_with(paths, config, |builder| {
        builder.cpus = cpus;
        builder.ram = ram;
    })
}

/// Boot an image with all that can be changed.
pub fn boot_with(
    paths: &Paths,
    config: &str,
    change: impl FnOnce(&mut tane_host::Builder),
) -> Result<Ours, String> {
    let image = tane_host::Image::open(&paths.image(config)?).map_err(|e| e.to_string())?;
    let mut builder = tane_host::Builder {
        cmdline: "quiet".into(),
        ..Default::default()
    };
    change(&mut builder);
    Ok(Ours(builder.boot(&image).map_err(|e| e.to_string())?))
}

/// Memory of a kernel that does not have to hold much.
pub const RAM: u64 = 256 << 20;

impl Kernel for tane::Kernel {
    #[inline]
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        self.syscall(nr, args)
    }
}
