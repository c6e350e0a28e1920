//! What btrfs has and others have not: several devices, subvolumes, snapshots.

use crate::common::{blank, TempDir};
use crate::inside::{at, call, complaints, default_kernel, ok, run};
use crate::roundtrip::keeps::ALL;
use crate::roundtrip::manifest::{assert_same, manifest};
use crate::roundtrip::readers::grub_agrees;
use crate::roundtrip::{check, rich, Tool, TOP};
use std::path::{Path, PathBuf};
use tane::{Disk, DiskOptions, Kernel, Mount, MountOptions, Tree};
use tane_test_support::tool;

const CHECK: &[Tool] = &[("btrfs-progs", "btrfs", &["check", "--check-data-csum"])];

// linux/btrfs.h
const SUBVOL_CREATE: u64 = 0x5000_940e;
const SNAP_CREATE_V2: u64 = 0x5000_9417;
const SNAP_DESTROY: u64 = 0x5000_940f;
const RM_DEV: u64 = 0x5000_940b;
const SUBVOL_RDONLY: u64 = 1 << 1;

/// struct btrfs_ioctl_vol_args and _v2: both 4096 bytes, the name at another place.
fn ioctl(tree: &Tree, request: u64, fd: u64, flags: u64, name: &str) -> Result<(), i32> {
    let mut args = [0u8; 4096];
    args[..8].copy_from_slice(&fd.to_le_bytes());
    let place = if request == SNAP_CREATE_V2 {
        args[16..24].copy_from_slice(&flags.to_le_bytes());
        56
    } else {
        8
    };
    args[place..place + name.len()].copy_from_slice(name.as_bytes());
    with_root(tree, |root| {
        call(tree.kernel(), libc::SYS_ioctl, &[root, request, at(&args)]).map(drop)
    })
}

/// A tree's own descriptor is O_PATH, by which no ioctl goes.
fn with_root<T>(tree: &Tree, work: impl FnOnce(u64) -> T) -> T {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY) as u64;
    let root = tree.root_fd() as u64;
    let fd = ok(tree.kernel(), libc::SYS_openat, &[root, at(c"."), flags, 0]);
    let result = work(fd);
    ok(tree.kernel(), libc::SYS_close, &[fd]);
    result
}

/// `profiles`: of mkfs.btrfs, of data and metadata.
fn images(dir: &TempDir, count: usize, profiles: &[&str]) -> Option<Vec<PathBuf>> {
    let images: Vec<_> = (0..count)
        .map(|i| blank(dir, &format!("disk{i}"), 256))
        .collect();
    let mut mkfs = tool("btrfs-progs", "mkfs.btrfs")?;
    run(mkfs.args(["-q", "-f"]).args(profiles).args(&images));
    Some(images)
}

const STRIPED: &[&str] = &["-d", "raid0", "-m", "raid1"];

fn mounted(kernel: &Kernel, images: &[PathBuf]) -> (Vec<Disk>, Mount) {
    mounted_with(kernel, images, "compress=zstd")
}

fn mounted_with(kernel: &Kernel, images: &[PathBuf], words: &str) -> (Vec<Disk>, Mount) {
    let disks = images.iter().map(|image| {
        let disk = kernel.open_disk(image, &DiskOptions::new());
        disk.expect("opens")
    });
    let disks: Vec<Disk> = disks.collect();
    let mut options = MountOptions::new();
    options.fstype("btrfs").options(words);
    for disk in &disks {
        let device = disk.device();
        options.option("device", device.to_str().expect("a path"));
    }
    let mount = options.mount(kernel, disks[0].device());
    let mount = mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    (disks, mount)
}

fn below(mount: &Mount, name: &str) -> Tree {
    let path = mount.mount_point().join(name);
    mount.kernel().tree(path).expect("a directory")
}

fn unmounted(disks: Vec<Disk>, mount: Mount) {
    mount.unmount().expect("unmounts");
    for disk in disks {
        disk.remove().expect("goes away");
    }
}

#[test]
fn a_tree_lies_on_two_devices_until_one_is_removed() {
    let dir = TempDir::new();
    let Some(images) = images(&dir, 2, STRIPED) else {
        return;
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    let reference = crate::roundtrip::tmpfs(&kernel);
    rich::fill(&reference, &ALL);
    let wanted = manifest(&reference, TOP, &ALL);

    let (disks, mount) = mounted(&kernel, &images);
    rich::fill(&mount, &ALL);
    unmounted(disks, mount);
    let paths: Vec<&Path> = images.iter().map(PathBuf::as_path).collect();
    grub_agrees(&dir, &paths, &wanted);

    let (disks, mount) = mounted(&kernel, &images);
    assert_same(&wanted, &manifest(&mount, TOP, &ALL));
    // What was striped and mirrored becomes what one device can hold.
    run_balance(&mount);
    let second = disks[1].device();
    let second = second.to_str().expect("a path");
    ioctl(&mount, RM_DEV, 0, 0, second).unwrap_or_else(|errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        panic!("{error}\n{}", kernel.dmesg())
    });
    assert_same(&wanted, &manifest(&mount, TOP, &ALL));
    unmounted(disks, mount);
    check(&images[0], CHECK);
    let (disks, mount) = mounted(&kernel, &images[..1]);
    assert_same(&wanted, &manifest(&mount, TOP, &ALL));
    unmounted(disks, mount);
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

#[test]
fn what_lost_disks_of_a_raid_6_held_is_calculated_from_the_others() {
    let dir = TempDir::new();
    let profiles = ["-d", "raid6", "-m", "raid1c3"];
    let Some(images) = images(&dir, 5, &profiles) else {
        return;
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    // Too much, and too random, for metadata to hold it: 64 KiB on each disk in turn.
    let mut state = 1u64;
    let mut wanted = vec![0u8; 3 << 20];
    for byte in &mut wanted {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    let (disks, mount) = mounted(&kernel, &images);
    mount.write("file", &wanted).expect("writes");
    unmounted(disks, mount);
    for lost in [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]] {
        let left = images.iter().enumerate();
        let left = left.filter(|(i, _)| !lost.contains(i));
        let left: Vec<PathBuf> = left.map(|(_, image)| image.clone()).collect();
        let (disks, mount) = mounted_with(&kernel, &left, "ro,degraded");
        assert!(
            mount.read("file").expect("reads") == wanted,
            "without {lost:?}"
        );
        unmounted(disks, mount);
    }
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

/// All block groups to "single": struct btrfs_ioctl_balance_args.
fn run_balance(mount: &Mount) {
    const BALANCE_V2: u64 = 0xc400_9420;
    const FORCE: u64 = 1 << 3;
    const CONVERT: u64 = 1 << 8;
    const SINGLE: u64 = 1 << 48;
    let mut args = [0u8; 1024];
    let data_metadata_system = 7;
    args[..8].copy_from_slice(&(data_metadata_system | FORCE).to_le_bytes());
    for kind in 0..3 {
        // struct btrfs_balance_args is 136 bytes: target at 56, flags at 64.
        let at = 16 + 136 * kind;
        args[at + 56..at + 64].copy_from_slice(&SINGLE.to_le_bytes());
        args[at + 64..at + 72].copy_from_slice(&CONVERT.to_le_bytes());
    }
    let done = with_root(mount, |root| {
        call(
            mount.kernel(),
            libc::SYS_ioctl,
            &[root, BALANCE_V2, at(&args)],
        )
    });
    done.unwrap_or_else(|errno| panic!("balance: {errno}\n{}", mount.kernel().dmesg()));
}

#[test]
fn a_snapshot_keeps_what_its_subvolume_was() {
    let dir = TempDir::new();
    let Some(images) = images(&dir, 1, &[]) else {
        return;
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    let reference = crate::roundtrip::tmpfs(&kernel);
    rich::fill(&reference, &ALL);
    let before = manifest(&reference, TOP, &ALL);
    rich::change(&reference, &ALL);
    let after = manifest(&reference, TOP, &ALL);

    let (disks, mount) = mounted(&kernel, &images);
    ioctl(&mount, SUBVOL_CREATE, 0, 0, "home").expect("a subvolume");
    let home = below(&mount, "home");
    rich::fill(&home, &ALL);
    for (name, flags) in [("writable", 0), ("frozen", SUBVOL_RDONLY), ("doomed", 0)] {
        let made = with_root(&home, |fd| ioctl(&mount, SNAP_CREATE_V2, fd, flags, name));
        made.expect("a snapshot");
    }
    rich::change(&home, &ALL);
    rich::change(&below(&mount, "writable"), &ALL);
    ioctl(&mount, SNAP_DESTROY, 0, 0, "doomed").expect("is removed");
    let frozen = below(&mount, "frozen");
    let refused = frozen.write("new", b"").expect_err("is read-only");
    assert_eq!(refused.errno(), libc::EROFS);
    drop((home, frozen));
    unmounted(disks, mount);

    check(&images[0], CHECK);
    let (disks, mount) = mounted(&kernel, &images);
    for (name, wanted) in [("frozen", &before), ("home", &after), ("writable", &after)] {
        assert_same(wanted, &manifest(&below(&mount, name), TOP, &ALL));
    }
    assert!(!mount.exists("doomed").expect("looks"));
    unmounted(disks, mount);
    // By its name alone, as fstab(5) would have it.
    let disk = kernel.open_disk(&images[0], &DiskOptions::new());
    let disk = disk.expect("opens");
    let mut options = MountOptions::new();
    options.option("subvol", "frozen");
    let mount = options.mount(&kernel, disk.device()).expect("mounts");
    assert_same(&before, &manifest(&mount, TOP, &ALL));
    mount.unmount().expect("unmounts");
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}
