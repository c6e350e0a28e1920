//! Promises about kernels, disks and mounts.

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
fn partitions_are_found_with_numbers_names_and_places() {
    let dir = TempDir::new();
    let image = blank(&dir, "disk", 24);
    let Some(kernel) = kernel() else { return };
    // Two primary partitions: 1 MiB at 1 MiB, and number 3 with 16 MiB at 4.
    let mut mbr = [0u8; 512];
    for (entry, start, len) in [(0, 2048u32, 2048u32), (2, 8192, 32768)] {
        let at = 446 + 16 * entry;
        mbr[at + 4] = 0x83;
        mbr[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        mbr[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    mbr[440..444].copy_from_slice(&0xdead_0001u32.to_le_bytes());
    mbr[510..].copy_from_slice(b"\x55\xaa");
    let part = ext4(&dir, 16);
    let mut content = std::fs::read(&image).unwrap();
    content[..512].copy_from_slice(&mbr);
    content[4 << 20..20 << 20].copy_from_slice(&std::fs::read(part).unwrap());
    std::fs::write(&image, content).unwrap();

    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    assert_eq!(disk.size().unwrap(), 24 << 20);
    assert_eq!(disk.probe().unwrap(), None);
    let partitions = disk.partitions().unwrap();
    let places: Vec<_> = partitions
        .iter()
        .map(|p| (p.number, p.start, p.size))
        .collect();
    assert_eq!(places, [(1, 1 << 20, 1 << 20), (3, 4 << 20, 16 << 20)]);
    assert_eq!(partitions[1].device(), Path::new("/dev/vda3"));
    assert_eq!(partitions[1].uuid.as_deref(), Some("dead0001-03"));
    assert_eq!(partitions[1].kind.as_deref(), Some("0x83"));
    let found = kernel.probe(partitions[1].device()).unwrap().unwrap();
    assert_eq!(found.fstype, "ext4");
    assert_eq!(found.label.as_deref(), Some("test"));
    let mount = MountOptions::new()
        .mount(&kernel, partitions[1].device())
        .unwrap();
    mount.write("f", "x").unwrap();
    drop(disk);
    mount.unmount().unwrap();
    assert!(!kernel.tree("/dev").unwrap().exists("vda3").unwrap());
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
fn kernels_do_not_mix() {
    let dir = TempDir::new();
    let (Some(one), Some(two)) = (kernel(), kernel()) else {
        return;
    };
    let image = ext4(&dir, 16);
    let (_disk, mount) = mount(&one, &image);
    mount.write("f", "").unwrap();
    let here = mount.open_dir("/").unwrap();
    let there = two.tree("/").unwrap().open_dir("/").unwrap();
    let error = here.rename("f", &there, "f", 0).unwrap_err();
    assert_eq!(error.errno(), libc::EXDEV);
}

#[test]
fn a_halted_kernel_answers_eshutdown() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let Some(kernel) = kernel() else { return };
    let (disk, mount) = mount(&kernel, &image);
    let file = mount.create("f").unwrap();
    assert!(kernel.is_alive());
    kernel.halt();
    assert!(!kernel.is_alive());
    assert_eq!(file.sync_all().unwrap_err().errno(), libc::ESHUTDOWN);
    let error = mount.open("f").unwrap_err();
    assert_eq!(error.errno(), libc::ESHUTDOWN);
    assert_eq!(error.to_string(), "open f: the kernel has ended");
    assert_eq!(mount.unmount().unwrap_err().errno(), libc::ESHUTDOWN);
    drop((file, disk));
    assert!(kernel.dmesg().contains("Linux version"));
}

#[test]
fn a_kernel_says_what_it_knows() {
    let Some(kernel) = kernel() else { return };
    assert!(kernel.filesystems(true).unwrap().contains(&"ext4".into()));
    assert!(kernel.filesystems(false).unwrap().contains(&"tmpfs".into()));
    let mount = MountOptions::new()
        .fstype("tmpfs")
        .mount(&kernel, "none")
        .unwrap();
    mount.write("f", "in memory").unwrap();
    assert_eq!(mount.fstype(), "tmpfs");
    assert!(kernel
        .tree("/")
        .unwrap()
        .exists(mount.mount_point().join("f"))
        .unwrap());
    mount.unmount().unwrap();
}

#[test]
fn an_image_that_is_none_is_refused_with_a_reason() {
    let dir = TempDir::new();
    let boot = |path: &Path| Kernel::builder().image(path).boot().unwrap_err();
    let none = boot(&dir.path().join("none"));
    assert_eq!(none.errno(), libc::ENOENT, "{none}");
    let other = dir.path().join("other");
    std::fs::write(&other, vec![b'x'; 10_000]).unwrap();
    let other = boot(&other);
    assert_eq!(other.errno(), libc::ENOEXEC, "{other}");
    assert!(
        other.to_string().contains("not a tane kernel image"),
        "{other}"
    );
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    if kernel().is_none() {
        return;
    }
    let error = Kernel::builder().memory(1 << 20).boot().unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
    let error = Kernel::builder()
        .cmdline(&"x".repeat(5000))
        .boot()
        .unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL, "{error}");
}

#[test]
fn the_log_is_handed_out_as_it_is_written() {
    if kernel().is_none() {
        return;
    }
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    let kernel = Kernel::builder()
        .cmdline("loglevel=7")
        .nokaslr()
        .log(move |piece| sink.lock().unwrap().push_str(piece))
        .boot()
        .unwrap();
    assert!(text.lock().unwrap().contains("Linux version"));
    assert!(kernel.dmesg().contains("nokaslr"));
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
fn a_gpt_names_and_identifies_its_partitions() {
    let dir = TempDir::new();
    let image = blank(&dir, "disk", 8);
    let Some(kernel) = kernel() else { return };
    std::fs::write(&image, gpt(8 << 11)).unwrap();
    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    let partitions = disk.partitions().unwrap();
    assert_eq!(partitions.len(), 1, "{}", kernel.dmesg());
    let partition = &partitions[0];
    assert_eq!((partition.number, partition.start), (2, 1 << 20));
    assert_eq!(partition.size, 1 << 20);
    assert_eq!(partition.name.as_deref(), Some("data"));
    let uuid = "33221100-5544-7766-8899-aabbccddeeff";
    assert_eq!(partition.uuid.as_deref(), Some(uuid));
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    assert_eq!(partition.kind.as_deref(), Some(linux));
}

/// A disk of this many sectors whose second partition is 1 MiB at 1 MiB.
fn gpt(sectors: u64) -> Vec<u8> {
    let mut entries = vec![0; 128 * 128];
    let entry = &mut entries[128..256];
    entry[..16].copy_from_slice(&[
        0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d,
        0xe4,
    ]);
    for (i, byte) in entry[16..32].iter_mut().enumerate() {
        *byte = i as u8 * 0x11;
    }
    entry[32..40].copy_from_slice(&2048u64.to_le_bytes());
    entry[40..48].copy_from_slice(&4095u64.to_le_bytes());
    for (i, unit) in "data".encode_utf16().enumerate() {
        entry[56 + 2 * i..58 + 2 * i].copy_from_slice(&unit.to_le_bytes());
    }
    let mut header = vec![0; 512];
    header[..16].copy_from_slice(b"EFI PART\0\0\x01\0\x5c\0\0\0");
    for (at, word) in [(24, 1), (32, sectors - 1), (40, 34), (48, sectors - 34)] {
        header[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    header[56] = 1; // the disk's GUID
    header[72] = 2;
    header[80] = 128;
    header[84] = 128;
    header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
    let sum = crc32(&header[..92]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());

    let mut disk = vec![0; sectors as usize * 512];
    disk[446 + 4] = 0xee;
    disk[446 + 8] = 1;
    disk[446 + 12..446 + 16].copy_from_slice(&(sectors as u32 - 1).to_le_bytes());
    disk[510..512].copy_from_slice(b"\x55\xaa");
    disk[512..1024].copy_from_slice(&header);
    disk[1024..1024 + entries.len()].copy_from_slice(&entries);
    disk
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

#[test]
fn a_panic_ends_the_kernel_and_not_the_process() {
    let Some(kernel) = kernel() else { return };
    let proc = kernel.tree("/proc").unwrap();
    let mut options = tane::OpenOptions::new();
    let trigger = options.write(true).open(&proc, "sysrq-trigger").unwrap();
    let error = (&trigger).write_all(b"c").unwrap_err();
    assert_eq!(tane::errno_of(&error), Some(libc::ESHUTDOWN));
    assert!(!kernel.is_alive());
    let words = kernel.last_words();
    assert!(words.contains("sysrq"), "{words}");
    drop((trigger, proc, kernel));
    assert!(crate::common::kernel().is_some_and(|next| next.is_alive()));
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
