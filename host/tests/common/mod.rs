//! What the tests of this crate share.
#![allow(dead_code)]

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use tane_host::{Builder, Image, Kernel};

/// `TANE_TEST_IMAGE`, or the tiny image that `make kernel` leaves in build/.
pub fn image_path() -> PathBuf {
    std::env::var_os("TANE_TEST_IMAGE").map_or_else(|| built("tiny"), PathBuf::from)
}

/// What `make images` leaves there.
fn built(config: &str) -> PathBuf {
    let images = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../build/images"));
    images.join(format!("tane-{config}.elf"))
}

pub fn boot() -> Kernel {
    boot_with(|_| ())
}

pub fn boot_with(change: impl FnOnce(&mut Builder)) -> Kernel {
    boot_path(&image_path(), change)
}

/// That image and no other.
pub fn boot_image(config: &str, change: impl FnOnce(&mut Builder)) -> Kernel {
    boot_path(&built(config), change)
}

fn boot_path(path: &Path, change: impl FnOnce(&mut Builder)) -> Kernel {
    let image = Image::open(path).unwrap_or_else(|e| panic!("{e}"));
    let mut builder = Builder {
        ram: 64 << 20,
        ..Builder::default()
    };
    if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder.log = Some(Box::new(|text| eprint!("{text}")));
    }
    change(&mut builder);
    builder.boot(&image).unwrap_or_else(|e| panic!("{e}"))
}

pub fn syscall(k: &Kernel, nr: i64, args: &[u64]) -> i64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: the tests pass pointers of theirs, or bad ones on purpose.
    unsafe { k.syscall(nr, six) }
}

/// Sleep inside, less than a second.
pub fn nap(k: &Kernel, milliseconds: i64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: milliseconds * 1_000_000,
    };
    let args = [&raw const time as u64, 0];
    assert_eq!(syscall(k, libc::SYS_nanosleep, &args), 0);
}

/// A page with an unmapped one behind it. Never freed.
pub fn lonely_page() -> u64 {
    // SAFETY: a fresh mapping.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        libc::mprotect(p.add(4096), 4096, libc::PROT_NONE);
        p as u64
    }
}

fn ensure_proc(k: &Kernel) {
    syscall(k, libc::SYS_mkdir, &[c"/proc".as_ptr() as u64, 0o755]);
    let proc = c"proc".as_ptr() as u64;
    syscall(
        k,
        libc::SYS_mount,
        &[proc, c"/proc".as_ptr() as u64, proc, 0, 0],
    );
}

pub fn write_file(k: &Kernel, path: &CStr, data: &[u8]) -> i64 {
    if path.to_bytes().starts_with(b"/proc") {
        ensure_proc(k);
    }
    let flags = (libc::O_CREAT | libc::O_WRONLY) as u64;
    let open = [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags, 0o600];
    let fd = syscall(k, libc::SYS_openat, &open);
    assert!(fd >= 0, "{path:?}: {fd}");
    let n = syscall(
        k,
        libc::SYS_write,
        &[fd as u64, data.as_ptr() as u64, data.len() as u64],
    );
    syscall(k, libc::SYS_close, &[fd as u64]);
    n
}

pub fn read_file(k: &Kernel, path: &CStr) -> Vec<u8> {
    if path.to_bytes().starts_with(b"/proc") {
        ensure_proc(k);
    }
    let open = [libc::AT_FDCWD as u64, path.as_ptr() as u64, 0, 0];
    let fd = syscall(k, libc::SYS_openat, &open);
    assert!(fd >= 0, "{path:?}: {fd}");
    let mut data = vec![0; 65536];
    let n = syscall(
        k,
        libc::SYS_read,
        &[fd as u64, data.as_mut_ptr() as u64, data.len() as u64],
    );
    assert!(n >= 0, "{path:?}: {n}");
    syscall(k, libc::SYS_close, &[fd as u64]);
    data.truncate(n as usize);
    data
}
