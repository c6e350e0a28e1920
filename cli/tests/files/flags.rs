//! Promises about what chattr(1) sets, with debugfs and lsattr as the judges.

use crate::common::*;
use std::path::{Path, PathBuf};
use tane_test_support::{has_root, skip};

/// What debugfs says of a file: its flags, without those that say how ext4
/// stores it, and its project.
fn judged(image: &Path, path: &str) -> (u32, u32) {
    let said = debugfs(image, &["-R", &format!("stat {path}")]);
    let after = |word: &str| {
        let rest = said.split_once(word)?.1.split_whitespace().next()?;
        Some(rest.to_owned())
    };
    let flags = after("Flags: ").unwrap_or_else(|| panic!("{path}: {said}"));
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).expect("flags");
    let project = after("Project:").map_or(0, |id| id.parse().expect("a project"));
    (flags & !(EXTENTS | INDEX | INLINE), project)
}

const EXTENTS: u32 = 0x8_0000;
const INDEX: u32 = 0x1000;
const INLINE: u32 = 0x1000_0000;

fn debugfs(image: &Path, args: &[&str]) -> String {
    text(&succeed(sbin("debugfs").args(args).arg(image)).stdout)
}

/// An image with projects, or without.
fn image(s: &Scratch, name: &str, contents: Option<&Path>, projects: bool) -> PathBuf {
    let image = s.ext4(name, contents, 64);
    if projects {
        debugfs(&image, &["-w", "-R", "feature project"]);
    }
    image
}

const ALL: [(&str, u32, u32); 8] = [
    ("d", 0x2000_00c0, 7), // nodump, noatime, its project for what is new
    ("d/immutable", 0x10, 7),
    ("d/append", 0x20, 0),
    ("d/many", 0x40c8, 8), // sync, journalled, nodump, noatime
    ("d/linked", 0x10, 9),
    ("d/sealed", 0x10, 0),
    ("d/sealed/inside", 0, 3),
    ("grows", 0x20, 0),
];

/// An image whose files have all that is in `ALL`.
fn source(s: &Scratch) -> PathBuf {
    for name in [
        "d/immutable",
        "d/append",
        "d/many",
        "d/linked",
        "d/sealed/inside",
        "grows/f",
    ] {
        s.write(&format!("tree/{name}"), b"data");
    }
    std::fs::hard_link(s.join("tree/d/linked"), s.join("tree/grows/another")).expect("link");
    let source = image(s, "source.img", Some(&s.join("tree")), true);
    for (path, flags, project) in ALL {
        // What ext4 itself put there stays.
        let said = debugfs(&source, &["-R", &format!("stat /{path}")]);
        let stored = if said.contains("0x80000") { EXTENTS } else { 0 };
        let flags = format!("set_inode_field /{path} flags {}", flags | stored);
        debugfs(&source, &["-w", "-R", &flags]);
        let project = format!("set_inode_field /{path} projid {project}");
        debugfs(&source, &["-w", "-R", &project]);
    }
    assert_sound(&source);
    source
}

#[test]
fn flags_and_projects_go_from_image_to_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let source = source(&s);
    let copy = image(&s, "copy.img", None, true);
    succeed(
        s.tane()
            .args(["cp", "--strict", "source.img:/.", "copy.img:/"]),
    );
    for (path, flags, project) in ALL {
        assert_eq!(
            judged(&source, path),
            (flags, project),
            "{path}: the source"
        );
        assert_eq!(judged(&copy, path), (flags, project), "{path}");
    }
    assert_sound(&copy);
}

#[test]
fn projects_a_destination_cannot_keep_are_lost_with_a_warning() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    source(&s);
    let copy = image(&s, "copy.img", None, false);
    let cp = ["cp", "source.img:/d/many", "copy.img:/"];
    let said = text(&succeed(s.tane().args(cp)).stderr);
    assert!(said.contains("many: project 8 not kept"), "{said}");
    assert_eq!(judged(&copy, "many"), (ALL[3].1, 0));
    exit(s.tane().args(cp).arg("--strict"), 1);
}

#[test]
fn flags_go_out_to_the_host_and_in_again() {
    if !has_kernel() || !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("probe", b"");
    let set = sbin("chattr").arg("+dA").arg(s.join("probe")).output();
    let set = set.expect("chattr");
    if !set.status.success() {
        return skip(text(&set.stderr).trim());
    }
    s.write("tree/d/f", b"data");
    let image = image(&s, "disk.img", Some(&s.join("tree")), false);
    debugfs(&image, &["-w", "-R", "set_inode_field /d/f flags 0x800c0"]);
    debugfs(&image, &["-w", "-R", "set_inode_field /d flags 0x80040"]);
    succeed(s.tane().args(["cp", "--strict", "disk.img:/d", "out"]));
    let letters = |path: &str| {
        let mut lsattr = sbin("lsattr");
        let said = text(&succeed(lsattr.arg("-d").arg(s.join(path))).stdout);
        let letters = said.split(' ').next().expect("letters").to_owned();
        letters.replace(['-', 'e', 'I'], "")
    };
    assert_eq!(
        (letters("out"), letters("out/f")),
        ("d".into(), "dA".into())
    );
    succeed(s.tane().args(["cp", "--strict", "out", "disk.img:/again"]));
    assert_eq!(judged(&image, "again"), (0x40, 0));
    assert_eq!(judged(&image, "again/f"), (0xc0, 0));
    assert_sound(&image);
}
