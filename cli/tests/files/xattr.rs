//! Promises of `tane xattr`, with getfattr and debugfs as the judges.

use crate::common::*;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::process::Command;
use tane_test_support::has_root;

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn attributes_are_those_that_getfattr_reads() {
    let s = Scratch::new();
    s.write("i/f", b"");
    succeed(s.host().args(["xattr", "set", "user.a", "one two", "i:/f"]));
    succeed(
        s.host()
            .args(["xattr", "set", "--hex", "user.b", "00ff0A", "i:/f"]),
    );
    let theirs = |name: &str| {
        let mut command = Command::new("getfattr");
        command
            .args(["--only-values", "-n", name])
            .arg(s.join("i/f"));
        succeed(&mut command).stdout
    };
    assert_eq!(theirs("user.a"), b"one two");
    assert_eq!(theirs("user.b"), b"\0\xff\n");
    let get = |args: &[&str]| succeed(s.host().args(["xattr", "get"]).args(args)).stdout;
    assert_eq!(get(&["user.b", "i:/f"]), b"\0\xff\n");
    assert_eq!(get(&["--hex", "user.b", "i:/f"]), b"00ff0a\n");
    assert_eq!(
        json(&get(&["--json", "user.b", "i:/f"]))["value_hex"],
        "00ff0a"
    );
    let list = text(&succeed(s.host().args(["xattr", "list", "i:/f"])).stdout);
    assert_eq!(list, "user.a = 'one two'\nuser.b = $'\\000\\377\\n'\n");
    succeed(s.host().args(["xattr", "remove", "user.a", "i:/f"]));
    let mut left = Command::new("getfattr");
    let left = text(&succeed(left.arg("--absolute-names").arg(s.join("i/f"))).stdout);
    assert!(
        !left.contains("user.a") && left.contains("user.b"),
        "{left}"
    );
}

#[test]
fn a_value_can_come_from_a_file() {
    let s = Scratch::new();
    s.write("i/f", b"");
    s.write("value", b"\0from a file\n");
    let file = ["xattr", "set", "--file", "value", "user.v", "i:/f"];
    succeed(s.host().args(file));
    let got = succeed(s.host().args(["xattr", "get", "user.v", "i:/f"])).stdout;
    assert_eq!(got, b"\0from a file\n");
}

#[test]
fn debugfs_reads_what_was_set_in_an_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/d/f", b"");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 16);
    let long = "x".repeat(900);
    succeed(s.tane().args([
        "xattr",
        "set",
        "user.long",
        &long,
        "disk.img:/d",
        "disk.img:/d/f",
    ]));
    succeed(
        s.tane()
            .args(["xattr", "set", "trusted.t", "v", "disk.img:/d"]),
    );
    assert_sound(&image);
    let get = |path: &str, name: &str| {
        let line = format!("ea_get -V {path} {name}");
        succeed(sbin("debugfs").args(["-R", &line]).arg(&image)).stdout
    };
    assert_eq!(text(&get("/d/f", "user.long")).trim_end(), long);
    assert_eq!(text(&get("/d", "trusted.t")).trim_end(), "v");
    let list = succeed(s.tane().args(["xattr", "list", "-R", "--json", "disk.img"])).stdout;
    let list: Vec<Value> = text(&list)
        .lines()
        .map(|l| serde_json::from_str(l).expect(l))
        .collect();
    let paths: Vec<_> = list.iter().map(|l| l["path"].as_str()).collect();
    assert_eq!(paths, [Some("/"), Some("/d"), Some("/d/f")]);
    assert_eq!(list[1]["xattrs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_symlink_itself_is_meant() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("i/f", b"");
    symlink("f", s.join("i/l")).expect("symlink");
    // User attributes are for files and directories only.
    succeed(s.host().args(["xattr", "set", "trusted.x", "1", "i:/l"]));
    let list = |path: &str| succeed(s.host().args(["xattr", "list", path])).stdout;
    assert_eq!(list("i:/l"), b"trusted.x = 1\n");
    assert_eq!(list("i:/f"), b"");
}

#[test]
fn what_is_not_there_is_named() {
    let s = Scratch::new();
    s.write("i/f", b"");
    let fail = |args: &[&str], code| {
        let output = exit(s.host().arg("xattr").args(args), code);
        text(&output.stderr)
    };
    let said = fail(&["get", "user.none", "i:/f"], 1);
    assert_eq!(said, "tane: i:/f: has no attribute user.none\n");
    assert!(fail(&["remove", "user.none", "i:/f"], 1).contains("has no attribute"));
    assert!(fail(&["set", "nonsense", "1", "i:/f"], 1).contains("names begin with user."));
    assert!(fail(&["set", "--hex", "user.a", "0", "i:/f"], 2).contains("hexadecimal"));
    fail(&["set", "user.a", "1"], 2);
    fail(&["list", "i:/none"], 1);
}

#[test]
fn a_file_that_comes_first_is_taken_for_what_it_is() {
    let s = Scratch::new();
    s.write("i/f", b"");
    s.write("i/g", b"");
    let run = |words: &str| s.host().arg("xattr").args(words.split(' ')).output();
    let out = |words: &str| text(&run(words).expect("tane").stdout);
    assert!(run("set i:/f user.a one").expect("tane").status.success());
    assert_eq!(out("get user.a i:/f"), "one");
    assert_eq!(out("get i:/f user.a"), "one");
    assert!(run("remove i:/f user.a").expect("tane").status.success());
    assert_eq!(out("list i:/f"), "");
    // Which of them is the value, nobody knows.
    for words in [
        "set i:/f user.a",
        "set i:/f user.a one i:/g",
        "get i:/f user.a i:/g",
    ] {
        let refused = run(words).expect("tane");
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(text(&refused.stderr).contains("NAME"), "{refused:?}");
    }
    assert_eq!(out("list i:/f"), "");
}
