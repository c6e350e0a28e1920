//! What the host's kernel has an image for, which takes no locks: loop devices, mounts,
//! swap.

use crate::common::*;
use crate::locks::refused;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tane_test_support::{has_root, skip};

/// A loop device of the host's.
struct LoopDevice(String);

impl LoopDevice {
    /// None, and the test is skipped, where there is none to be had.
    fn new(arguments: &[&str], image: &Path) -> Option<LoopDevice> {
        if !has_root() {
            return None;
        }
        let made = sbin("losetup")
            .args(["--show", "-f"])
            .args(arguments)
            .arg(image)
            .output();
        match made {
            Ok(made) if made.status.success() => {
                Some(LoopDevice(text(&made.stdout).trim().to_owned()))
            }
            _ => {
                skip("this host gives no loop device");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = sbin("losetup").args(["-d", &self.0]).status();
    }
}

struct MountPoint(PathBuf);

impl Drop for MountPoint {
    fn drop(&mut self) {
        let _ = sbin("umount").arg(&self.0).status();
    }
}

#[test]
fn what_the_host_has_on_a_loop_device_is_not_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    let image = s.ext4("disk.img", None, 16);
    std::os::unix::fs::symlink("disk.img", s.join("link")).expect("symlink");
    let Some(device) = LoopDevice::new(&[], &image) else {
        return;
    };
    let named = format!("is on {} of the host", device.0);
    let detach = format!("losetup -d {}", device.0);
    let refuses = |remedy: &str| {
        let ours: [&[&str]; 5] = [
            &["cp", "f", "disk.img:/"],
            &["--no-jail", "cp", "f", "link:/"],
            &["mkfs", "--force", "link"],
            &["resize", "disk.img", "32M"],
            &["sh", "disk.img", "-c", "touch /g"],
        ];
        for arguments in ours {
            let output = s.tane().args(arguments).output().expect("tane");
            let said = text(&output.stderr);
            assert!(matches!(output.status.code(), Some(1 | 3)), "{arguments:?}");
            assert!(said.contains(&named), "{arguments:?}: {said}");
            assert!(said.contains(remedy), "{arguments:?}: {said}");
        }
    };
    let before = s.read("disk.img");
    refuses(&detach);
    assert!(s.read("disk.img") == before, "it has changed");
    let point = s.join("point");
    std::fs::create_dir(&point).expect("a directory");
    succeed(sbin("mount").arg(&device.0).arg(&point));
    let mounted = MountPoint(point.clone());
    refuses(&format!("is mounted on {}", point.display()));
    // Who reads is told, and reads.
    let read = succeed(s.tane().args(["ls", "disk.img:/"]));
    let said = text(&read.stderr);
    assert!(
        said.contains(&named) && said.contains("meanwhile"),
        "{said}"
    );
    drop(mounted);
    drop(device);
    succeed(s.tane().args(["cp", "f", "disk.img:/"]));
    assert_sound(&image);
}

#[test]
fn a_partition_that_the_host_has_mounted_is_named() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("inner.img", None, 16);
    let disk = s.write("disk.img", &[]);
    let file = std::fs::File::options().write(true).open(&disk);
    file.and_then(|f| f.set_len(20 << 20)).expect("grows");
    let mut sfdisk = sbin("sfdisk");
    sfdisk.arg("-q").arg(&disk).stdin(Stdio::piped());
    let mut child = sfdisk.spawn().expect("sfdisk");
    let line = b"label: gpt\nstart=2MiB, size=16MiB\n";
    let input = child.stdin.take().expect("its input");
    { input }.write_all(line).expect("it reads");
    assert!(child.wait().expect("exit").success());
    let copy = "if=inner.img of=disk.img bs=1M seek=2 conv=notrunc status=none";
    succeed(&mut s.command("dd", copy));
    let Some(device) = LoopDevice::new(&["-P"], &disk) else {
        return;
    };
    let partition = format!("{}p1", device.0);
    if !Path::new(&partition).exists() {
        return skip("this host shows no partitions of loop devices");
    }
    let point = s.join("point");
    std::fs::create_dir(&point).expect("a directory");
    succeed(sbin("mount").arg(&partition).arg(&point));
    let mounted = MountPoint(point.clone());
    let named = format!("mounted on {} ({partition})", point.display());
    let said = refused(&s, &["touch", "disk.img@1:/f"]);
    assert!(said.contains(&named), "{said}");
    // The device itself.
    let said = refused(&s, &["touch", &format!("{partition}:/f")]);
    let named = format!("is mounted on {}", point.display());
    assert!(said.contains(&named), "{said}");
    drop(mounted);
}

/// What the host has as swap goes when this does.
struct Swap(PathBuf);

impl Swap {
    /// None, and the test is skipped, where the host takes none.
    fn new(place: &Path) -> Option<Swap> {
        succeed(sbin("mkswap").arg("-q").arg(place));
        let made = sbin("swapon").arg(place).output().expect("swapon");
        if !made.status.success() {
            skip(format!("swapon: {}", text(&made.stderr).trim()));
            return None;
        }
        Some(Swap(place.into()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = sbin("swapoff").arg(&self.0).status();
    }
}

#[test]
fn what_the_host_has_as_swap_or_in_a_mapped_device_is_not_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let refuses = |image: &str, what: &str| {
        let said = refused(&s, &["mkfs", "--force", image]);
        assert!(said.contains(what), "{said}");
    };
    let Some(device) = LoopDevice::new(&[], &image) else {
        return;
    };
    let Some(swap) = Swap::new(Path::new(&device.0)) else {
        return;
    };
    refuses(
        "disk.img",
        &format!("is on {} of the host, which is swap", device.0),
    );
    refuses(&device.0, "it is swap");
    drop(swap);
    let (name, table) = ("tane-test", format!("0 2048 linear {} 0", device.0));
    let mut dmsetup = sbin("dmsetup");
    let made = dmsetup.args(["create", name, "--table", &table]).output();
    if made.is_ok_and(|made| made.status.success()) {
        refuses("disk.img", "which is part of tane-test");
        refuses(&device.0, "it is part of tane-test");
        succeed(sbin("dmsetup").args(["remove", name]));
    } else {
        skip("this host has no device mapper");
    }
    drop(device);
    // Swap has no holes.
    std::fs::write(&image, vec![1; 16 << 20]).expect("a file");
    if let Some(swap) = Swap::new(&image) {
        refuses("disk.img", "is swap of the host");
        drop(swap);
        succeed(s.tane().args(["mkfs", "--force", "disk.img"]));
    }
}
