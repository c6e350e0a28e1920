//! Promises about destinations that lack something: room, hard links, symlinks, holes,
//! names. The type's own fsck and other readers are the judges.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::Path;
use std::process::{Command, Output};
use tane_test_support::tool;

/// An empty file system in `name`; None, and the test is skipped, without its mkfs.
fn empty(s: &Scratch, name: &str, size: u64, package: &str, mkfs: &str) -> Option<()> {
    if !has_kernel() {
        return None;
    }
    let (program, options) = mkfs.split_once(' ').unwrap_or((mkfs, ""));
    let mut made = tool(package, program)?;
    let file = std::fs::File::create(s.join(name)).expect("a file");
    file.set_len(size).expect("its size");
    made.args(options.split_whitespace());
    succeed(made.arg(s.join(name)));
    Some(())
}

pub fn vfat(s: &Scratch, name: &str, size: u64) -> Option<()> {
    empty(s, name, size, "dosfstools", "mkfs.vfat")
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The paths in a list of the report, below the root of the image.
pub fn paths(report: &Value, list: &str) -> BTreeSet<String> {
    let all = report[list].as_array().expect(list).iter();
    let path = |one: &Value| {
        let path = one["path"].as_str().expect("a path");
        path.rsplit_once(":/").expect("an address").1.to_owned()
    };
    all.map(path).collect()
}

/// What of it was lost, by the words of the report.
fn lost(report: &Value, what: &str) -> usize {
    let all = report["losses"].as_array().expect("losses").iter();
    all.filter(|one| one["what"] == what).count()
}

pub fn sound_fat(s: &Scratch, image: &str) {
    succeed(sbin("fsck.vfat").arg("-n").arg(s.join(image)));
}

/// What mtools reads.
pub fn mtype(s: &Scratch, image: &str, path: &str) -> Vec<u8> {
    let mut mtype = Command::new("mtype");
    mtype.arg("-i").arg(s.join(image)).arg(format!("::{path}"));
    succeed(&mut mtype).stdout
}

/// Two names of a file, a symlink, and what else a FAT has none of.
fn linked(s: &Scratch) {
    s.write("tree/d/first", b"linked");
    std::fs::hard_link(s.join("tree/d/first"), s.join("tree/second")).expect("a link");
    symlink("first", s.join("tree/d/soft")).expect("a symlink");
    std::fs::hard_link(s.join("tree/d/soft"), s.join("tree/d/soft too")).expect("a link");
    succeed(Command::new("mkfifo").arg(s.join("tree/fifo")));
}

#[test]
fn without_hard_links_each_name_is_a_file_of_its_own_and_that_is_told() {
    let s = Scratch::new();
    linked(&s);
    succeed(&mut s.command("tar", "-C tree -cf tree.tar ."));
    let exfat = || empty(&s, "exfat.img", 8 << 20, "exfatprogs", "mkfs.exfat");
    let fat = || vfat(&s, "vfat.img", 8 << 20);
    for (image, make) in [
        ("vfat.img", &fat as &dyn Fn() -> Option<()>),
        ("exfat.img", &exfat),
    ] {
        for verb in [
            &["cp", "-q", "--json", "tree/."][..],
            &["tar", "extract", "-q", "--json", "tree.tar"],
        ] {
            if make().is_none() {
                return;
            }
            let mut command = s.tane();
            let at = format!("{image}:/");
            let report = json(&succeed(command.args(verb).arg(&at)));
            assert_eq!(report["errors"], Value::from(Vec::<Value>::new()));
            // A symlink's second name is lost with it.
            let links = lost(&report, "hard link") + lost(&report, "symlink");
            assert_eq!((links, lost(&report, "fifo or socket")), (3, 1), "{report}");
            for name in ["d/first", "second"] {
                let path = format!("{at}{name}");
                assert_eq!(succeed(s.tane().args(["cat", &path])).stdout, b"linked");
            }
            let mut command = s.tane();
            exit(command.args(verb).args([&at, "--strict"]), 1);
        }
    }
    sound_fat(&s, "vfat.img");
    assert_eq!(mtype(&s, "vfat.img", "/second"), b"linked");
    succeed(sbin("fsck.exfat").arg("-n").arg(s.join("exfat.img")));
}

#[test]
fn a_name_that_a_fat_makes_shorter_is_told() {
    let s = Scratch::new();
    for name in ["tree/new./f", "tree/dots..", "tree/a.b", "tree/.c"] {
        s.write(name, b"data");
    }
    let exfat = || empty(&s, "exfat.img", 8 << 20, "exfatprogs", "mkfs.exfat");
    let fat = || vfat(&s, "vfat.img", 8 << 20);
    for (image, make) in [
        ("vfat.img", &fat as &dyn Fn() -> Option<()>),
        ("exfat.img", &exfat),
    ] {
        if make().is_none() {
            return;
        }
        let at = format!("{image}:/");
        let report = json(&succeed(
            s.tane().args(["cp", "-q", "--json", "tree/.", &at]),
        ));
        assert_eq!(lost(&report, "end of its name"), 2, "{report}");
        for name in ["new/f", "dots", "a.b", ".c"] {
            let path = format!("{at}{name}");
            assert_eq!(succeed(s.tane().args(["cat", &path])).stdout, b"data");
        }
        exit(s.tane().args(["cp", "--strict", "tree/dots..", &at]), 1);
    }
}

#[test]
fn so_it_is_where_the_host_shows_another_file_system_by_fuse() {
    if !fuse::has_fuse() {
        return;
    }
    let s = Scratch::new();
    linked(&s);
    s.ext4("from.img", Some(&s.join("tree")), 16);
    if vfat(&s, "vfat.img", 8 << 20).is_none() {
        return;
    }
    let mounted = fuse::Mounted::new(&s, &["--rw", "vfat.img"]);
    let report = json(&succeed(s.tane().args([
        "cp",
        "-q",
        "--json",
        "from.img:/.",
        "mnt",
    ])));
    mounted.unmount();
    assert_eq!(
        (lost(&report, "hard link"), &report["files"]),
        (1, &2.into())
    );
    assert_eq!(mtype(&s, "vfat.img", "/d/first"), b"linked");
    assert_eq!(mtype(&s, "vfat.img", "/second"), b"linked");
}

#[test]
fn a_fat_image_of_a_tree_with_links_is_made_and_has_room_for_each_name() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    linked(&s);
    s.write("tree/large", &[7; 4 << 20]);
    for n in 0..8 {
        let name = s.join(&format!("tree/large{n}"));
        std::fs::hard_link(s.join("tree/large"), name).expect("a link");
    }
    let made = s
        .tane()
        .args(["make-image", "--fs=vfat", "tree", "a.img"])
        .output();
    let made = made.expect("tane");
    let said = text(&made.stderr);
    assert_eq!(made.status.code(), Some(0), "{said}");
    assert!(
        said.contains("/: times not kept") && !said.contains("''"),
        "{said}"
    );
    sound_fat(&s, "a.img");
    assert_eq!(mtype(&s, "a.img", "/second"), b"linked");
    assert!(mtype(&s, "a.img", "/large7") == [7; 4 << 20]);
}

#[test]
fn more_names_than_a_file_can_have_are_files_of_their_own() {
    let s = Scratch::new();
    if empty(&s, "minix.img", 4 << 20, "util-linux", "mkfs.minix -1").is_none() {
        return;
    }
    s.write("tree/f", b"one");
    for n in 0..300 {
        std::fs::hard_link(s.join("tree/f"), s.join(&format!("tree/f{n}"))).expect("a link");
    }
    let report = json(&succeed(s.tane().args([
        "cp",
        "-q",
        "--json",
        "tree/.",
        "minix.img:/",
    ])));
    // A file of minix 1 has 250 names at most.
    assert_eq!(
        (&report["files"], lost(&report, "hard link")),
        (&2.into(), 1)
    );
    assert_eq!(report["hard_links"], 299);
    succeed(sbin("fsck.minix").arg("-f").arg(s.join("minix.img")));
    let last = succeed(s.tane().args(["cat", "minix.img:/f299"])).stdout;
    assert_eq!(last, b"one");
}

#[test]
fn names_that_the_destination_does_not_take_are_told_and_the_rest_is_copied() {
    let s = Scratch::new();
    for name in ["a:b", "what?", "good", "z"] {
        s.write(&format!("tree/{name}"), name.as_bytes());
    }
    if vfat(&s, "disk.img", 4 << 20).is_none() {
        return;
    }
    let output = exit(s.tane().args(["cp", "--json", "tree/.", "disk.img:/"]), 1);
    let report = json(&output);
    let wanted = BTreeSet::from(["a:b".into(), "what?".into()]);
    assert_eq!(paths(&report, "errors"), wanted);
    let said = text(&output.stderr);
    assert!(said.contains("a:b: invalid argument: the file system there takes no such name"));
    assert_eq!(mtype(&s, "disk.img", "/z"), b"z");
}

/// What ntfsinfo says of a file, as numbers by their names.
fn ntfs_sizes(s: &Scratch, path: &str) -> Vec<(String, u64)> {
    let mut ntfsinfo = Command::new("ntfsinfo");
    let said = succeed(ntfsinfo.args(["-F", path]).arg(s.join("ntfs.img")));
    let said = text(&said.stdout);
    let data = said.split("$DATA").nth(1).expect("data");
    let number = |line: &str| {
        let (name, rest) = line.trim().split_once(':')?;
        Some((name.into(), rest.split_whitespace().next()?.parse().ok()?))
    };
    data.lines().filter_map(number).collect()
}

#[test]
fn ntfs_keeps_holes_and_takes_files_longer_than_the_volume() {
    let s = Scratch::new();
    let size = 300u64 << 20;
    let file = std::fs::File::create(s.write("tree/f", b"")).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, b"the end", size - 7).expect("data");
    succeed(&mut s.command("tar", "-S -C tree -cf tree.tar f"));
    let ways: [&[&str]; 3] = [
        &["cp", "tree/f", "ntfs.img:/f"],
        &["cp", "--sparse=always", "tree/f", "ntfs.img:/f"],
        &["tar", "extract", "tree.tar", "ntfs.img:/"],
    ];
    for way in ways {
        if empty(&s, "ntfs.img", 16 << 20, "ntfs-3g", "mkfs.ntfs -q -F").is_none() {
            return;
        }
        succeed(s.tane().args(way));
        let sizes = ntfs_sizes(&s, "/f");
        let of = |name: &str| sizes.iter().find(|(n, _)| n == name).expect(name).1;
        assert_eq!(of("Data size"), size, "{way:?}");
        assert!(of("Compressed size") <= 64 << 10, "{way:?}: {sizes:?}");
        let got = succeed(Command::new("ntfscat").arg(s.join("ntfs.img")).arg("f"));
        assert!(got.stdout == s.read("tree/f"), "{way:?}");
        succeed(sbin("ntfsfix").arg("-n").arg(s.join("ntfs.img")));
    }
    succeed(s.tane().args(["truncate", "-s", "1G", "ntfs.img:/new"]));
    // Holes out of it are holes on the host.
    succeed(s.tane().args(["cp", "ntfs.img:/f", "out"]));
    let blocks = |path: &Path| path.metadata().expect("a copy").blocks();
    assert!(blocks(&s.join("out")) * 512 <= 64 << 10);
}

#[test]
fn what_xfs_keeps_acls_in_stays_there_and_the_acls_go_along() {
    let s = Scratch::new();
    if empty(&s, "xfs.img", 320 << 20, "xfsprogs", "mkfs.xfs -q -f").is_none() {
        return;
    }
    // An ACL with an entry for user 7: version 2, five entries.
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm, id) in [
        (1u16, 6u16, u32::MAX),
        (2, 4, 7),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 4, u32::MAX),
    ] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&perm.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    let hex: String = acl.iter().map(|b| format!("{b:02x}")).collect();
    s.write("f", b"data");
    succeed(s.tane().args(["cp", "f", "xfs.img:/f"]));
    let name = "system.posix_acl_access";
    succeed(
        s.tane()
            .args(["xattr", "set", "--hex", name, &hex, "xfs.img:/f"]),
    );
    let names = |image: &str| {
        let output = succeed(s.tane().args(["xattr", "list", "--json", image]));
        let list = json(&output)["xattrs"].as_array().cloned().expect("a list");
        let names = list
            .iter()
            .map(|x| x["name"].as_str().expect("a name").to_owned());
        names.collect::<BTreeSet<_>>()
    };
    assert!(names("xfs.img:/f").contains("trusted.SGI_ACL_FILE"));
    s.ext4("ext4.img", None, 16);
    succeed(
        s.tane()
            .args(["cp", "--strict", "xfs.img:/f", "ext4.img:/f"]),
    );
    assert_eq!(names("ext4.img:/f"), BTreeSet::from([name.into()]));
    succeed(
        s.tane()
            .args(["tar", "create", "--strict", "f.tar", "xfs.img:/f"]),
    );
    let archive = s.read("f.tar");
    let has = |text: &[u8]| archive.windows(text.len()).any(|w| w == text);
    assert!(has(b"SCHILY.xattr.system.posix_acl_access") && !has(b"SGI_ACL"));
    succeed(
        s.tane()
            .args(["diff", "--ignore=owner", "xfs.img:/f", "ext4.img:/f"]),
    );
}
