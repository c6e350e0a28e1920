//! Promises for hosts that fail: an error below is an error above, the kernel
//! goes on, and the image can be repaired.

use crate::common::TempDir;
use crate::medium::Medium;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tane::images::{Failure, Fault, Operation};
use tane::{errno_of, DiskOptions, Kernel, Mount, MountOptions};

const EXT4: &str = "-t ext4 -b 4096 -J size=4";

fn faulty(kernel: &Kernel, medium: &Medium) -> (Arc<Fault>, Mount) {
    let fault = Arc::new(Fault::logging(medium.disk()));
    let disk = kernel.add_disk(fault.clone(), &DiskOptions::new());
    let device = disk.as_ref().expect("the disk").device();
    let mount = MountOptions::new().mount(kernel, device);
    (fault, mount.expect("mounts"))
}

/// Another image works, on the kernel that met the failure.
fn still_works(kernel: &Kernel) {
    assert!(kernel.is_alive(), "{}", kernel.last_words());
    let medium = Medium::mke2fs(8, "-t ext4");
    let mount = medium.mount(kernel).expect("mounts");
    mount.write("f", "content").expect("writes");
    mount.unmount().expect("unmounts");
    assert_eq!(medium.fault(), None);
}

/// The image after its host has recovered: mounted once more it is sound, or
/// e2fsck makes it so.
fn recoverable(kernel: &Kernel, medium: &Medium) {
    if let Ok(mount) = medium.mount(kernel) {
        let _ = mount.unmount();
    }
    assert!(medium.repair());
    assert_eq!(medium.fault(), None);
}

#[test]
fn an_unreadable_sector_is_an_error_of_the_read() {
    let kernel = crate::scratch::boot();
    let medium = Medium::mke2fs(16, EXT4);
    let mount = medium.mount(&kernel).expect("mounts");
    mount.write("f", vec![1; 300_000]).expect("writes");
    mount.unmount().expect("unmounts");

    let (fault, mount) = faulty(&kernel, &medium);
    let file = mount.open("f").expect("opens");
    fault.plan(|operation| match operation {
        Operation::Read { .. } => Some(Failure::errno(libc::EIO)),
        _ => None,
    });
    let mut buffer = [0; 4096];
    let error = file.read_at(&mut buffer, 0).expect_err("unreadable");
    assert_eq!(errno_of(&error), Some(libc::EIO), "{error}");
    assert_eq!(mount.read("f").expect_err("unreadable").errno(), libc::EIO);
    // It was the disk, not the file.
    fault.plan(|_| None);
    assert!(mount.read("f").expect("readable") == vec![1; 300_000]);
    drop(file);
    mount.unmount().expect("unmounts");
    still_works(&kernel);
    assert_eq!(medium.fault(), None);
}

#[test]
fn a_failed_write_is_an_error_of_fsync_and_of_unmount() {
    for errno in [libc::EIO, libc::ENOSPC] {
        let kernel = crate::scratch::boot();
        let medium = Medium::mke2fs(16, EXT4);
        let (fault, mount) = faulty(&kernel, &medium);
        mount.write("before", "kept").expect("writes");
        mount.sync().expect("syncs");
        fault.plan(move |operation| match operation {
            Operation::Write { .. } => Some(Failure::errno(errno)),
            _ => None,
        });
        let mut file = mount.create("f").expect("in memory so far");
        file.write_all(&[1; 100_000]).expect("in memory so far");
        let error = file.sync_all().expect_err("nothing was written");
        assert!(
            [libc::EIO, libc::ENOSPC].contains(&error.errno()),
            "{error}"
        );
        drop(file);
        let error = mount.unmount().expect_err("not all was written");
        println!("unmount after {errno}: {error}");
        still_works(&kernel);
        fault.plan(|_| None);
        recoverable(&kernel, &medium);
        let mount = medium.mount(&kernel).expect("mounts");
        assert_eq!(mount.read("before").expect("kept"), b"kept");
    }
}

#[test]
fn a_failed_write_nobody_waited_for_is_an_error_of_unmount() {
    let kernel = crate::scratch::boot();
    let medium = Medium::mke2fs(16, EXT4);
    let (fault, mount) = faulty(&kernel, &medium);
    let mut file = mount.create("f").expect("create");
    file.write_all(&[1; 1 << 20]).expect("in memory so far");
    drop(file);
    fault.plan(|operation| match operation {
        Operation::Write { len, .. } if len > 8192 => Some(Failure::errno(libc::EIO)),
        _ => None,
    });
    mount.unmount().expect_err("a write failed");
    fault.plan(|_| None);
    still_works(&kernel);
    recoverable(&kernel, &medium);
}

#[test]
fn a_torn_write_is_an_error() {
    let kernel = crate::scratch::boot();
    let medium = Medium::mke2fs(16, EXT4);
    let (fault, mount) = faulty(&kernel, &medium);
    fault.plan(|operation| match operation {
        Operation::Write { len, .. } if len > 8192 => Some(Failure::Torn {
            bytes: 4096,
            error: std::io::Error::from_raw_os_error(libc::EIO),
        }),
        _ => None,
    });
    let mut file = mount.create("f").expect("create");
    file.write_all(&[1; 100_000]).expect("in memory so far");
    file.sync_all().expect_err("torn");
    drop(file);
    let _ = mount.unmount();
    fault.plan(|_| None);
    still_works(&kernel);
    recoverable(&kernel, &medium);
}

#[test]
fn a_failed_flush_is_an_error_of_fsync() {
    let kernel = crate::scratch::boot();
    let medium = Medium::mke2fs(16, EXT4);
    let (fault, mount) = faulty(&kernel, &medium);
    let mut file = mount.create("f").expect("create");
    file.write_all(&[1; 100_000]).expect("in memory so far");
    fault.plan(|operation| match operation {
        Operation::Flush => Some(Failure::errno(libc::EIO)),
        _ => None,
    });
    let error = file.sync_all().expect_err("not durable");
    assert_eq!(error.errno(), libc::EIO, "{error}");
    drop(file);
    let _ = mount.unmount();
    fault.plan(|_| None);
    still_works(&kernel);
    recoverable(&kernel, &medium);
}

/// Every tenth operation fails, whichever it is: calls may fail, never lie.
#[test]
fn what_fsync_says_is_durable_is_there_after_random_errors() {
    for nth in [3, 7, 13, 29] {
        let kernel = crate::scratch::boot();
        let medium = Medium::mke2fs(16, EXT4);
        let (fault, mount) = faulty(&kernel, &medium);
        let mut count = 0;
        fault.plan(move |_| {
            count += 1;
            (count % nth == 0).then(|| Failure::errno(libc::EIO))
        });
        let mut durable = Vec::new();
        for i in 0..40u8 {
            let name = format!("f{i}");
            let Ok(mut file) = mount.create(&name) else {
                continue;
            };
            let written = file.write_all(&[i; 20_000]).is_ok();
            if written && file.sync_all().is_ok() {
                durable.push((name, vec![i; 20_000]));
            }
        }
        let unmounted = mount.unmount();
        println!(
            "every {nth}th: {} of 40 durable, {unmounted:?}",
            durable.len()
        );
        fault.plan(|_| None);
        still_works(&kernel);
        let mount = medium.mount(&kernel).expect("mounts");
        for (name, content) in durable {
            assert!(mount.read(&name).expect("durable") == content, "{name}");
        }
        mount.unmount().expect("unmounts");
        recoverable(&kernel, &medium);
    }
}

/// A small file system of the host; only root can make one.
struct SmallHost(TempDir);

impl SmallHost {
    #[track_caller]
    fn new() -> Option<SmallHost> {
        let dir = TempDir::new();
        let at = CString::new(dir.path().as_os_str().as_bytes()).expect("a path");
        let options = c"size=4m".as_ptr().cast();
        // SAFETY: strings that end.
        let failed = unsafe {
            let tmpfs = c"tmpfs".as_ptr();
            libc::mount(tmpfs, at.as_ptr(), tmpfs, 0, options)
        };
        if failed != 0 {
            let error = std::io::Error::last_os_error();
            tane_test_support::skip(format!("no tmpfs of its own: {error}"));
            return None;
        }
        Some(SmallHost(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let at = CString::new(self.path().as_os_str().as_bytes()).expect("a path");
        // SAFETY: a string that ends.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_host_is_an_error_of_fsync() {
    let Some(host) = SmallHost::new() else { return };
    let kernel = crate::scratch::boot();
    // Sparse, and larger than what may be stored.
    let image = host.path().join("image");
    let medium = Medium::mke2fs(32, "-t ext4 -b 4096 -J size=4");
    let data = medium.bytes();
    let file = std::fs::File::create(&image).expect("an image");
    file.set_len(data.len() as u64).expect("its size");
    for (i, block) in data.chunks(4096).enumerate() {
        if block.iter().any(|&b| b != 0) {
            use std::os::unix::fs::FileExt;
            file.write_all_at(block, i as u64 * 4096).expect("fits");
        }
    }
    drop(file);
    let (disk, mount) = crate::common::mount(&kernel, &image);
    let mut file = mount.create("f").expect("create");
    let written = file.write_all(&vec![1; 8 << 20]);
    let synced = file.sync_all();
    assert!(written.is_err() || synced.is_err(), "8 MiB fit into 4");
    println!("write: {written:?}; fsync: {synced:?}");
    drop(file);
    println!("unmount: {:?}", mount.unmount());
    disk.remove().expect("goes away");
    still_works(&kernel);
    let left = Medium::of(&std::fs::read(&image).expect("the image"));
    recoverable(&kernel, &left);
}
