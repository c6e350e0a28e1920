//! Promises about blocks that several files have in common. Judges are btrfs-progs and
//! xfs_db, which say where files lie.

use crate::common::*;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tane_test_support::tool;

const KIB: usize = 1 << 10;
const SOURCES: [&str; 5] = ["a", "b", "part", "small", "small2"];
/// Those that have blocks of one that comes before them.
const COPIES: [&str; 3] = ["b", "part", "small2"];
const PAIRS: [(&str, &str); 4] = [
    ("a", "b"),
    ("a", "part"),
    ("b", "part"),
    ("small", "small2"),
];

fn pair(a: &str, b: &str) -> (String, String) {
    (a.into(), b.into())
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// An empty file system of that kind; None, and the test is skipped, without its tools.
fn empty(s: &Scratch, fs: &str, name: &str) -> Option<PathBuf> {
    let image = s.join(name);
    let file = std::fs::File::create(&image).expect("a file");
    file.set_len(320 << 20).expect("a length");
    let mut mkfs = match fs {
        "btrfs" => tool("btrfs-progs", "mkfs.btrfs")?,
        "xfs" => tool("xfsprogs", "mkfs.xfs")?,
        fs => sbin(&format!("mkfs.{fs}")),
    };
    succeed(mkfs.arg("-q").arg(&image));
    Some(image)
}

/// Has the Linux inside do something to an image.
fn inside(image: &Path, work: impl FnOnce(&tane::Mount)) {
    let kernel = tane::Kernel::boot().expect("Linux");
    let disk = kernel.open_disk(image, &tane::DiskOptions::new());
    let disk = disk.expect("a disk");
    let mount = tane::MountOptions::new().mount(&kernel, disk.device());
    let mount = mount.expect("a mount");
    work(&mount);
    mount.unmount().expect("unmounts");
}

fn ioctl<T>(fd: i32, kernel: &tane::Kernel, request: u64, argument: &T) {
    let at = std::ptr::from_ref(argument) as u64;
    let arguments = [fd as u64, request, at, 0, 0, 0];
    // SAFETY: the request reads the argument, which is of its type.
    let result = unsafe { kernel.try_syscall(libc::SYS_ioctl, arguments) };
    result.expect("an ioctl");
}

fn reflink(from: &tane::File, part: Range<usize>, to: &tane::File, at: usize) {
    const FICLONERANGE: u64 = 0x4020_940d;
    let fd = from.kernel_fd() as u64;
    let argument = [fd, part.start as u64, part.len() as u64, at as u64];
    ioctl(to.kernel_fd(), to.kernel(), FICLONERANGE, &argument);
}

/// An image with files in /d that share blocks, and one that does not.
fn source(s: &Scratch, fs: &str) -> Option<PathBuf> {
    let image = empty(s, fs, "source.img")?;
    inside(&image, |mount| {
        mount.create_dir("/d").expect("mkdir");
        let new = |name: &str, data: &[u8]| {
            let path = format!("/d/{name}");
            mount.write(&path, data).expect("writes");
            let mut options = tane::OpenOptions::new();
            let file = options.read(true).write(true).open(mount, &path);
            file.expect("a file")
        };
        let a = new("a", &noise(1024 * KIB, 1));
        reflink(&a, 0..1024 * KIB, &new("b", b""), 0);
        let part = new("part", &noise(64 * KIB, 2));
        reflink(&a, 0..512 * KIB, &part, 64 * KIB);
        let small = new("small", &noise(5000, 3));
        reflink(&small, 0..5000, &new("small2", b""), 0);
        new("alone", &noise(100 * KIB, 4));
    });
    let pairs = PAIRS.map(|(a, b)| pair(a, b));
    assert_eq!(pairs_of(s, fs, &image, &paths("d")), pairs, "the source");
    Some(image)
}

fn paths(dir: &str) -> Vec<(String, String)> {
    let path = |name: &&str| (name.to_string(), format!("{dir}/{name}"));
    SOURCES.iter().map(path).collect()
}

/// Where files lie, given by name and path.
fn places(s: &Scratch, fs: &str, image: &Path, path: &str) -> Vec<Range<u64>> {
    let at = format!("{}:/{path}", image.display());
    let stat = succeed(s.tane().args(["--json", "stat", &at])).stdout;
    let stat: serde_json::Value = serde_json::from_slice(&stat).expect("JSON");
    let inode = stat["inode"].as_u64().expect("an inode");
    let number = |line: &str, word: &str| -> Option<u64> {
        line.split_once(word)?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let range = |at: Option<u64>, len: Option<u64>| Some(at?..at? + len?);
    if fs == "xfs" {
        let inode = format!("inode {inode}");
        let mut db = sbin("xfs_db");
        db.args(["-r", "-c", &inode, "-c", "bmap"]).arg(image);
        let said = text(&succeed(&mut db).stdout);
        let lines = said.lines();
        return lines
            .filter_map(|l| range(number(l, "startblock "), number(l, "count ")))
            .collect();
    }
    let mut btrfs = sbin("btrfs");
    btrfs.args(["inspect-internal", "dump-tree", "-t", "5"]);
    let said = text(&succeed(btrfs.arg(image)).stdout);
    let key = format!("key ({inode} EXTENT_DATA ");
    let items = said.split("\titem ").filter(|item| item.contains(&key));
    let places = items.filter_map(|item| {
        let (byte, offset) = (number(item, "disk byte ")?, number(item, "data offset ")?);
        let part = item.split_once("data offset ")?.1;
        range(Some(byte + offset), number(part, "nr "))
    });
    places.collect()
}

/// The files that have blocks in common.
fn pairs_of(
    s: &Scratch,
    fs: &str,
    image: &Path,
    paths: &[(String, String)],
) -> Vec<(String, String)> {
    let places: Vec<_> = paths
        .iter()
        .map(|(_, path)| places(s, fs, image, path))
        .collect();
    let overlap = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let mut pairs = Vec::new();
    for (i, a) in places.iter().enumerate() {
        for (j, b) in places.iter().enumerate().skip(i) {
            let both = a.iter().enumerate().any(|(m, x)| {
                let others = b.iter().enumerate();
                let mut others = others.filter(|(n, _)| i != j || m != *n);
                others.any(|(_, y)| overlap(x, y))
            });
            if both {
                pairs.push((paths[i].0.clone(), paths[j].0.clone()));
            }
        }
    }
    pairs
}

/// Files in two directories of images have the same bytes.
fn assert_equal_inside(s: &Scratch, a: &str, b: &str) {
    for name in SOURCES.iter().chain(&["alone"]) {
        let read = |dir: &str| {
            let at = format!("{dir}/{name}");
            succeed(s.tane().args(["cat", &at])).stdout
        };
        assert!(read(a) == read(b), "{name}");
    }
}

fn assert_sound_of(fs: &str, image: &Path) {
    match fs {
        "xfs" => succeed(sbin("xfs_repair").arg("-n").arg(image)),
        _ => succeed(
            sbin("btrfs")
                .args(["check", "--check-data-csum"])
                .arg(image),
        ),
    };
}

#[test]
fn files_that_share_blocks_share_them_in_another_image() {
    if !has_kernel() {
        return;
    }
    for fs in ["btrfs", "xfs"] {
        let s = Scratch::new();
        let (Some(_), Some(copy)) = (source(&s, fs), empty(&s, fs, "copy.img")) else {
            return;
        };
        succeed(
            s.tane()
                .args(["cp", "--strict", "source.img:/d", "copy.img:/new"]),
        );
        let pairs = PAIRS.map(|(a, b)| pair(a, b));
        assert_eq!(pairs_of(&s, fs, &copy, &paths("new")), pairs, "{fs}");
        assert_equal_inside(&s, "source.img:/d", "copy.img:/new");
        assert_sound_of(fs, &copy);
    }
}

#[test]
fn copies_within_an_image_have_the_blocks_of_what_they_copy() {
    if !has_kernel() {
        return;
    }
    for fs in ["btrfs", "xfs"] {
        let s = Scratch::new();
        let Some(image) = source(&s, fs) else { return };
        succeed(
            s.tane()
                .args(["cp", "--strict", "source.img:/d", "source.img:/e"]),
        );
        let both = |name: &str| {
            let path = |dir: &str| (dir.to_owned(), format!("{dir}/{name}"));
            pairs_of(&s, fs, &image, &[path("d"), path("e")])
        };
        for name in ["a", "b", "part", "small", "alone"] {
            assert_eq!(both(name), [pair("d", "e")], "{fs}: {name}");
        }
        assert_equal_inside(&s, "source.img:/d", "source.img:/e");
        assert_sound_of(fs, &image);
    }
}

/// The files of which a command says that their blocks are not shared any more.
fn told(said: &std::process::Output) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let losses = json["losses"].as_array().expect("losses").iter();
    let mut names: Vec<_> = losses
        .map(|loss| {
            assert_eq!(loss["what"], "reflink", "{loss}");
            let path = loss["path"].as_str().expect("a path");
            path.rsplit('/').next().expect("a name").to_owned()
        })
        .collect();
    names.sort();
    let warnings = text(&said.stderr).matches("reflink not kept").count();
    assert_eq!(warnings, names.len(), "{}", text(&said.stderr));
    names
}

#[test]
fn blocks_that_cannot_be_shared_are_one_warning_a_file_and_strict_fails() {
    if !has_kernel() {
        return;
    }
    for fs in ["btrfs", "xfs"] {
        let s = Scratch::new();
        if source(&s, fs).is_none() {
            return;
        }
        s.ext4("plain.img", None, 64);
        for to in [
            &["cp", "source.img:/d", "plain.img:/d"][..],
            &["tar", "create", "d.tar", "source.img:/d"],
        ] {
            let said = succeed(s.tane().arg("--json").args(to));
            assert_eq!(told(&said), COPIES, "{fs}: {to:?}");
            exit(s.tane().args(to).arg("--strict"), 1);
        }
        assert_equal_inside(&s, "source.img:/d", "plain.img:/d");
    }
}

#[test]
fn a_file_that_comes_alone_has_lost_nothing() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    if source(&s, "btrfs").is_none() {
        return;
    }
    s.ext4("plain.img", None, 64);
    for name in ["b", "part", "alone"] {
        let from = format!("source.img:/d/{name}");
        let said = succeed(s.tane().args(["cp", "--strict", &from, "plain.img:/"]));
        assert_eq!(text(&said.stderr), "", "{name}");
    }
}

#[test]
fn a_subvolume_that_becomes_a_directory_is_told() {
    const BTRFS_IOC_SUBVOL_CREATE: u64 = 0x5000_940e;
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let Some(image) = empty(&s, "btrfs", "source.img") else {
        return;
    };
    inside(&image, |mount| {
        // struct btrfs_ioctl_vol_args: a number that is unused here, and a name.
        let mut argument = [0u8; 4096];
        argument[8..11].copy_from_slice(b"sub");
        let dir = mount.open_dir("/").expect("the root");
        ioctl(
            dir.kernel_fd(),
            dir.kernel(),
            BTRFS_IOC_SUBVOL_CREATE,
            &argument,
        );
        mount.write("/sub/f", b"inside").expect("writes");
    });
    s.ext4("plain.img", None, 64);
    for to in [
        &["cp", "source.img:/.", "plain.img:/"][..],
        &["tar", "create", "d.tar", "source.img:/."],
    ] {
        let said = text(&succeed(s.tane().args(to)).stderr);
        assert_eq!(said.matches("sub: subvolume not kept").count(), 1, "{said}");
        assert_eq!(said.matches("warning").count(), 1, "{said}");
        exit(s.tane().args(to).arg("--strict"), 1);
    }
    let read = succeed(s.tane().args(["cat", "plain.img:/sub/f"])).stdout;
    assert_eq!(text(&read), "inside");
}
