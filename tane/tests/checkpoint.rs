//! Promises about checkpoints of a kernel with disks: what is mounted goes back, and the
//! disks with it.

mod common;
mod model;

use common::{blank, ext4, kernel, tool, TempDir};
use model::{drop_caches, operate, same, Model};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use tane::images::{buffer, buffer_mut, Backend, Ram};
use tane::{Disk, DiskOptions, Kernel, MapOptions, Mount, MountOptions, OpenOptions};
use tane_test_support::Dice;

const PIECE: usize = 1 << 16;

fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A disk of memory with what is in this file.
fn ram(image: &Path) -> Arc<Ram> {
    let file = File::open(image).expect("the image");
    let len = file.metadata().expect("its length").len();
    let ram = Ram::new(len).expect("a disk");
    let mut piece = vec![0; PIECE];
    for at in (0..len).step_by(PIECE) {
        file.read_exact_at(&mut piece, at).expect("reads");
        if !is_empty(&piece) {
            ram.write(&[buffer(&piece)], at).expect("writes");
        }
    }
    Arc::new(ram)
}

/// What the disk holds, as a file.
fn dump(disk: &dyn Backend, to: &Path) {
    let file = File::create(to).expect("a file");
    file.set_len(disk.size()).expect("its size");
    let mut piece = vec![0; PIECE];
    for at in (0..disk.size()).step_by(PIECE) {
        disk.read(&[buffer_mut(&mut piece)], at).expect("reads");
        if !is_empty(&piece) {
            file.write_all_at(&piece, at).expect("writes");
        }
    }
}

fn mount(kernel: &Kernel, disk: &Disk) -> Mount {
    let mount = MountOptions::new().mount(kernel, disk.device());
    mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()))
}

/// A mounted ext4 on a disk of memory.
fn mounted(kernel: &Kernel, dir: &TempDir) -> (Arc<Ram>, Disk, Mount) {
    let ram = ram(&ext4(dir, 64));
    let disk = kernel.add_disk(ram.clone(), &DiskOptions::new());
    let disk = disk.expect("is added");
    let mount = mount(kernel, &disk);
    (ram, disk, mount)
}

fn refused<T: std::fmt::Debug>(result: tane::Result<T>, errno: i32, words: &str) {
    let error = result.expect_err("is refused");
    assert_eq!(error.errno(), errno, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

/// Random operations, a checkpoint, more operations, and back, again and again; with one
/// checkpoint in another now and then. Then the file system is unmounted and checked by
/// its own tool.
fn random_operations(kernel: &Kernel, fstype: &str, mib: u64, make: &[&str], check: &[&str]) {
    let dir = TempDir::new();
    let image = blank(&dir, "image", mib);
    tool(make[0], &make[1..], &image);
    let ram = ram(&image);
    let disk = kernel.add_disk(ram.clone(), &DiskOptions::new());
    let disk = disk.expect("is added");
    let mount = mount(kernel, &disk);
    let (mut model, mut dice) = (Model::new(), Dice(mib));
    for round in 0..12 {
        for _ in 0..dice.roll(40) {
            operate(&mount, &mut model, &mut dice);
        }
        // So that there is something on the disk to go back to.
        mount.sync().expect("syncs");
        let checkpoint = kernel.checkpoint().expect("a checkpoint");
        let then = model.clone();
        for _ in 0..1 + dice.roll(3) {
            for _ in 0..dice.roll(60) {
                operate(&mount, &mut model, &mut dice);
            }
            if dice.roll(2) == 0 {
                let (inner, at_inner) = (kernel.checkpoint().expect("one more"), model.clone());
                for _ in 0..20 {
                    operate(&mount, &mut model, &mut dice);
                }
                if dice.roll(2) == 0 {
                    kernel.rollback(&inner).expect("goes back a little");
                    model = at_inner;
                    same(&mount, &model);
                }
            }
            mount.sync().expect("syncs");
            kernel
                .rollback(&checkpoint)
                .unwrap_or_else(|e| panic!("{fstype} {round}: {e}"));
            model.clone_from(&then);
            drop_caches(kernel);
            same(&mount, &model);
        }
    }
    for _ in 0..40 {
        operate(&mount, &mut model, &mut dice);
    }
    same(&mount, &model);
    mount.unmount().expect("unmounts");
    assert!(disk.first_error().is_none());
    let dumped = dir.path().join("dump");
    dump(&*ram, &dumped);
    tool(check[0], &check[1..], &dumped);
    disk.remove().expect("goes");
    assert!(kernel.is_alive());
}

#[test]
fn an_ext4_goes_back_to_what_it_was() {
    let Some(kernel) = kernel() else { return };
    random_operations(
        &kernel,
        "ext4",
        64,
        &["mkfs.ext4", "-q", "-F"],
        &["e2fsck", "-fn"],
    );
}

#[test]
fn an_xfs_goes_back_to_what_it_was() {
    let Some(kernel) = kernel() else { return };
    random_operations(
        &kernel,
        "xfs",
        300,
        &["mkfs.xfs", "-q"],
        &["xfs_repair", "-n"],
    );
}

#[test]
fn a_btrfs_goes_back_to_what_it_was() {
    let Some(kernel) = kernel() else { return };
    random_operations(
        &kernel,
        "btrfs",
        160,
        &["mkfs.btrfs", "-q"],
        &["btrfs", "check"],
    );
}

#[test]
fn an_ext4_of_a_kernel_with_several_cpus_goes_back() {
    if kernel().is_none() {
        return;
    }
    let kernel = Kernel::builder().cpus(3).boot().expect("boots");
    random_operations(
        &kernel,
        "ext4",
        80,
        &["mkfs.ext4", "-q", "-F"],
        &["e2fsck", "-fn"],
    );
}

/// In an overlay, too, in which nothing but memory is written.
#[test]
fn an_image_that_is_left_as_it_is_goes_back() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = ext4(&dir, 64);
    let before = std::fs::read(&image).expect("the image");
    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.snapshot(true));
    let disk = disk.expect("the disk");
    let mount = mount(&kernel, &disk);
    mount.write("a", "one").expect("writes");
    mount.sync().expect("syncs");
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    for _ in 0..3 {
        let file = OpenOptions::new().write(true).open(&mount, "a");
        let file = file.expect("opens");
        file.write_all_at(b"two", 0).expect("writes in place");
        mount.write("b", vec![2; 3_000_000]).expect("writes");
        mount.create_dir("new").expect("it is not there");
        mount.sync().expect("syncs");
        kernel.rollback(&checkpoint).expect("goes back");
        drop_caches(&kernel);
        assert_eq!(mount.read("a").expect("reads"), b"one");
    }
    mount.unmount().expect("unmounts");
    assert!(std::fs::read(&image).expect("the image") == before);
}

/// While others write and sync, each call is whole: it is undone, or it comes after.
#[test]
fn a_disk_under_load_goes_back() {
    if kernel().is_none() {
        return;
    }
    let kernel = Kernel::builder().cpus(2).boot().expect("boots");
    let dir = TempDir::new();
    let (ram, disk, mount) = mounted(&kernel, &dir);
    mount.write("still", vec![9; 100_000]).expect("writes");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (mount, stop) = (&mount, &stop);
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let options = options.write(true).create(true);
                for round in 0u64.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let file = options.open(mount, format!("w{n}"));
                    let file = file.expect("opens");
                    let written = file.write_all_at(&vec![round as u8; 20_000], round % 8 * 4096);
                    // Of a time that was undone.
                    let written = written.and_then(|()| Ok(file.sync_all()?));
                    if let Err(error) = written {
                        assert_eq!(tane::errno_of(&error), Some(libc::EBADF), "{error}");
                    }
                }
            });
        }
        let checkpoint = kernel.checkpoint().expect("a checkpoint");
        for _ in 0..40 {
            std::thread::yield_now();
            mount.write("mine", "x").expect("writes");
            kernel.rollback(&checkpoint).expect("goes back");
            assert!(!mount.exists("mine").expect("looks"));
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(mount.read("still").expect("reads") == vec![9; 100_000]);
    mount.unmount().expect("nothing is open");
    drop(disk);
    let dumped = dir.path().join("dump");
    dump(&*ram, &dumped);
    tool("e2fsck", &["-fn"], &dumped);
}

/// What was opened before, between and after; also where numbers are used again.
#[test]
fn handles_are_of_their_time() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let (_ram, _disk, mount) = mounted(&kernel, &dir);
    mount.write("before", "before").expect("writes");
    let (before, closed) = (mount.open("before"), mount.open("before"));
    let (before, closed) = (before.expect("opens"), closed.expect("opens"));
    let number = closed.kernel_fd();
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    drop(closed);
    let between = mount.create("between").expect("opens");
    assert_eq!(between.kernel_fd(), number);
    kernel.rollback(&checkpoint).expect("goes back");

    let mut bytes = [0; 6];
    before.read_exact_at(&mut bytes, 0).expect("reads");
    assert_eq!(&bytes, b"before");
    let error = between.write_at(b"x", 0).expect_err("is of no time");
    assert_eq!(tane::errno_of(&error), Some(libc::EBADF));
    // What was closed stays closed: the number is free, and then somebody else's.
    let after = mount.create("after").expect("opens");
    assert_eq!(after.kernel_fd(), number);
    drop(between);
    after.write_all_at(b"after", 0).expect("is still open");
    drop((before, after));
    drop(checkpoint);
    mount.unmount().expect("nothing is open");
}

/// Bytes in a mapping are part of it, synced or not.
#[test]
fn a_mapping_goes_back_and_one_made_since_is_gone() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let (_ram, _disk, mount) = mounted(&kernel, &dir);
    mount.write("f", vec![1; 20_000]).expect("writes");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(&mount, "f");
    let file = file.expect("opens");
    let mut how = MapOptions::new();
    let mut map = file.map(how.write(true)).expect("maps");
    // SAFETY: nobody else uses that file.
    unsafe { map.as_mut_slice().expect("is writable")[5000] = 2 };
    let checkpoint = kernel
        .checkpoint()
        .expect("a checkpoint, though it is dirty");
    for _ in 0..3 {
        let since = file.map(&MapOptions::new()).expect("maps");
        // SAFETY: as above.
        unsafe {
            let bytes = map.as_mut_slice().expect("is writable");
            assert_eq!((bytes[0], bytes[5000], bytes[9000]), (1, 2, 1));
            bytes[0] = 3;
            bytes[9000] = 3;
        }
        map.flush().expect("is written");
        kernel.rollback(&checkpoint).expect("goes back");
        let error = since.flush().expect_err("is gone");
        assert_eq!(error.errno(), libc::ESTALE);
    }
    map.flush().expect("is written");
    let content = mount.read("f").expect("reads");
    assert_eq!((content[0], content[5000], content[9000]), (1, 2, 1));
    drop((map, file));
    mount.unmount().expect("unmounts");
}

#[test]
fn a_disk_that_cannot_go_back_is_named() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let disk = kernel.open_disk(&image, &DiskOptions::new());
    let disk = disk.expect("the disk");
    refused(
        kernel.checkpoint(),
        libc::ENOTSUP,
        "slot 0: what is written to it stays",
    );
    disk.remove().expect("goes");
    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.read_only(true));
    let disk = disk.expect("the disk");
    let checkpoint = kernel.checkpoint().expect("it cannot change");
    let another = kernel.add_ram_disk(1 << 20).expect("a disk");
    refused(
        kernel.rollback(&checkpoint),
        libc::EBUSY,
        "slot 1 was added since",
    );
    another.remove().expect("goes");
    kernel.rollback(&checkpoint).expect("goes back");
    disk.remove().expect("goes");
    refused(
        kernel.rollback(&checkpoint),
        libc::EBUSY,
        "slot 0 was removed since",
    );
}

#[test]
fn kernels_that_cannot_go_back_say_why() {
    refused(
        Kernel::host().checkpoint(),
        libc::ENOTSUP,
        "in this process",
    );
    let Some(kernel) = kernel() else { return };
    let other = Kernel::boot().expect("boots");
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    refused(other.rollback(&checkpoint), libc::EINVAL, "another kernel");
    let (one, _two) = tane::net::Pair::new();
    let card = kernel.add_nic(one, &tane::net::NicOptions::default());
    let card = card.expect("a card");
    refused(kernel.checkpoint(), libc::ENOTSUP, "remove it first");
    drop(card);
    kernel.halt();
    refused(kernel.rollback(&checkpoint), libc::ESHUTDOWN, "has ended");
}
