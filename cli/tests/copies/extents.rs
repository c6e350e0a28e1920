//! Promises about large files that the host copies out of the image's file: the
//! bytes are those that the kernel reads, however they lie. `bytes_by_host` says
//! whether it was the host; e2fsprogs makes the files and reads them too.

use crate::common::*;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tane_test_support::{has_root, skip};

const MIB: usize = 1 << 20;
const BLOCK: usize = 4096;

/// Bytes that differ from place to place, none of them zero for long.
fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// An image full of junk but for what mke2fs writes: bytes of a block that is
/// read and should not be are seen.
fn image(s: &Scratch, name: &str, tree: Option<&str>, options: &[&str], mib: usize) -> PathBuf {
    let path = s.join(name);
    std::fs::write(&path, vec![0x5a; mib << 20]).expect("an image file");
    let mut mke2fs = sbin("mke2fs");
    mke2fs.args(["-q", "-F", "-E", "nodiscard"]).args(options);
    if let Some(tree) = tree {
        mke2fs.arg("-d").arg(s.join(tree));
    }
    succeed(mke2fs.arg(&path));
    path
}

fn debugfs(image: &Path, request: &str) -> String {
    let output = succeed(sbin("debugfs").args(["-w", "-R", request]).arg(image));
    text(&output.stdout) + &text(&output.stderr)
}

/// Copies a file out; how many bytes of it the host copied.
fn copy(s: &Scratch, from: &str, options: &[&str]) -> u64 {
    let _ = std::fs::remove_file(s.join("out"));
    let mut command = s.tane();
    command.args(["cp", "--json"]).args(options);
    let said = succeed(command.args([from, "out"])).stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    said["bytes_by_host"].as_u64().expect("a number")
}

/// The copy is what the kernel reads, what debugfs reads, and this.
fn assert_copied(s: &Scratch, image: &Path, path: &str, wanted: &[u8]) {
    let out = s.read("out");
    assert!(out == wanted, "the copy differs");
    let name = image.file_name().and_then(|n| n.to_str()).expect("UTF-8");
    let read = succeed(s.tane().args(["cat", &format!("{name}:{path}")])).stdout;
    assert!(out == read, "cat reads something else");
    let dumped = succeed(
        sbin("debugfs")
            .args(["-R", &format!("cat {path}")])
            .arg(image),
    )
    .stdout;
    assert!(out == dumped, "debugfs reads something else");
}

fn allocated(path: &Path) -> u64 {
    path.metadata().expect("a file").blocks() * 512
}

#[test]
fn a_large_file_is_copied_by_the_host_to_its_last_byte() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data = noise(9 * MIB + 123, 1);
    s.write("tree/f", &data);
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext4"], 64);
    assert_eq!(copy(&s, "disk.img:/f", &[]), data.len() as u64);
    assert_copied(&s, &image, "/f", &data);
}

#[test]
fn a_file_in_many_pieces_is_put_together() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for i in 0..400 {
        s.write(&format!("tree/{i:03}"), &noise(20 << 10, i));
    }
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext4", "-b1024"], 16);
    let rm: Vec<_> = (0..400)
        .step_by(2)
        .map(|i| format!("rm /{i:03}\n"))
        .collect();
    s.write("rm", rm.concat().as_bytes());
    succeed(
        sbin("debugfs")
            .args(["-w", "-f"])
            .arg(s.join("rm"))
            .arg(&image),
    );
    // No room but in the gaps.
    let free = text(&succeed(sbin("dumpe2fs").arg("-h").arg(&image)).stdout);
    let free = free.lines().find_map(|l| l.strip_prefix("Free blocks:"));
    let free: usize = free.and_then(|n| n.trim().parse().ok()).expect("a number");
    let data = noise((free - 200) << 10, 7);
    s.write("f", &data);
    debugfs(&image, &format!("write {} f", s.join("f").display()));
    let extents = debugfs(&image, "ex -l /f").lines().count();
    assert!(extents > 150, "only {extents} extents");
    assert_eq!(copy(&s, "disk.img:/f", &[]), data.len() as u64);
    assert_copied(&s, &image, "/f", &data);
}

#[test]
fn holes_stay_holes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut data = vec![0; 12 * MIB + 5000];
    for (at, len) in [(2 * MIB, MIB), (5 * MIB + 4096, 4096), (8 * MIB, 3 * MIB)] {
        data[at..at + len].copy_from_slice(&noise(len, at as u32));
    }
    s.write("tree/f", &data);
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext4"], 64);
    let by_host = copy(&s, "disk.img:/f", &[]);
    assert_eq!(by_host, 4 * MIB as u64 + 4096);
    assert_copied(&s, &image, "/f", &data);
    assert!(allocated(&s.join("out")) < 5 * MIB as u64);
    // As the user wants them, though.
    copy(&s, "disk.img:/f", &["--sparse=never"]);
    assert_copied(&s, &image, "/f", &data);
    assert!(allocated(&s.join("out")) >= data.len() as u64);
}

#[test]
fn zeroes_become_holes_when_that_is_wanted() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut data = noise(8 * MIB, 3);
    data[3 * MIB..6 * MIB].fill(0);
    s.ext4("disk.img", None, 64);
    s.write("f", &data);
    succeed(s.tane().args(["cp", "--sparse=never", "f", "disk.img:/"]));
    assert_eq!(
        copy(&s, "disk.img:/f", &["--sparse=always"]),
        8 * MIB as u64
    );
    assert_copied(&s, &s.join("disk.img"), "/f", &data);
    assert!(allocated(&s.join("out")) < 6 * MIB as u64);
}

#[test]
fn what_is_reserved_and_not_written_reads_as_zero() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut data = noise(6 * MIB, 4);
    data[MIB..5 * MIB].fill(0);
    s.write("tree/f", &data);
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext4", "-b4096"], 64);
    debugfs(&image, "fallocate /f 256 1279");
    // And some behind the end of the file.
    debugfs(&image, "fallocate /f 1536 1600");
    let extents = debugfs(&image, "ex -l /f");
    assert!(extents.contains("Uninit"), "{extents}");
    assert_eq!(copy(&s, "disk.img:/f", &[]), 2 * MIB as u64);
    assert_copied(&s, &image, "/f", &data);
}

#[test]
fn a_file_of_indirect_blocks_is_copied_too() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    // Triply indirect, with blocks of 1 KiB.
    let mut data = noise(68 * MIB + 1, 5);
    data[20 * MIB..22 * MIB].fill(0);
    s.write("tree/f", &data);
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext2", "-b1024"], 96);
    assert_eq!(copy(&s, "disk.img:/f", &[]), 66 * MIB as u64 + 1);
    assert_copied(&s, &image, "/f", &data);
}

#[test]
fn data_inside_an_inode_is_read_from_there() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data = noise(2 * MIB, 6);
    s.write("tree/large", &data);
    s.write("tree/tiny", b"a few bytes");
    let options = ["-t", "ext4", "-O", "inline_data", "-I256"];
    let image = image(&s, "disk.img", Some("tree"), &options, 64);
    let stat = debugfs(&image, "stat /tiny");
    assert!(stat.contains("Size of inline data"), "{stat}");
    assert_eq!(copy(&s, "disk.img:/tiny", &[]), 0);
    // debugfs reads more than there is.
    assert_eq!(s.read("out"), b"a few bytes");
    assert_eq!(copy(&s, "disk.img:/large", &[]), data.len() as u64);
    assert_copied(&s, &image, "/large", &data);
}

#[test]
fn in_a_partition_bytes_are_counted_from_its_start() {
    if !has_kernel() {
        return;
    }
    const START: u64 = 63 * 512; // where DOS put it: no multiple of a block
    let s = Scratch::new();
    let data = noise(5 * MIB + 17, 8);
    s.write("tree/f", &data);
    let part = image(&s, "part.img", Some("tree"), &["-t", "ext4"], 32);
    let disk = File::create(s.join("disk.img")).expect("a disk");
    disk.set_len(40 << 20).expect("truncate");
    let bytes = std::fs::read(&part).expect("the partition");
    disk.write_all_at(&bytes, START).expect("write");
    let mut table = [0u8; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..][..4].copy_from_slice(&((START / 512) as u32).to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&(32u32 << 11).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&table, 0).expect("write");
    assert_eq!(copy(&s, "disk.img@1:/f", &[]), data.len() as u64);
    assert!(s.read("out") == data);
    copy(&s, "part.img:/f", &[]);
    assert_copied(&s, &part, "/f", &data);
}

/// Puts newer blocks of /f, from the given one on, into the journal: what a power
/// cut leaves of data=journal.
fn write_journal(s: &Scratch, image: &Path, block: usize, new: &[u8]) {
    let blocks = debugfs(image, "blocks /f");
    let mut blocks = blocks
        .split_whitespace()
        .skip_while(|w| w.parse::<u64>().is_err());
    let first = blocks.nth(block).expect("a block");
    let last = blocks.nth(new.len() / BLOCK - 2).expect("a block");
    s.write("new", new);
    let new = s.join("new");
    let script = format!("jo\njw -b {first}-{last} {}\njc\n", new.display());
    s.write("journal", script.as_bytes());
    succeed(
        sbin("debugfs")
            .args(["-w", "-f"])
            .arg(s.join("journal"))
            .arg(image),
    );
}

#[test]
fn what_only_the_journal_has_is_copied_from_there() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let old = noise(6 * MIB, 9);
    let mut data = old.clone();
    let (at, len) = (400 * BLOCK, 64 * BLOCK);
    data[at..at + len].copy_from_slice(&noise(len, 10));
    s.write("tree/f", &old);
    let options = ["-t", "ext4", "-b4096", "-J", "size=16"];
    let dirty = image(&s, "dirty.img", Some("tree"), &options, 64);
    write_journal(&s, &dirty, 400, &data[at..at + len]);
    // debugfs does not look into the journal: the blocks are old.
    let read = succeed(sbin("debugfs").args(["-R", "cat /f"]).arg(&dirty)).stdout;
    assert!(read == old, "nothing is in the journal only");
    let before = std::fs::read(&dirty).expect("the image");
    let by_host = copy(&s, "dirty.img:/f", &[]);
    assert!(by_host > 0 && by_host < old.len() as u64, "{by_host}");
    assert!(std::fs::read(&dirty).expect("the image") == before);
    // e2fsck replays it; 1: errors were corrected.
    let fsck = sbin("e2fsck")
        .arg("-fy")
        .arg(&dirty)
        .output()
        .expect("fsck");
    assert!(fsck.status.code().is_some_and(|c| c <= 1), "{fsck:?}");
    assert_copied(&s, &dirty, "/f", &data);
}

/// A file whose first block was changed to one behind the end of the disk.
fn hostile(s: &Scratch, kind: &str, field: &str) {
    s.write("tree/bad", &noise(3 * MIB, 11));
    s.write("tree/good", &noise(3 * MIB, 12));
    let image = image(s, "disk.img", Some("tree"), &["-t", kind, "-b4096"], 32);
    debugfs(&image, &format!("sif /bad {field} 0x100000"));
    let said = exit(s.tane().args(["cp", "disk.img:/.", "out"]), 1);
    let said = text(&said.stderr);
    assert!(said.contains("bad: ") && !said.contains("good"), "{said}");
    assert!(!s.join("out/bad").exists());
    assert!(s.read("out/good") == s.read("tree/good"));
}

#[test]
fn an_extent_behind_the_end_of_the_disk_is_an_error() {
    if !has_kernel() {
        return;
    }
    // The header takes three words, the extent's number and length two.
    hostile(&Scratch::new(), "ext4", "block[5]");
}

#[test]
fn a_block_behind_the_end_of_the_disk_is_an_error() {
    if !has_kernel() {
        return;
    }
    hostile(&Scratch::new(), "ext2", "block[0]");
}

#[test]
fn from_image_to_image_it_is_the_same_file() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut data = noise(7 * MIB + 99, 13);
    data[2 * MIB..4 * MIB].fill(0);
    s.write("tree/f", &data);
    image(&s, "from.img", Some("tree"), &["-t", "ext4"], 64);
    let to = s.ext4("to.img", None, 64);
    let said = succeed(s.tane().args(["cp", "--json", "from.img:/f", "to.img:/f"]));
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(said["bytes_by_host"], 5 * MIB + 99);
    assert_sound(&to);
    copy(&s, "to.img:/f", &[]);
    assert_copied(&s, &to, "/f", &data);
}

#[test]
fn an_image_that_is_written_meanwhile_is_read_by_its_kernel() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data = noise(3 * MIB, 14);
    s.write("tree/f", &data);
    let image = image(&s, "disk.img", Some("tree"), &["-t", "ext4"], 64);
    let line = ["cp", "--json", "disk.img:/f", "disk.img:/g"];
    let said = succeed(s.tane().args(line)).stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(said["bytes_by_host"], 0);
    assert_sound(&image);
    copy(&s, "disk.img:/g", &[]);
    assert_copied(&s, &image, "/g", &data);
}

#[test]
fn a_full_destination_is_an_error_and_nothing_is_left_of_the_file() {
    if !has_kernel() || !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", &noise(9 * MIB, 15));
    image(&s, "disk.img", Some("tree"), &["-t", "ext4"], 64);
    std::fs::create_dir(s.join("small")).expect("mkdir");
    let script = "mount -t tmpfs -o size=6m none small || exit 99
        \"$0\" cp disk.img:/f small; code=$?; ls -A small; exit $code";
    let mut unshare = std::process::Command::new("unshare");
    unshare
        .current_dir(s.path())
        .args(["-m", "sh", "-c", script]);
    let output = exit(unshare.arg(env!("CARGO_BIN_EXE_tane")), 1);
    let said = text(&output.stderr);
    assert!(said.contains("small/f: no space left"), "{said}");
    assert_eq!(text(&output.stdout), "");
}

/// Makes fs-verity watch over /f. False: this kernel image has none.
fn enable_verity(image: &Path) -> bool {
    const FS_IOC_ENABLE_VERITY: u64 = 0x4080_6685;
    let kernel = tane::Kernel::boot().expect("Linux");
    let disk = kernel.open_disk(image, &tane::DiskOptions::new());
    let disk = disk.expect("a disk");
    let mount = tane::MountOptions::new().mount(&kernel, disk.device());
    let mount = mount.expect("a mount");
    let file = mount.open("/f").expect("the file");
    // struct fsverity_enable_arg: version 1, SHA-256, blocks of 4 KiB.
    let mut argument = [0u32; 32];
    argument[..3].copy_from_slice(&[1, 1, 4096]);
    let (fd, at) = (file.kernel_fd() as u64, argument.as_ptr() as u64);
    let arguments = [fd, FS_IOC_ENABLE_VERITY, at, 0, 0, 0];
    // SAFETY: the request reads 128 bytes, and they are there.
    let result = unsafe { kernel.syscall(libc::SYS_ioctl, arguments) };
    drop(file);
    mount.unmount().expect("unmounts");
    match -result as i32 {
        0 => true,
        libc::EOPNOTSUPP | libc::ENOTTY => false,
        errno => panic!("{}", std::io::Error::from_raw_os_error(errno)),
    }
}

#[test]
fn what_fs_verity_watches_over_is_never_copied_unchecked() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data = noise(3 * MIB, 16);
    s.write("tree/f", &data);
    let options = ["-t", "ext4", "-b4096", "-O", "verity"];
    let image = image(&s, "disk.img", Some("tree"), &options, 32);
    if !enable_verity(&image) {
        skip("this kernel image has no fs-verity");
        return;
    }
    assert_eq!(copy(&s, "disk.img:/f", &[]), 0);
    assert_copied(&s, &image, "/f", &data);
    let block = debugfs(&image, "bmap /f 500");
    let block = block.lines().find_map(|l| l.parse::<u64>().ok());
    let at = block.expect("a block") * BLOCK as u64;
    let disk = File::options().write(true).open(&image).expect("the image");
    disk.write_all_at(&[!data[500 * BLOCK]], at).expect("write");
    std::fs::remove_file(s.join("out")).expect("rm");
    exit(s.tane().args(["cp", "disk.img:/f", "out"]), 1);
    assert!(!s.join("out").exists());
}
