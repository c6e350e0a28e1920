//! Partitions, LUKS, LVM2, RAID and btrfs on several disks, through the command.
//! Other people's programs make the images, or read what we wrote into them.

mod common;

use common::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

fn blank(s: &Scratch, name: &str, mib: u64) -> PathBuf {
    let path = s.join(name);
    File::create(&path)
        .and_then(|f| f.set_len(mib * MIB))
        .expect("an image");
    path
}

/// Run a line of words in the scratch directory; it has to succeed.
fn run(s: &Scratch, line: &str) -> Output {
    let mut words = line.split(' ');
    let mut command = sbin(words.next().expect("a program"));
    succeed(command.args(words).current_dir(s.join(".")))
}

/// Put `image` into a new LUKS1 volume with the passphrase in the file `pw`.
fn luks_1(s: &Scratch, options: &str, image: &str, to: &str) {
    let line = format!(
        "convert --object secret,id=s,file=pw -f raw -O luks \
         -o key-secret=s,iter-time=10{options} {image} {to}"
    );
    let mut command = sbin("qemu-img");
    command.args(line.split(' ')).current_dir(s.join("."));
    // It times its key derivation, and gives up when others are busy too.
    let was_disturbed = |command: &mut Command| {
        let out = command.output().expect("qemu-img");
        let said = text(&out.stderr);
        let disturbed = said.contains("accurate CPU usage");
        assert!(disturbed || out.status.success(), "{command:?}\n{said}");
        disturbed
    };
    let done = (0..20).any(|_| !was_disturbed(&mut command));
    assert!(done, "{command:?}: the machine is too busy");
}

fn ext4_bytes(s: &Scratch, label: &str, mib: u32) -> Vec<u8> {
    s.write(&format!("{label}.d/f"), label.as_bytes());
    let tree = s.join(&format!("{label}.d"));
    let image = s.ext4(&format!("{label}.ext4"), Some(&tree), mib);
    succeed(sbin("e2label").arg(&image).arg(label));
    std::fs::read(image).expect("the image")
}

fn put(image: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(image).expect("the image");
    file.write_all_at(bytes, at).expect("writes");
}

fn get(image: &Path, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let file = File::open(image).expect("the image");
    file.read_exact_at(&mut bytes, at).expect("reads");
    bytes
}

fn cat(s: &Scratch, options: &str, at: &str) -> String {
    let words = options.split(' ').filter(|w| !w.is_empty());
    text(&succeed(s.tane().args(words).args(["cat", at])).stdout)
}

fn inspect(s: &Scratch, options: &str, image: &str) -> serde_json::Value {
    let words = options.split(' ').filter(|w| !w.is_empty());
    let json = succeed(s.tane().args(words).args(["inspect", "--json", image])).stdout;
    let found = serde_json::from_slice(&json).expect("JSON");
    common::schema::assert_inspected(&found);
    found
}

#[test]
fn a_gpt_by_number_label_and_identity() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let disk = blank(&s, "disk", 64);
    let script = "label: gpt\nstart=2048,size=40960,name=first\nsize=40960,name=second\n";
    s.write("script", script.as_bytes());
    let mut sfdisk = sbin("sfdisk");
    let input = File::open(s.join("script")).expect("the script");
    succeed(sfdisk.arg("-q").arg(&disk).stdin(input));
    put(&disk, MIB, &ext4_bytes(&s, "one", 16));
    put(&disk, 21 * MIB, &ext4_bytes(&s, "two", 16));
    let said = text(&exit(s.tane().args(["ls", "disk"]), 3).stderr);
    assert!(said.contains("disk@1:/  ext4 label=one"), "{said}");
    assert!(said.contains("disk@2:/  ext4 label=two"), "{said}");
    let found = inspect(&s, "", "disk");
    assert_eq!(found["table"], "gpt");
    assert_eq!(found["volumes"][1]["name"], "second");
    for (selector, wanted) in [
        ("1".into(), "one"),
        ("label=two".into(), "two"),
        (
            format!(
                "uuid={}",
                found["volumes"][0]["uuid"].as_str().expect("a UUID")
            ),
            "one",
        ),
        (
            format!(
                "uuid={}",
                found["volumes"][1]["part_uuid"].as_str().expect("a UUID")
            ),
            "two",
        ),
    ] {
        assert_eq!(cat(&s, "", &format!("disk@{selector}:/f")), wanted);
    }
}

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

#[test]
fn luks_1_as_qemu_makes_and_reads_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4_bytes(&s, "inner", 16);
    s.write("pw", b"open sesame");
    for options in [
        "",
        ",cipher-alg=aes-256,cipher-mode=cbc,ivgen-alg=essiv,ivgen-hash-alg=sha256",
        ",hash-alg=sha512",
    ] {
        let secret = "--object secret,id=s,file=pw";
        luks_1(&s, options, "inner.ext4", "disk");
        assert_eq!(cat(&s, "--key-file=pw", "disk:/f"), "inner");
        let found = inspect(&s, "--key-file=pw", "disk");
        assert_eq!(found["volumes"][0]["fs"], "crypto_LUKS");
        assert_eq!(found["volumes"][1]["kind"], "luks");
        assert_eq!(found["volumes"][1]["label"], "inner");
        assert_eq!(found["volumes"][1]["size"], bytes.len());
        s.write("new", &[5; 1 << 20]);
        succeed(s.tane().args(["--key-file=pw", "cp", "new", "disk:/new"]));
        run(&s, &format!("qemu-img convert {secret} --image-opts -O raw driver=luks,key-secret=s,file.filename=disk back"));
        assert_sound(&s.join("back"));
        let read = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(s.join("back")));
        assert!(read.stdout == s.read("new"));
    }
    s.write("wrong", b"open\n");
    let said = text(&exit(s.tane().args(["--key-file=wrong", "ls", "disk"]), 3).stderr);
    assert!(said.contains("no passphrase fits"), "{said}");
    let said = text(&exit(s.tane().args(["ls", "disk"]), 3).stderr);
    assert!(said.contains("--passphrase-file"), "{said}");
}

/// QEMU knows LUKS 1 only, so it encrypts and decrypts the data with the same
/// volume key in a LUKS 1 container; the sectors are the same in both.
#[test]
fn luks_2_as_cryptsetup_makes_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let bytes = ext4_bytes(&s, "inner", 16);
    s.write("key", &(0..64).collect::<Vec<u8>>());
    s.write("pw", b"open sesame\n");
    s.write("pw-bare", b"open sesame");
    let common = "--volume-key-file=key --key-size=512 --cipher=aes-xts-plain64 --key-file=pw-bare";
    let format = |kind: &str, image: &str| {
        run(
            &s,
            &format!("cryptsetup luksFormat -q {common} {kind} {image}"),
        );
    };
    blank(&s, "one", 24);
    format(
        "--type=luks1 --pbkdf-force-iterations=1000 --hash=sha256",
        "one",
    );
    let secret = "--object secret,id=s,file=pw-bare";
    let target = "driver=luks,key-secret=s,file.filename=one";
    let offset = text(&run(&s, "cryptsetup luksDump one").stdout);
    let offset = offset
        .lines()
        .find_map(|l| l.strip_prefix("Payload offset:"));
    let offset: u64 = offset
        .and_then(|o| o.trim().parse().ok())
        .expect("an offset");
    let file = File::options().write(true).open(s.join("one"));
    let fit = file.and_then(|f| f.set_len(offset * 512 + bytes.len() as u64));
    fit.expect("its length");
    run(
        &s,
        &format!("qemu-img convert {secret} -n -f raw --target-image-opts inner.ext4 {target}"),
    );
    let sealed = get(&s.join("one"), offset * 512, bytes.len());
    for kdf in [
        "--pbkdf=argon2id --pbkdf-memory=65536 --pbkdf-force-iterations=4",
        "--pbkdf=argon2i --pbkdf-memory=32768 --pbkdf-parallel=1 --pbkdf-force-iterations=4",
        "--pbkdf=pbkdf2 --pbkdf-force-iterations=2000 --hash=sha512",
    ] {
        let two = blank(&s, "two", 32);
        format(&format!("--type=luks2 --sector-size=512 {kdf}"), "two");
        put(&two, 16 * MIB, &sealed);
        assert_eq!(cat(&s, "--passphrase-file=pw", "two:/f"), "inner");
        let mut stdin = s.tane();
        stdin.args(["--passphrase-file=-", "cat", "two:/f"]);
        stdin.stdin(File::open(s.join("pw")).expect("the passphrase"));
        assert_eq!(succeed(&mut stdin).stdout, b"inner");
        succeed(
            s.tane()
                .args(["--passphrase-file=pw", "mv", "two:/f", "two:/g"]),
        );
        put(
            &s.join("one"),
            offset * 512,
            &get(&two, 16 * MIB, bytes.len()),
        );
        run(&s, &format!("qemu-img convert {secret} --image-opts -O raw driver=luks,key-secret=s,file.filename=one back"));
        assert_sound(&s.join("back"));
        let read = succeed(sbin("debugfs").args(["-R", "cat /g"]).arg(s.join("back")));
        assert_eq!(read.stdout, b"inner");
    }
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
    for level in [0, 1] {
        let s = Scratch::new();
        let bytes = ext4_bytes(&s, "data", 32);
        let size = if level == 0 { 16 * MIB } else { 32 * MIB } / 512;
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
    let Some(loops) = Loops::new(&[&s.join("a"), &s.join("b")]) else {
        return;
    };
    succeed(sbin("btrfs").arg("device").arg("scan").args(&loops.0));
    succeed(sbin("btrfs").arg("check").arg(&loops.0[0]));
}

#[test]
fn the_picture_shows_luks_on_a_partition_and_what_is_installed() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write(
        "system.d/etc/os-release",
        b"NAME=x\nPRETTY_NAME=\"Testix 7\"\n",
    );
    ext4_bytes(&s, "system", 16);
    s.write("pw", b"pw");
    luks_1(&s, "", "system.ext4", "sealed");
    let sealed = s.read("sealed");
    let disk = blank(&s, "disk", 32);
    let mut table = [0u8; 512];
    table[446 + 4] = 0x83;
    table[454..458].copy_from_slice(&2048u32.to_le_bytes());
    table[458..462].copy_from_slice(&((sealed.len() / 512) as u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    put(&disk, 0, &table);
    put(&disk, MIB, &sealed);
    let picture = text(&succeed(s.tane().args(["--key-file=pw", "inspect", "disk"])).stdout);
    let lines: Vec<_> = picture.lines().collect();
    assert!(lines[0].starts_with("disk  raw, 32M"), "{picture}");
    assert_eq!(lines[1], "  dos table");
    assert!(lines[2].starts_with("  └─ 1  "), "{picture}");
    assert!(lines[2].contains("crypto_LUKS"), "{picture}");
    assert!(
        lines[3].starts_with("     └─ unlocked  16M  ext4  label=system"),
        "{picture}"
    );
    assert!(lines[3].contains("[Testix 7]"), "{picture}");
    assert_eq!(lines.len(), 4, "{picture}");
    let locked = inspect(&s, "", "disk");
    assert_eq!(locked["volumes"][0]["locked"], true);
    assert_eq!(locked["volumes"].as_array().map(Vec::len), Some(1));
    // The partition's number means what is inside.
    assert!(cat(&s, "--key-file=pw", "disk@1:/etc/os-release").contains("Testix"));
}
