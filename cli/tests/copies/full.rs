//! Promises about destinations without room, or that cannot be written.

use crate::common::*;
use crate::destinations::{json, mtype, paths, sound_fat, vfat};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use tane_test_support::{has_root, skip};

/// A file that does not fit into 4 MiB, and many that do.
fn large_among_small(s: &Scratch) {
    let large = std::fs::File::create(s.write("tree/large", b"")).expect("a file");
    large.set_len(64 << 20).expect("a hole");
    for n in 0..300 {
        s.write(&format!("tree/d{}/small{n}", n % 3), b"small");
    }
}

#[test]
fn a_file_that_does_not_fit_costs_only_itself() {
    let s = Scratch::new();
    large_among_small(&s);
    if vfat(&s, "cp.img", 4 << 20).is_none() {
        return;
    }
    let output = exit(s.tane().args(["cp", "--json", "tree/.", "cp.img:/"]), 1);
    let report = json(&output);
    assert_eq!(paths(&report, "errors"), BTreeSet::from(["large".into()]));
    assert_eq!(report["errors"][0]["errno"], libc::ENOSPC);
    assert_eq!(
        (&report["files"], &report["stopped"]),
        (&300.into(), &Value::Null)
    );
    // The same from an archive.
    succeed(&mut s.command("tar", "-S -C tree -cf tree.tar ."));
    let _ = vfat(&s, "tar.img", 4 << 20);
    let output = exit(
        s.tane()
            .args(["tar", "extract", "--json", "tree.tar", "tar.img"]),
        1,
    );
    assert_eq!(json(&output)["files"], 300);
    for image in ["cp.img", "tar.img"] {
        sound_fat(&s, image);
        assert_eq!(mtype(&s, image, "/d2/small299"), b"small");
        let mut mdir = Command::new("mdir");
        let names = succeed(mdir.args(["-b", "-i"]).arg(s.join(image)).arg("::/"));
        let names = text(&names.stdout);
        assert!(
            !names.contains("large") && !names.contains(".part"),
            "{names}"
        );
    }
}

#[test]
fn a_full_destination_ends_the_copy_and_all_that_is_missing_is_named() {
    let s = Scratch::new();
    let mut all = BTreeSet::new();
    for n in 0..900 {
        let name = format!("d{}/file{n}", n % 3);
        s.write(&format!("tree/{name}"), &[7; 3000]);
        all.insert(name);
    }
    if vfat(&s, "full.img", 1 << 20).is_none() {
        return;
    }
    succeed(&mut s.command("tar", "-C tree -cf tree.tar ."));
    for verb in [
        &["cp", "--json", "tree/."][..],
        &["tar", "extract", "--json", "tree.tar"],
    ] {
        let _ = vfat(&s, "full.img", 1 << 20);
        let mut command = s.tane();
        let output = exit(command.args(verb).arg("full.img:/"), 1);
        let report = json(&output);
        assert_eq!(report["stopped"], "no space left on device");
        let missing = paths(&report, "errors");
        let found = succeed(s.tane().args(["find", "full.img", "-type", "f"]));
        let found = text(&found.stdout);
        let found: BTreeSet<_> = found.lines().map(|l| l[1..].to_owned()).collect();
        assert!(found.len() > 100 && found.is_disjoint(&missing), "{verb:?}");
        let missing_files = missing.iter().filter(|name| name.contains("file"));
        let both: BTreeSet<_> = found.iter().chain(missing_files).cloned().collect();
        assert_eq!(both, all, "{verb:?}");
        // One line for each of the first ten, and two for the rest.
        let said = text(&output.stderr);
        let errors = said.lines().filter(|l| !l.contains("warning"));
        assert_eq!(errors.count(), 12, "{said}");
        assert!(
            said.contains("stopped: no space left on device; "),
            "{said}"
        );
        sound_fat(&s, "full.img");
    }
}

#[test]
fn a_destination_that_cannot_be_written_ends_the_copy() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    for name in ["a", "d/b", "d/c"] {
        s.write(&format!("i/{name}"), b"data");
    }
    std::fs::create_dir(s.join("ro")).expect("mkdir");
    let mut mount = sbin("mount");
    mount.args(["-t", "tmpfs", "-o", "ro", "none"]);
    let mounted = mount.arg(s.join("ro")).output().expect("mount");
    if !mounted.status.success() {
        return skip(text(&mounted.stderr).trim());
    }
    let mut command = s.host();
    let output = command.args(["cp", "--json", "i:/.", "ro"]).output();
    let output = output.expect("tane");
    // Lazily: a program that another test is starting may hold it for a moment.
    succeed(sbin("umount").arg("-l").arg(s.join("ro")));
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["stopped"], "read-only file system");
    let named = report["errors"].as_array().expect("errors").iter();
    let named: BTreeSet<_> = named.map(|e| e["path"].as_str().expect("a path")).collect();
    assert_eq!(named, BTreeSet::from(["ro/a", "ro/d", "ro/d/b", "ro/d/c"]));
}

#[test]
fn what_is_in_a_directory_that_cannot_be_made_is_named() {
    let s = Scratch::new();
    s.write("i/d/below/f", b"1");
    s.write("i/d/g", b"2");
    s.write("i/other", b"3");
    s.write("out/d", b"a file");
    let output = exit(s.host().args(["cp", "--json", "i:/.", "out"]), 1);
    let report = json(&output);
    let named = report["errors"].as_array().expect("errors").iter();
    let named: BTreeSet<_> = named.map(|e| e["path"].as_str().expect("a path")).collect();
    let wanted = ["out/d", "out/d/below", "out/d/below/f", "out/d/g"];
    assert_eq!(named, BTreeSet::from(wanted));
    assert_eq!(s.read("out/other"), b"3");
}
