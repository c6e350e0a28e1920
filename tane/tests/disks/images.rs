//! Promises about images and whoever else has them: reading changes nothing,
//! two writers never meet, and others read what was written.

use crate::common::{ext4, TempDir};
use crate::medium::{Medium, Random};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane::{DiskOptions, Kernel, MountOptions};

/// An image that a kernel left without unmounting: "f" is in its journal only.
fn dirty(dir: &TempDir) -> PathBuf {
    let image = ext4(dir, 32);
    let kernel = crate::scratch::boot();
    let (_disk, mount) = crate::common::mount(&kernel, &image);
    mount.write("f", vec![5; 200_000]).expect("writes");
    let file = mount.open("f").expect("opens");
    file.sync_all().expect("syncs");
    kernel.halt();
    let output = crate::medium::run(crate::medium::sbin("dumpe2fs").arg("-h").arg(&image));
    assert!(crate::medium::both(&output).contains("needs_recovery"));
    image
}

fn options(set: impl Fn(&mut DiskOptions) -> &mut DiskOptions) -> DiskOptions {
    let mut options = DiskOptions::new();
    set(&mut options);
    options
}

#[test]
fn reading_what_waits_in_the_journal_changes_no_byte_of_the_image() {
    let dir = TempDir::new();
    let image = dirty(&dir);
    let before = std::fs::read(&image).expect("the image");
    let times = std::fs::metadata(&image).and_then(|m| m.modified());
    let kernel = crate::scratch::boot();
    let snapshot = options(|o| o.snapshot(true));
    for read_only in [true, false] {
        let disk = kernel.open_disk(&image, &snapshot).expect("opens");
        let mut options = MountOptions::new();
        let mount = options.read_only(read_only).mount(&kernel, disk.device());
        let mount = mount.expect("replays the journal");
        assert!(mount.read("f").expect("was synced") == vec![5; 200_000]);
        mount.unmount().expect("unmounts");
        disk.remove().expect("goes away");
    }
    assert!(std::fs::read(&image).expect("the image") == before);
    let after = std::fs::metadata(&image).and_then(|m| m.modified());
    assert_eq!(after.expect("a time"), times.expect("a time"));
}

#[test]
fn a_read_only_disk_with_a_dirty_journal_says_what_it_lacks() {
    let dir = TempDir::new();
    let image = dirty(&dir);
    let before = std::fs::read(&image).expect("the image");
    let kernel = crate::scratch::boot();
    let read_only = options(|o| o.read_only(true));
    let disk = kernel.open_disk(&image, &read_only).expect("opens");
    let mut options = MountOptions::new();
    let refused = options.read_only(true).mount(&kernel, disk.device());
    let text = refused.expect_err("cannot replay").to_string();
    println!("{text}");
    assert!(text.contains("write access"), "{text}");
    // As it was before the journal; what Linux offers.
    let mount = options.flag("noload").mount(&kernel, disk.device());
    mount.expect("mounts").unmount().expect("unmounts");
    assert!(std::fs::read(&image).expect("the image") == before);
}

#[test]
fn the_image_of_a_halted_kernel_recovers() {
    let dir = TempDir::new();
    let image = dirty(&dir);
    let kernel = crate::scratch::boot();
    let (_disk, mount) = crate::common::mount(&kernel, &image);
    assert!(mount.read("f").expect("was synced") == vec![5; 200_000]);
    mount.unmount().expect("unmounts");
    crate::common::tool("e2fsck", &["-fn"], &image);
}

#[test]
fn a_second_writer_is_told_who_and_what_to_do() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let (one, two) = (crate::scratch::boot(), crate::scratch::boot());
    let writer = one.open_disk(&image, &DiskOptions::new()).expect("opens");
    let refused = |kernel: &Kernel, options: &DiskOptions| {
        let error = kernel.open_disk(&image, options).expect_err("in use");
        assert_eq!(error.errno(), libc::EBUSY, "{error}");
        let text = error.to_string();
        assert!(text.contains(image.to_str().expect("UTF-8")), "{text}");
        assert!(text.contains("in use by this program itself"), "{text}");
        text
    };
    for kernel in [&one, &two] {
        let text = refused(kernel, &DiskOptions::new());
        assert!(text.contains("close what has it open"), "{text}");
        refused(kernel, &options(|o| o.read_only(true)));
        refused(kernel, &options(|o| o.snapshot(true)));
    }
    writer.remove().expect("goes away");
    two.open_disk(&image, &DiskOptions::new()).expect("is free");
}

#[test]
fn several_readers_at_once_and_no_writer_beside_them() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let kernels = [crate::scratch::boot(), crate::scratch::boot()];
    let mut mounts = Vec::new();
    for kernel in &kernels {
        for how in [
            options(|o| o.read_only(true)),
            options(|o| o.snapshot(true)),
        ] {
            let disk = kernel.open_disk(&image, &how).expect("opens");
            let mut options = MountOptions::new();
            let mount = options.read_only(true).mount(kernel, disk.device());
            let mount = mount.expect("mounts");
            assert!(mount.exists("lost+found").expect("reads"));
            mounts.push(mount);
        }
        let writer = kernel.open_disk(&image, &DiskOptions::new());
        assert_eq!(writer.expect_err("in use").errno(), libc::EBUSY);
    }
}

#[test]
fn another_process_that_writes_is_seen() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let kernel = crate::scratch::boot();
    let disk = kernel.open_disk(&image, &DiskOptions::new());
    let mut flock = Command::new("flock");
    let status = flock.arg("-n").arg(&image).arg("true").status();
    assert!(!status.expect("flock(1)").success());
    drop(disk);
    let status = flock.status();
    assert!(status.expect("flock(1)").success());
}

#[test]
fn every_ext_round_trips_and_debugfs_reads_the_same_bytes() {
    let kernel = crate::scratch::boot();
    for kind in [
        "-t ext2 -b 1024",
        "-t ext2 -b 4096",
        "-t ext3 -b 1024 -J size=1",
        "-t ext3 -b 4096 -J size=4",
        "-t ext4 -b 1024 -J size=1",
        "-t ext4 -b 4096 -J size=4",
        "-t ext4 -b 4096 -J size=4 -O ^metadata_csum,^64bit",
        "-t ext4 -b 2048 -J size=2 -O inline_data",
        "-t ext4 -b 4096 -O ^has_journal",
    ] {
        let medium = Medium::mke2fs(24, kind);
        let mut random = Random(3);
        let files: Vec<(String, Vec<u8>)> = [0, 1, 59, 61, 4095, 4097, 70_001, 3_000_000]
            .map(|len| (format!("dir/of {len} bytes"), random.bytes(len)))
            .into();
        let mount = medium.mount(&kernel).expect(kind);
        println!("{kind}: mounted as {}", mount.fstype());
        mount.create_dir("dir").expect("mkdir");
        for (name, data) in &files {
            mount.write(name, data).expect(name);
        }
        // Holes, and a middle that is written last.
        let file = mount.create("holes").expect("create");
        file.write_all_at(b"end", 1_000_000).expect("write");
        file.write_all_at(b"middle", 500_000).expect("write");
        drop(file);
        mount.unmount().expect(kind);
        assert_eq!(medium.fault(), None, "{kind}");

        let mount = medium.mount(&kernel).expect(kind);
        for (name, data) in &files {
            assert!(mount.read(name).expect(name) == *data, "{kind}: {name}");
            let mut theirs = medium.debugfs_cat(&format!("/{name}"));
            if data.len() < theirs.len() {
                // debugfs takes all of an inode's 60 bytes for inline data.
                assert!(kind.contains("inline_data"), "{kind}: {name}");
                assert!(theirs[data.len()..].iter().all(|&b| b == 0));
                theirs.truncate(data.len());
            }
            assert!(theirs == *data, "{kind}: {name} by debugfs");
        }
        let holes = mount.read(Path::new("holes")).expect("reads");
        assert!(medium.debugfs_cat("/holes") == holes, "{kind}");
        assert_eq!(&holes[500_000..500_006], b"middle");
        assert_eq!(holes.iter().filter(|&&b| b != 0).count(), 9);
        mount.unmount().expect(kind);
        assert_eq!(medium.fault(), None, "{kind}");
    }
}

#[test]
fn what_debugfs_wrote_is_read() {
    let dir = TempDir::new();
    let kernel = crate::scratch::boot();
    let data = Random(4).bytes(300_000);
    let source = dir.path().join("source");
    std::fs::write(&source, &data).expect("a file");
    for kind in ["-t ext2 -b 1024", "-t ext3 -b 1024 -J size=1", "-t ext4"] {
        let medium = Medium::mke2fs(16, kind);
        let request = format!("write {} f", source.display());
        let mut debugfs = crate::medium::sbin("debugfs");
        let debugfs = debugfs.args(["-w", "-R", &request]);
        let output = crate::medium::run(debugfs.arg(medium.path()));
        assert!(output.status.success(), "{}", crate::medium::both(&output));
        let mount = medium.mount(&kernel).expect(kind);
        assert!(mount.read("f").expect(kind) == data, "{kind}");
    }
}
