//! Promises about what file systems take without a word, and have otherwise then.

use crate::common::*;
use serde_json::Value;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tane_test_support::{is_root, tool};

/// Types, the package and program that make one, its options, MiB.
const KINDS: [(&str, &str, &str, &str, u64); 15] = [
    ("ext2", "e2fsprogs", "mkfs.ext2", "-q -I 128", 16),
    ("ext4", "e2fsprogs", "mkfs.ext4", "-q -I 128", 16),
    ("xfs", "xfsprogs", "mkfs.xfs", "-q", 320),
    ("btrfs", "btrfs-progs", "mkfs.btrfs", "-q", 128),
    ("f2fs", "f2fs-tools", "mkfs.f2fs", "-q", 64),
    ("jfs", "jfsutils", "mkfs.jfs", "-q", 64),
    ("nilfs2", "nilfs-tools", "mkfs.nilfs2", "-q", 512),
    ("udf", "udftools", "mkudffs", "-b 512", 64),
    ("vfat", "dosfstools", "mkfs.vfat", "", 64),
    ("exfat", "exfatprogs", "mkfs.exfat", "", 64),
    ("ntfs3", "ntfs-3g", "mkfs.ntfs", "-q -F", 64),
    ("hfsplus", "", "", "", 64), // made here
    ("minix", "util-linux", "mkfs.minix", "-1", 16),
    ("minix", "util-linux", "mkfs.minix", "-2", 16),
    ("minix", "util-linux", "mkfs.minix", "-3", 16),
];
const FILES: [&str; 4] = ["d", "d/f", "f", "late"];

/// None, and the type is skipped, without its tools.
fn empty(
    s: &Scratch,
    (fs, package, mkfs, options, mib): (&str, &str, &str, &str, u64),
) -> Option<()> {
    let image = s.join("disk.img");
    if fs == "hfsplus" {
        std::fs::write(&image, crate::hfsplus::make(mib)).expect("an image");
        return Some(());
    }
    let mut mkfs = tool(package, mkfs)?;
    let file = File::create(&image).expect("a file");
    file.set_len(mib << 20).expect("its size");
    let made = mkfs.args(options.split_whitespace()).arg(&image).output();
    let made = made.unwrap_or_else(|e| panic!("{fs}: {e}"));
    assert!(made.status.success(), "{fs}: {}", text(&made.stderr));
    Some(())
}

/// Seconds since 1970, and nanoseconds.
type Time = (u64, u32);

fn set_times(path: &Path, accessed: Time, modified: Time) {
    let at = |(seconds, more)| SystemTime::UNIX_EPOCH + Duration::new(seconds, more);
    let times = FileTimes::new();
    let times = times.set_accessed(at(accessed)).set_modified(at(modified));
    let file = File::open(path).expect("a file");
    file.set_times(times).expect("its times");
}

/// Files with odd times, modes and owners.
fn tree(s: &Scratch) {
    for name in ["d/f", "f", "late"] {
        s.write(&format!("tree/{name}"), b"data");
    }
    for (i, name) in ["d/f", "f", "late", "d", ""].into_iter().enumerate() {
        let path = s.join(&format!("tree/{name}"));
        let n = 301 + 70_000 * (i as u32 % 2);
        if is_root() {
            std::os::unix::fs::chown(&path, Some(n), Some(n)).expect("an owner");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o751)).expect("a mode");
        let (accessed, modified) = match name {
            "late" => ((10_000_000_000, 750_000_000), (10_000_000_000, 500_000_000)),
            _ => ((1_044_245_107, 987_654_321), (981_173_107, 123_456_789)),
        };
        set_times(&path, accessed, modified);
    }
}

fn stat(s: &Scratch, image: &str, path: &str) -> Value {
    let at = format!("{image}:/{path}");
    let said = succeed(s.tane().args(["stat", "--json", &at])).stdout;
    serde_json::from_slice(&said).expect("JSON")
}

/// What is told of a file, by words of `losses`.
fn told<'v>(copied: &'v Value, path: &str) -> Vec<&'v str> {
    let losses = copied["losses"].as_array().expect("losses").iter();
    let own = losses.filter(|l| {
        l["path"]
            .as_str()
            .is_some_and(|p| p.ends_with(&format!(":/{path}")))
    });
    own.map(|l| l["what"].as_str().expect("what")).collect()
}

fn copy(s: &Scratch, image: &str) -> Value {
    let to = format!("{image}:/");
    let said = succeed(s.tane().args(["cp", "-q", "--json", "tree/.", &to])).stdout;
    serde_json::from_slice(&said).expect("JSON")
}

#[test]
fn what_a_file_has_otherwise_after_the_next_mount_was_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    // It keeps all of it.
    s.ext4("good.img", None, 16);
    assert_eq!(
        copy(&s, "good.img")["losses"].as_array().map(Vec::len),
        Some(0)
    );
    for kind in KINDS {
        if empty(&s, kind).is_none() {
            continue;
        }
        let copied = copy(&s, "disk.img");
        for path in FILES {
            let (wanted, found) = (stat(&s, "good.img", path), stat(&s, "disk.img", path));
            let told = told(&copied, path);
            let same = |key: &str| wanted[key] == found[key];
            for (keys, words) in [
                (&["mtime", "atime"][..], &["times", "exact times"][..]),
                (&["uid", "gid"], &["owner"]),
                (&["mode"], &["mode", "set-user-ID or set-group-ID bit"]),
            ] {
                let is_told = told.iter().any(|what| words.contains(what));
                let is_lost = !keys.iter().all(|key| same(key));
                assert_eq!(
                    is_lost, is_told,
                    "{kind:?} {path}: {keys:?} {wanted} {found} {told:?}"
                );
            }
        }
    }
}

#[test]
fn times_that_are_cut_short_are_one_warning_and_an_error_under_strict() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for name in ["tree/a", "tree/b", "tree/c"] {
        s.write(name, b"");
        set_times(&s.join(name), (1_000_000_000, 5), (1_000_000_000, 5));
    }
    let kind = KINDS[0];
    if empty(&s, kind).is_none() {
        return;
    }
    let said = succeed(
        s.tane()
            .args(["cp", "tree/a", "tree/b", "tree/c", "disk.img:/"]),
    );
    let said = text(&said.stderr);
    assert_eq!(said.matches(": exact times not kept").count(), 1, "{said}");
    assert!(said.contains("exact times: 2 more not kept"), "{said}");
    exit(s.tane().args(["cp", "--strict", "tree/a", "disk.img:/"]), 1);
    // Whole seconds are kept.
    set_times(&s.join("tree/a"), (1_000_000_000, 0), (1_000_000_000, 0));
    succeed(s.tane().args(["cp", "--strict", "tree/a", "disk.img:/"]));
}

/// Linux gives each file it makes there what a Mac calls Finder information, and lists its
/// name without the last character.
#[test]
fn attributes_of_hfsplus_are_told_by_their_whole_names() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    std::fs::write(s.join("hfs.img"), crate::hfsplus::make(64)).expect("an image");
    s.write("tree/f", b"data");
    succeed(s.tane().args(["cp", "tree/f", "hfs.img:/"]));
    let listed = succeed(s.tane().args(["xattr", "list", "hfs.img:/f"])).stdout;
    assert!(
        text(&listed).contains("osx.com.apple.FinderInfo"),
        "{}",
        text(&listed)
    );
    let said = text(&succeed(s.tane().args(["cp", "hfs.img:/f", "out"])).stderr);
    assert!(
        said.contains("extended attribute osx.com.apple.FinderInfo not kept"),
        "{said}"
    );
    assert_eq!(s.read("out"), b"data");
}
