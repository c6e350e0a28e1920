//! Promises about disks and mounts.

use crate::common::{blank, ext4, kernel, mount, tool, TempDir};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tane::images::{Callback, Callbacks, Ram};
use tane::{DiskOptions, Kernel, MountOptions};

#[test]
fn what_was_written_is_there_after_the_next_boot() {
    let dir = TempDir::new();
    let image = ext4(&dir, 32);
    for i in 0..3 {
        let Some(kernel) = kernel() else { return };
        let (_disk, mount) = mount(&kernel, &image);
        for earlier in 0..i {
            let content = mount.read(format!("file{earlier}")).unwrap();
            assert_eq!(content, vec![earlier; 100_000]);
        }
        mount.write(format!("file{i}"), vec![i; 100_000]).unwrap();
        mount.unmount().unwrap();
    }
    tool("e2fsck", &["-fn"], &image);
}

#[test]
fn dropping_everything_loses_nothing() {
    let dir = TempDir::new();
    let image = ext4(&dir, 32);
    {
        let Some(kernel) = kernel() else { return };
        let (_disk, mount) = mount(&kernel, &image);
        mount.write("f", "kept").unwrap();
    }
    tool("e2fsck", &["-fn"], &image);
    let Some(kernel) = kernel() else { return };
    let (_disk, mount) = mount(&kernel, &image);
    assert_eq!(mount.read("f").unwrap(), b"kept");
}

#[test]
fn a_mount_keeps_its_disk() {
    let dir = TempDir::new();
    let image = ext4(&dir, 32);
    let Some(kernel) = kernel() else { return };
    let (disk, mount) = mount(&kernel, &image);
    assert_eq!(disk.remove().unwrap_err().errno(), libc::EBUSY);
    mount.write("f", "x").unwrap();
    mount.unmount().unwrap();
    let left = kernel.tree("/sys/block").unwrap();
    assert!(!left.exists("vda").unwrap());
    tool("e2fsck", &["-fn"], &image);
}

#[test]
fn unmount_says_that_files_are_open_and_loses_nothing() {
    let dir = TempDir::new();
    let image = ext4(&dir, 32);
    let Some(kernel) = kernel() else { return };
    let (_disk, mount) = mount(&kernel, &image);
    let mut file = mount.create("f").unwrap();
    file.write_all(b"1").unwrap();
    let error = mount.unmount().unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(error.to_string().contains("still open"), "{error}");
    file.write_all(b"2").unwrap();
    file.sync_all().unwrap();
    drop(file);
    tool("e2fsck", &["-fn"], &image);
}

#[test]
fn a_read_only_disk_and_a_snapshot_leave_the_image_alone() {
    let dir = TempDir::new();
    let image = ext4(&dir, 32);
    let before = std::fs::read(&image).unwrap();
    let Some(kernel) = kernel() else { return };

    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.read_only(true)).unwrap();
    assert!(disk.read_only().unwrap());
    let refused = MountOptions::new().mount(&kernel, disk.device());
    let refused = refused.unwrap_err();
    assert_eq!(refused.errno(), libc::EACCES);
    assert!(
        refused.to_string().contains("the disk is read-only"),
        "{refused}"
    );
    let mut read_only = MountOptions::new();
    let mount = read_only
        .read_only(true)
        .mount(&kernel, disk.device())
        .unwrap();
    assert_eq!(mount.create("f").unwrap_err().errno(), libc::EROFS);
    assert!(mount.statfs().unwrap().read_only);
    mount.unmount().unwrap();
    disk.remove().unwrap();

    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.snapshot(true)).unwrap();
    let mount = MountOptions::new().mount(&kernel, disk.device()).unwrap();
    mount.write("f", vec![1; 1 << 20]).unwrap();
    mount.sync().unwrap();
    assert_eq!(mount.read("f").unwrap().len(), 1 << 20);
    mount.unmount().unwrap();
    disk.remove().unwrap();
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn a_failed_mount_says_why() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let image = blank(&dir, "blank", 16);
    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    let auto = MountOptions::new().mount(&kernel, disk.device());
    assert_eq!(auto.unwrap_err().errno(), libc::ENOMEDIUM);
    let mut options = MountOptions::new();
    let error = options
        .fstype("ext4")
        .mount(&kernel, disk.device())
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.errno(), libc::EINVAL, "{text}");
    assert!(text.contains("as ext4"), "{text}");
    assert!(text.contains("Can't find ext4 filesystem"), "{text}");

    let mut options = MountOptions::new();
    let error = options
        .fstype("nofs")
        .mount(&kernel, disk.device())
        .unwrap_err();
    assert_eq!(error.errno(), libc::ENODEV);
    assert!(error.to_string().contains("type nofs"), "{error}");
    disk.remove().unwrap();

    let good = ext4(&dir, 16);
    let disk = kernel.open_disk(&good, &DiskOptions::new()).unwrap();
    let mut options = MountOptions::new();
    let error = options
        .option("data", "nonsense")
        .mount(&kernel, disk.device());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("data"), "{text}");
}

#[test]
fn an_image_that_cannot_be_opened_is_an_error_with_a_number() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let open = |path: &Path| kernel.open_disk(path, &DiskOptions::new()).unwrap_err();
    assert_eq!(open(&dir.path().join("none")).errno(), libc::ENOENT);
    assert_eq!(open(dir.path()).errno(), libc::EISDIR);
}

#[test]
fn a_disk_of_memory_and_several_disks_at_once() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let mut disks = Vec::new();
    for _ in 0..4 {
        let ram = Arc::new(Ram::new(8 << 20).unwrap());
        disks.push(kernel.add_disk(ram, &DiskOptions::new()).unwrap());
    }
    let names: Vec<_> = disks.iter().map(|disk| disk.device_name()).collect();
    assert_eq!(names, ["vda", "vdb", "vdc", "vdd"]);
    disks.remove(1).remove().unwrap();
    let image = ext4(&dir, 16);
    let (disk, mount) = mount(&kernel, &image);
    assert_eq!(disk.slot(), 1);
    assert!(mount.exists("lost+found").unwrap());
}

#[test]
fn device_nodes_of_an_image_open_nothing() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let Some(kernel) = kernel() else { return };
    let (disk, mounted) = mount(&kernel, &image);
    let rdev = kernel.tree("/dev").unwrap().metadata("vda").unwrap().rdev();
    mounted.mknod("hole", libc::S_IFBLK | 0o666, rdev).unwrap();
    assert_eq!(mounted.open("hole").unwrap_err().errno(), libc::EACCES);
    mounted.unmount().unwrap();
    let mut options = MountOptions::new();
    let mounted = options.devices(true).mount(&kernel, disk.device()).unwrap();
    assert!(mounted.open("hole").is_ok());
}

#[test]
fn the_hosts_own_linux_mounts_for_those_who_may() {
    let kernel = Kernel::host();
    let mount = match MountOptions::new().fstype("tmpfs").mount(&kernel, "none") {
        Err(error) if error.errno() == libc::EPERM => return,
        other => other.unwrap(),
    };
    mount.write("f", "x").unwrap();
    let place = mount.mount_point().to_owned();
    assert_eq!(std::fs::read(place.join("f")).unwrap(), b"x");
    mount.unmount().unwrap();
    drop(kernel);
    assert!(!place.parent().unwrap().exists());
}

#[test]
fn a_disk_that_refuses_writes_shows_at_the_sync() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let content = Arc::new(Mutex::new(std::fs::read(&image).unwrap()));
    let Some(kernel) = kernel() else { return };
    let broken = Arc::new(AtomicBool::new(false));
    let (reading, writing, refuse) = (content.clone(), content.clone(), broken.clone());
    let backend = Callback::new(Callbacks {
        size: 16 << 20,
        read: Box::new(move |to, at| {
            let at = at as usize;
            to.copy_from_slice(&reading.lock().unwrap()[at..at + to.len()]);
            Ok(())
        }),
        write: Some(Box::new(move |from, at| {
            if refuse.load(Ordering::SeqCst) {
                return Err(std::io::Error::from_raw_os_error(libc::EIO));
            }
            let at = at as usize;
            writing.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
            Ok(())
        })),
        flush: None,
        discard: None,
    });
    let options = DiskOptions::new();
    let disk = kernel.add_disk(Arc::new(backend), &options).unwrap();
    let mount = MountOptions::new().mount(&kernel, disk.device()).unwrap();
    mount.write("before", "good").unwrap();
    mount.sync().unwrap();
    let file = mount.create("after").unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    broken.store(true, Ordering::SeqCst);
    assert_eq!(file.sync_all().unwrap_err().errno(), libc::EIO);
    drop(file);
    assert_eq!(mount.unmount().unwrap_err().errno(), libc::EIO);
    disk.remove().unwrap();
}
