//! Disks of a running kernel: `TANE_TEST_IMAGE`, or the tiny image that
//! `make kernel` leaves in build/.

use std::path::PathBuf;
use std::sync::Arc;
use tane_devices::{AttachError, Attached, Block, BlockOptions};
use tane_host::{abi, Builder, Image, Kernel};
use tane_images::{Access, Backend, Overlay, Ram, Raw};

fn boot() -> Kernel {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/images/tane-tiny.elf");
    let path = std::env::var_os("TANE_TEST_IMAGE").map_or(built.into(), PathBuf::from);
    let image = Image::open(&path).unwrap_or_else(|e| panic!("{e}"));
    let builder = Builder {
        ram: 64 << 20,
        ..Builder::default()
    };
    let kernel = builder.boot(&image).unwrap_or_else(|e| panic!("{e}"));
    for (kind, at) in [(c"devtmpfs", c"/dev"), (c"sysfs", c"/sys")] {
        let (kind, at) = (kind.as_ptr() as u64, at.as_ptr() as u64);
        call(&kernel, libc::SYS_mkdir, &[at, 0o755]);
        let error = call(&kernel, libc::SYS_mount, &[kind, at, kind, 0, 0]);
        assert!(error == 0 || error == -i64::from(libc::EBUSY), "{error}");
    }
    kernel
}

fn call(kernel: &Kernel, nr: i64, args: &[u64]) -> i64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: the pointers are the tests' own.
    unsafe { kernel.syscall(nr, six) }
}

fn open(kernel: &Kernel, path: &std::ffi::CStr, flags: i32) -> i64 {
    call(
        kernel,
        libc::SYS_open,
        &[path.as_ptr() as u64, flags as u64, 0],
    )
}

fn attach(kernel: &Kernel, backend: Arc<dyn Backend>) -> Attached {
    Attached::new(kernel, Block::new(backend, BlockOptions::default())).unwrap()
}

fn ram(size: u64) -> Arc<Ram> {
    Arc::new(Ram::new(size).unwrap())
}

fn pread(kernel: &Kernel, fd: i64, bytes: &mut [u8], offset: u64) -> i64 {
    let (at, len) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
    call(kernel, libc::SYS_pread64, &[fd as u64, at, len, offset])
}

fn pwrite(kernel: &Kernel, fd: i64, bytes: &[u8], offset: u64) -> i64 {
    let (at, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
    call(kernel, libc::SYS_pwrite64, &[fd as u64, at, len, offset])
}

#[test]
fn what_the_kernel_writes_and_syncs_is_in_the_backend() {
    let kernel = boot();
    let disk = ram(4 << 20);
    let attached = attach(&kernel, disk.clone());
    let fd = open(&kernel, c"/dev/vda", libc::O_RDWR);
    assert!(fd >= 0, "{fd}");
    let data: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    assert_eq!(pwrite(&kernel, fd, &data, 4096), 1 << 20);
    assert_eq!(call(&kernel, libc::SYS_fsync, &[fd as u64]), 0);
    let mut bytes = vec![0; 1 << 20];
    disk.read(&[tane_images::buffer_mut(&mut bytes)], 4096)
        .unwrap();
    assert!(bytes == data);
    let flushes = &attached.block().counters().flushes;
    assert!(flushes.load(std::sync::atomic::Ordering::Relaxed) > 0);
    call(&kernel, libc::SYS_close, &[fd as u64]);
}

#[test]
fn a_size_that_changes_is_the_kernels_size() {
    let kernel = boot();
    let path = std::env::temp_dir().join(format!("tane-resize-{}", std::process::id()));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let raw = Arc::new(Raw::open(&path, Access::default()).unwrap());
    let attached = attach(&kernel, Arc::new(Overlay::new(raw.clone())));
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(3 << 20)
        .unwrap();
    raw.measure().unwrap();
    attached.resized();
    let fd = open(&kernel, c"/dev/vda", libc::O_RDONLY);
    // The driver works on it in the background.
    let end = || call(&kernel, libc::SYS_lseek, &[fd as u64, 0, 2]);
    for _ in 0..500 {
        if end() == 3 << 20 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(end(), 3 << 20);
    call(&kernel, libc::SYS_close, &[fd as u64]);
    drop(attached);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn slots_are_all_used_and_come_back() {
    let kernel = boot();
    for _ in 0..3 {
        let disks: Vec<_> = (0..abi::MAX_DEVICES)
            .map(|_| attach(&kernel, ram(1 << 20)))
            .collect();
        let mut slots: Vec<_> = disks.iter().map(Attached::slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), abi::MAX_DEVICES);
        let one_more = Block::new(ram(1 << 20), BlockOptions::default());
        assert!(matches!(
            Attached::new(&kernel, one_more),
            Err(AttachError::Full)
        ));
    }
}

#[test]
fn disks_come_and_go_from_several_threads_while_they_are_read() {
    let kernel = boot();
    let stays = attach(&kernel, ram(1 << 20));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..25 {
                    drop(attach(&kernel, ram(1 << 20)));
                }
            });
        }
        let fd = open(&kernel, c"/dev/vda", libc::O_RDWR);
        for turn in 0..200u64 {
            let block = [turn as u8; 4096];
            assert_eq!(pwrite(&kernel, fd, &block, turn % 200 * 4096), 4096);
            assert_eq!(call(&kernel, libc::SYS_fsync, &[fd as u64]), 0);
        }
        call(&kernel, libc::SYS_close, &[fd as u64]);
    });
    assert_eq!(stays.block().last_error(), None);
}

#[test]
fn a_disk_that_is_open_can_be_removed_and_answers_with_errors() {
    let kernel = boot();
    let attached = attach(&kernel, ram(1 << 20));
    let fd = open(&kernel, c"/dev/vda", libc::O_RDONLY);
    let mut bytes = vec![0; 4096];
    assert_eq!(pread(&kernel, fd, &mut bytes, 0), 4096);
    drop(attached);
    assert!(pread(&kernel, fd, &mut bytes, 512 << 10) <= 0);
    call(&kernel, libc::SYS_close, &[fd as u64]);
    let again = attach(&kernel, ram(1 << 20));
    assert_eq!(again.slot(), 0);
}

#[test]
fn a_kernel_that_is_gone_takes_no_disk_and_lets_its_disks_go() {
    let kernel = boot();
    let attached = attach(&kernel, ram(1 << 20));
    kernel.halt();
    drop(attached);
    let block = Block::new(ram(1 << 20), BlockOptions::default());
    assert!(matches!(
        Attached::new(&kernel, block),
        Err(AttachError::Dead | AttachError::Full)
    ));
}
