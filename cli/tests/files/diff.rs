//! Promises of `tane diff`: exactly what was changed is told, and patches are what
//! patch(1) takes.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::process::Command;
use tane_test_support::has_root;

fn copy(from: &Path, to: &Path) {
    succeed(Command::new("cp").arg("-a").arg(from).arg(to));
}

fn touch(path: &Path) {
    succeed(
        Command::new("touch")
            .args(["-h", "-d", "@1000000000"])
            .arg(path),
    );
}

/// Two trees; what was changed in the second, by path.
fn trees(s: &Scratch) -> BTreeMap<String, Vec<&'static str>> {
    s.write("a/same", b"same");
    s.write("a/d/content", b"one\ntwo\nthree\n");
    s.write("a/d/longer", b"1");
    s.write("a/gone/deep", b"x");
    s.write("a/mode", b"");
    s.write("a/time", b"");
    s.write("a/xattr", b"");
    s.write("a/linked", b"");
    s.write("a/type", b"");
    symlink("old", s.join("a/target")).expect("symlink");
    copy(&s.join("a"), &s.join("b"));
    let keep = |path: &str| {
        let (from, to) = (s.join("a").join(path), s.join("b").join(path));
        succeed(Command::new("touch").arg("-hr").arg(from).arg(to));
    };
    s.write("b/d/content", b"one\nTWO\nthree\n");
    keep("d/content");
    s.write("b/d/longer", b"12");
    keep("d/longer");
    std::fs::remove_dir_all(s.join("b/gone")).expect("rm");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(s.join("b/mode"), mode).expect("chmod");
    touch(&s.join("b/time"));
    let mut setfattr = Command::new("setfattr");
    succeed(
        setfattr
            .args(["-n", "user.new", "-v", "1"])
            .arg(s.join("b/xattr")),
    );
    std::fs::hard_link(s.join("b/linked"), s.join("b/newname")).expect("link");
    std::fs::remove_file(s.join("b/type")).expect("rm");
    std::fs::create_dir(s.join("b/type")).expect("mkdir");
    s.write("b/type/inside", b"");
    std::fs::remove_file(s.join("b/target")).expect("rm");
    symlink("new", s.join("b/target")).expect("symlink");
    keep("target");
    keep("."); // entries came and went
    let of = |path: &str, what: &[&'static str]| (path.to_owned(), what.to_vec());
    BTreeMap::from([
        of("d/content", &["content"]),
        of("d/longer", &["content"]),
        of("gone", &["removed"]),
        of("gone/deep", &["removed"]),
        of("linked", &["links"]),
        of("mode", &["mode"]),
        of("newname", &["added"]),
        of("target", &["target"]),
        of("time", &["mtime"]),
        of("type", &["type"]),
        of("type/inside", &["added"]),
        of("xattr", &["xattrs"]),
    ])
}

/// What `tane diff --json` says, as `trees` has it.
fn found(output: &[u8]) -> BTreeMap<String, Vec<String>> {
    let one = |line: &str| {
        let line: Value = serde_json::from_str(line).expect(line);
        let change = line["change"].as_str().expect("a change").to_owned();
        let what = match line["what"].as_array() {
            Some(what) => what
                .iter()
                .map(|w| w.as_str().expect("a word").into())
                .collect(),
            None => vec![change],
        };
        (line["path"].as_str().expect("a path").to_owned(), what)
    };
    text(output).lines().map(one).collect()
}

fn assert_found(wanted: &BTreeMap<String, Vec<&'static str>>, output: &[u8]) {
    let found = found(output);
    let wanted: BTreeMap<_, Vec<String>> = wanted
        .iter()
        .map(|(path, what)| (path.clone(), what.iter().map(|w| (*w).into()).collect()))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn exactly_what_was_changed_is_told() {
    let s = Scratch::new();
    let wanted = trees(&s);
    let output = exit(s.host().args(["diff", "--json", "a:/", "b:/"]), 1);
    assert_found(&wanted, &output.stdout);
    let back = exit(s.host().args(["diff", "--json", "b:/", "a:/"]), 1);
    let back = found(&back.stdout);
    assert_eq!(back["gone/deep"], ["added"]);
    assert_eq!(back["newname"], ["removed"]);
}

#[test]
fn nothing_is_told_of_trees_that_are_the_same() {
    let s = Scratch::new();
    s.sample("a", 200);
    copy(&s.join("a"), &s.join("b"));
    let output = succeed(s.host().args(["diff", "a:/", "b:/"]));
    assert_eq!(text(&output.stdout), "");
    succeed(s.host().args(["diff", "a:/", "a:/"]));
}

#[test]
fn an_image_and_a_directory_of_the_host_are_compared() {
    if !has_kernel() || !has_root() {
        return;
    }
    let s = Scratch::new();
    let mut wanted = trees(&s);
    let image = s.ext4("a.img", None, 32);
    succeed(s.tane().args(["rm", "-r", "a.img:/lost+found"]));
    succeed(s.tane().args(["cp", "--strict", "a/.", "a.img:/"]));
    let before = std::fs::read(&image).expect("the image");
    let diff = ["diff", "a.img"];
    let same = succeed(s.tane().args(diff).arg("a"));
    assert_eq!(text(&same.stdout), "");
    let output = exit(s.tane().args(diff).args(["b", "--json"]), 1);
    assert_found(&wanted, &output.stdout);
    assert!(std::fs::read(&image).expect("the image") == before);

    // And two images.
    s.ext4("b.img", None, 32);
    succeed(s.tane().args(["rm", "-r", "b.img:/lost+found"]));
    succeed(s.tane().args(["cp", "--strict", "b/.", "b.img:/"]));
    let output = exit(s.tane().args(["diff", "--json", "a.img", "b.img"]), 1);
    assert_found(&wanted, &output.stdout);
    wanted.retain(|path, _| path.starts_with("d/"));
    let wanted = wanted
        .into_iter()
        .map(|(path, what)| (path[2..].to_owned(), what));
    let output = exit(s.tane().args(["diff", "--json", "a.img:/d", "b.img:/d"]), 1);
    assert_found(&wanted.collect(), &output.stdout);
    exit(s.tane().args(["diff", "a.img", "none.img"]), 3);
}

#[test]
fn aspects_can_be_chosen_and_left_out() {
    let s = Scratch::new();
    s.write("a/f", b"1");
    copy(&s.join("a"), &s.join("b"));
    touch(&s.join("b/f"));
    exit(s.host().args(["diff", "a:/", "b:/"]), 1);
    succeed(s.host().args(["diff", "--ignore", "mtime", "a:/", "b:/"]));
    succeed(
        s.host()
            .args(["diff", "--compare", "content,mode", "a:/", "b:/"]),
    );
    succeed(s.host().args(["diff", "-x", "f", "a:/", "b:/"]));
    exit(
        s.host().args(["diff", "--ignore", "colour", "a:/", "b:/"]),
        2,
    );
    // The same size and time, so that it is not even read.
    s.write("b/f", b"2");
    touch(&s.join("a/f"));
    touch(&s.join("b/f"));
    succeed(s.host().args(["diff", "--quick", "a:/", "b:/"]));
    exit(s.host().args(["diff", "a:/", "b:/"]), 1);
}

#[test]
fn a_difference_behind_the_first_megabyte_is_found() {
    let s = Scratch::new();
    let mut data = vec![7; 3 << 20];
    s.write("a/f", &data);
    data[(2 << 20) + 5] = 8;
    s.write("b/f", &data);
    let output = exit(
        s.host()
            .args(["diff", "--compare", "content", "a:/", "b:/"]),
        1,
    );
    let wanted = format!("changed: f (content (from byte {}))\n", (2 << 20) + 5);
    assert_eq!(text(&output.stdout), wanted);
}

#[test]
fn holes_are_compared_without_reading_them() {
    let s = Scratch::new();
    for (name, last) in [("a", b"1"), ("b", b"2")] {
        let path = s.write(&format!("{name}/f"), b"begin");
        let file = std::fs::File::options()
            .write(true)
            .open(path)
            .expect("a file");
        // Reading that much would take hours.
        std::os::unix::fs::FileExt::write_at(&file, last, 10 << 40).expect("its end");
    }
    let diff = ["diff", "--compare", "content", "a:/", "b:/"];
    let output = exit(s.host().args(diff), 1);
    let wanted = format!("changed: f (content (from byte {}))\n", 10u64 << 40);
    assert_eq!(text(&output.stdout), wanted);
}

#[test]
fn patch_makes_the_old_tree_the_new_one() {
    let s = Scratch::new();
    let lines = |n: u32| (0..n).map(|i| format!("line {i}\n")).collect::<String>();
    s.write("a/long", lines(100).as_bytes());
    s.write("a/no newline", b"a\nb");
    s.write("a/gone", b"all\nof it\n");
    let odd = OsStr::from_bytes(b"odd \"\xc3\xa4\"");
    std::fs::write(s.join("a").join(odd), b"1\n").expect("a file");
    copy(&s.join("a"), &s.join("b"));
    let changed = lines(110)
        .replace("line 50\n", "line fifty\n")
        .replacen("line 3\n", "", 1);
    s.write("b/long", changed.as_bytes());
    s.write("b/no newline", b"a\nc");
    s.write("b/new/file", b"here\n");
    std::fs::remove_file(s.join("b/gone")).expect("rm");
    std::fs::write(s.join("b").join(odd), b"2\n").expect("a file");
    let compare = ["--compare", "content", "a:/", "b:/"];
    let patch = exit(s.host().args(["diff", "--content"]).args(compare), 1);
    s.write("patch", &patch.stdout);
    succeed(&mut s.command("patch", "-s -p1 -E -d a -i ../patch"));
    let left = s
        .host()
        .args(["diff"])
        .args(compare)
        .output()
        .expect("tane");
    assert_eq!(text(&left.stdout), "", "{}", text(&patch.stdout));
}

#[test]
fn what_is_no_text_is_not_shown_as_one() {
    let s = Scratch::new();
    s.write("a/f", b"\0\x01");
    s.write("b/f", b"\0\x02");
    let compare = ["diff", "-c", "--compare", "content", "a:/", "b:/"];
    let said = text(&exit(s.host().args(compare), 1).stdout);
    assert!(
        said.contains("Files a/f and b/f differ (binary)\n"),
        "{said}"
    );
}

#[test]
fn odd_names_are_whole_in_json() {
    let s = Scratch::new();
    std::fs::create_dir_all(s.join("a")).expect("mkdir");
    std::fs::create_dir_all(s.join("b")).expect("mkdir");
    let name = OsStr::from_bytes(b"n\n\xff");
    std::fs::write(s.join("b").join(name), b"").expect("a file");
    let compare = ["diff", "--json", "--compare", "content", "a:/", "b:/"];
    let output = exit(s.host().args(compare), 1).stdout;
    let found: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(found["path_bytes"], "6e0aff");
    assert_eq!(found["change"], "added");
    assert_eq!(found["new"]["type"], "file");
}
