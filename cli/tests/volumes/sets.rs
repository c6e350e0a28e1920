//! LVM2, RAID and btrfs on several disks, through the command. Other people's programs
//! make the images, or read what we wrote into them.

use crate::common::volumes::*;
use crate::common::*;
use std::path::Path;

/// Loop devices that go with their handle; None without the right to make them.
struct Loops(Vec<String>);

impl Loops {
    fn new(images: &[&Path]) -> Option<Loops> {
        let mut loops = Loops(Vec::new());
        for image in images {
            let made = sbin("losetup").args(["-f", "--show"]).arg(image).output();
            let made = made.ok().filter(|o| o.status.success());
            let Some(made) = made else {
                tane_test_support::skip("loop devices cannot be made");
                return None;
            };
            loops.0.push(text(&made.stdout).trim().to_owned());
        }
        Some(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = sbin("losetup").args(["-d", device]).status();
        }
    }
}

fn lvm(line: &str) -> String {
    let mut words = line.split(' ');
    let mut command = sbin(words.next().expect("a program"));
    // The host's own kernel need not have a device mapper.
    if line.starts_with("lv") {
        command.args(["--driverloaded", "n"]);
    }
    text(&succeed(command.args(words)).stdout)
}

/// Put a disk's bytes where LVM says that a volume's extents are.
fn fill(volume: &str, images: &[(&str, &Path)], bytes: &[u8]) {
    let report = lvm(&format!(
        "lvs --noheadings --units b --nosuffix --segments -o vg_extent_size,seg_start_pe,seg_pe_ranges {volume}"
    ));
    for line in report.lines().filter(|l| l.contains("/dev/")) {
        let words: Vec<_> = line.split_whitespace().collect();
        let extent: u64 = words[0].parse().expect("a size");
        let first: u64 = words[1].parse().expect("an extent");
        let (device, range) = words[2].split_once(':').expect("a range");
        let (from, to) = range.split_once('-').expect("a range");
        let (from, to): (u64, u64) = (
            from.parse().expect("a number"),
            to.parse().expect("a number"),
        );
        let start = lvm(&format!(
            "pvs --noheadings --units b --nosuffix -o pe_start {device}"
        ));
        let start: u64 = start.trim().parse().expect("a place");
        let (_, image) = images.iter().find(|(d, _)| *d == device).expect("an image");
        let begin = (first * extent) as usize;
        let end = (begin + ((to - from + 1) * extent) as usize).min(bytes.len());
        if begin < end {
            put(image, start + from * extent, &bytes[begin..end]);
        }
    }
}

#[test]
fn logical_volumes_in_pieces_and_on_two_disks() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let (a, b) = (blank(&s, "a", 96), blank(&s, "b", 96));
    let Some(loops) = Loops::new(&[&a, &b]) else {
        return;
    };
    let group = format!("tane{}", std::process::id());
    let devices = loops.0.join(" ");
    lvm(&format!("pvcreate -q {devices}"));
    lvm(&format!("vgcreate -q {group} {devices}"));
    for words in [
        format!("-n root -l 4 {group} {}", loops.0[0]),
        format!("-n home -l 5 {group} {}", loops.0[0]),
    ] {
        lvm(&format!("lvcreate -q -an -Zn -Wn {words}"));
    }
    // Now it has a second piece behind the other volume, and one on the disk b.
    lvm(&format!("lvextend -q -l +2 {group}/root {}", loops.0[0]));
    lvm(&format!("lvextend -q -l +3 {group}/root {}", loops.0[1]));
    let images = [(loops.0[0].as_str(), &*a), (loops.0[1].as_str(), &*b)];
    let root = ext4_bytes(&s, "root", 32);
    fill(&format!("{group}/root"), &images, &root);
    fill(
        &format!("{group}/home"),
        &images,
        &ext4_bytes(&s, "home", 16),
    );
    drop(loops);

    let with = "--with=b";
    assert_eq!(cat(&s, with, &format!("a@{group}/root:/f")), "root");
    assert_eq!(cat(&s, with, "a@label=home:/f"), "home");
    let said = text(&exit(s.tane().args([with, "ls", "a"]), 3).stderr);
    assert!(said.contains(&format!("a@{group}/root:/")), "{said}");
    // Without the other disk the whole one is there still, and the rest is told.
    assert_eq!(cat(&s, "", &format!("a@{group}/home:/f")), "home");
    let said = text(&exit(s.tane().args(["ls", &format!("a@{group}/root")]), 3).stderr);
    assert!(said.contains("--with"), "{said}");

    s.write("new", &[9; 5 << 20]);
    let root = format!("a@{group}/root:/new");
    succeed(s.tane().args([with, "cp", "new", &root]));
    let back = succeed(s.tane().args([with, "cat", &root])).stdout;
    assert!(back == s.read("new"));
    let found = inspect(&s, with, "a");
    let volumes = found["volumes"].as_array().expect("volumes");
    let root = volumes
        .iter()
        .find(|v| v["label"] == "root")
        .expect("the volume");
    assert_eq!(root["on"].as_array().map(Vec::len), Some(2));
}

/// A member of a set, as linux/raid/md_p.h has it; mdadm is asked whether it is.
fn raid_member(level: i32, number: u16, size: u64) -> Vec<u8> {
    let mut b = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| b[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efcu32.to_le_bytes());
    put(4, &1u32.to_le_bytes());
    put(16, &[7; 16]);
    put(32, b"host:data");
    put(72, &level.to_le_bytes());
    put(80, &size.to_le_bytes());
    put(88, &(if level == 0 { 128u32 } else { 0 }).to_le_bytes());
    put(92, &2u32.to_le_bytes());
    put(128, &2048u64.to_le_bytes());
    put(136, &size.to_le_bytes());
    put(144, &8u64.to_le_bytes());
    put(160, &u32::from(number).to_le_bytes());
    put(168, &[number as u8 + 1; 16]);
    put(200, &5u64.to_le_bytes());
    put(208, &u64::MAX.to_le_bytes());
    put(220, &2u32.to_le_bytes());
    put(256, &[0, 0, 1, 0]);
    let words = b[..260].chunks(4);
    let sum: u64 = words
        .map(|w| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])))
        .sum();
    let sum = (sum & 0xffff_ffff) as u32 + (sum >> 32) as u32;
    b[216..220].copy_from_slice(&sum.to_le_bytes());
    b
}

#[test]
fn raid_sets_of_two_disks() {
    if !has_kernel() {
        return;
    }
    const LINEAR: i32 = -1;
    for level in [LINEAR, 0, 1] {
        let s = Scratch::new();
        let bytes = ext4_bytes(&s, "data", 32);
        let size = if level == 1 { 32 * MIB } else { 16 * MIB } / 512;
        let disks = ["a", "b"].map(|name| blank(&s, name, 40));
        for (number, disk) in disks.iter().enumerate() {
            put(disk, 4096, &raid_member(level, number as u16, size));
            let said = text(&run(&s, &format!("mdadm --examine {}", ["a", "b"][number])).stdout);
            assert!(
                said.contains("- correct") && said.contains("clean"),
                "{said}"
            );
        }
        match level {
            1 => disks.iter().for_each(|d| put(d, MIB, &bytes)),
            LINEAR => {
                let halves = bytes.chunks(bytes.len() / 2);
                disks
                    .iter()
                    .zip(halves)
                    .for_each(|(d, half)| put(d, MIB, half));
            }
            _ => bytes.chunks(128 * 512).enumerate().for_each(|(i, chunk)| {
                put(&disks[i % 2], MIB + (i / 2 * 128 * 512) as u64, chunk);
            }),
        }
        assert_eq!(cat(&s, "--with=b", "a:/f"), "data");
        succeed(s.tane().args(["--with=b", "mv", "a:/f", "a:/g"]));
        assert_eq!(cat(&s, "--with=a", "b:/g"), "data");
        let found = inspect(&s, "--with=b", "a");
        let volumes = found["volumes"].as_array().expect("volumes");
        let set = volumes
            .iter()
            .find(|v| v["kind"] == "raid")
            .expect("the set");
        assert_eq!(
            (&set["label"], &set["name"]),
            (&"data".into(), &"host:data".into())
        );
        if level == 1 {
            let [a, b] = disks.map(|d| get(&d, MIB, bytes.len()));
            assert!(a == b, "the halves differ");
            s.write("half", &a);
            assert_sound(&s.join("half"));
            // One disk of a mirror is enough.
            assert_eq!(cat(&s, "", "b:/g"), "data");
        } else {
            let said = text(&exit(s.tane().args(["ls", "a"]), 3).stderr);
            assert!(said.contains("--with"), "{said}");
        }
    }
}

#[test]
fn a_btrfs_on_two_disks_with_subvolumes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for name in ["a", "b"] {
        blank(&s, name, 200);
    }
    run(&s, "mkfs.btrfs -q -L pair -d raid0 -m raid1 a b");
    {
        let kernel = tane::Kernel::boot().expect("a kernel");
        let disks = ["a", "b"].map(|name| {
            let disk = kernel.open_disk(s.join(name), &tane::DiskOptions::new());
            disk.expect("a disk")
        });
        let options = tane::VolumeOptions::new();
        let all: Vec<_> = disks.iter().collect();
        let volumes = kernel.volumes(&all, &options).expect("volumes");
        let mount = tane::MountOptions::new()
            .mount(&kernel, "/dev/vda")
            .expect("mounts");
        let root = mount.mount_point().join("");
        let path = std::ffi::CString::new(root.to_str().expect("UTF-8")).expect("no NUL");
        // BTRFS_IOC_SUBVOL_CREATE
        let mut argument = [0u8; 4096];
        argument[8..13].copy_from_slice(b"@home");
        // SAFETY: a path and a structure, both live.
        unsafe {
            let fd = kernel.try_syscall(libc::SYS_open, [path.as_ptr() as u64, 0, 0, 0, 0, 0]);
            let args = [
                fd.expect("opens") as u64,
                0x5000_940e,
                argument.as_mut_ptr() as u64,
                0,
                0,
                0,
            ];
            kernel
                .try_syscall(libc::SYS_ioctl, args)
                .expect("a subvolume");
            kernel
                .try_syscall(libc::SYS_close, [args[0], 0, 0, 0, 0, 0])
                .expect("closes");
        }
        mount.write("@home/f", "inside").expect("writes");
        mount.write("f", "outside").expect("writes");
        mount.unmount().expect("unmounts");
        drop(volumes);
    }
    assert_eq!(cat(&s, "--with=b", "a:/f"), "outside");
    assert_eq!(cat(&s, "--with=b", "a@subvol=@home:/f"), "inside");
    assert_eq!(
        cat(&s, "--with=b", "a@label=pair,subvol=@home:/f"),
        "inside"
    );
    s.write("new", &[6; 9_000_000]);
    succeed(
        s.tane()
            .args(["--with=b", "cp", "new", "a@subvol=@home:/new"]),
    );
    assert!(succeed(s.tane().args(["--with=a", "cat", "b:/@home/new"])).stdout == s.read("new"));
    let said = text(&exit(s.tane().args(["ls", "a"]), 3).stderr);
    assert!(said.contains("a: cannot be mounted"), "{said}");
    let short = "1 of the 2 devices of this btrfs is missing";
    assert!(said.contains(short) && said.contains("--with"), "{said}");
    let noted = text(&succeed(s.tane().args(["inspect", "a"])).stdout);
    assert!(noted.contains(short), "{noted}");
    let noted = text(&succeed(s.tane().args(["inspect", "--with=b", "a"])).stdout);
    assert!(!noted.contains("missing"), "{noted}");
    // Its program is given one file, and would find all of the other missing.
    let said = text(&exit(s.tane().args(["--with=b", "fsck", "a"]), 3).stderr);
    assert!(said.contains("several devices"), "{said}");
    let Some(loops) = Loops::new(&[&s.join("a"), &s.join("b")]) else {
        return;
    };
    succeed(sbin("btrfs").arg("device").arg("scan").args(&loops.0));
    succeed(sbin("btrfs").arg("check").arg(&loops.0[0]));
}
