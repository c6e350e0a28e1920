//! Promises of `tane edit`.

use crate::common::*;
use serde_json::Value;
use std::process::Command;

/// `tane edit`, with an editor that is a shell script; `$1` is the copy.
fn edit(s: &Scratch, script: &str, file: &str) -> Command {
    let editor = format!("#!/bin/sh\n{script}\n");
    let program = s.write("editor", editor.as_bytes());
    succeed(s.tool("chmod").arg("+x").arg(&program));
    std::fs::create_dir_all(s.join("tmp")).expect("mkdir");
    let mut command = s.tane();
    command.env("VISUAL", &program).env("EDITOR", "false");
    command.env("TMPDIR", s.join("tmp")).args(["edit", file]);
    command
}

/// Nothing is left of the directory that the editor worked in.
fn nothing_is_left(s: &Scratch) {
    tane_test_support::eventually("it is gone", || {
        std::fs::read_dir(s.join("tmp")).expect("a listing").count() == 0
    });
}

#[test]
fn an_edited_file_is_replaced_and_keeps_all_but_its_text() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let cat = |name: &str| text(&succeed(s.tane().args(["cat", name])).stdout);
    s.write("first", b"one\n");
    let script = "cp host:first f; chown 12:34 f; chmod 4751 f; xattr set user.note yes f; \
                  xattr set --hex security.capability 0100000200200000000000000000000000000000 f; \
                  mkdir d; ln -s /f d/soft";
    succeed(
        s.tane()
            .args(["sh", "--share", ".", "disk.img", "-ec", script]),
    );
    let stat = || {
        let format = "%a %u %g %h";
        let stat = succeed(s.tane().args(["stat", "-c", format, "disk.img:/f"])).stdout;
        let list = succeed(s.tane().args(["xattr", "list", "disk.img:/f"])).stdout;
        text(&stat) + &text(&list)
    };
    let before = stat();
    assert!(before.starts_with("4751 12 34 1\n") && before.contains("security.capability"));
    // Where nobody else looks, under its own name.
    let script = "stat -c '%a %F' \"$(dirname $1)\" $1 >> seen; basename $1 >> seen; \
                  sed -i s/one/two/ $1";
    succeed(&mut edit(&s, script, "disk.img:/f"));
    assert_eq!(cat("disk.img:/f"), "two\n");
    assert_eq!(stat(), before);
    assert_eq!(
        text(&s.read("seen")),
        "700 directory\n600 regular file\nf\n"
    );
    // Through a symlink, that stays one.
    succeed(&mut edit(&s, "echo three > $1", "disk.img:/d/soft"));
    assert_eq!((cat("disk.img:/f"), stat()), ("three\n".into(), before));
    let kind = succeed(s.tane().args(["stat", "-c", "%F", "disk.img:/d/soft"])).stdout;
    assert_eq!(text(&kind), "symbolic link\n");
    // One that was not there.
    succeed(&mut edit(&s, "echo new > $1", "disk.img:/d/new"));
    assert_eq!(cat("disk.img:/d/new"), "new\n");
    let names = succeed(s.tane().args(["find", "disk.img", "-name", ".*"])).stdout;
    assert_eq!(text(&names), "");
    nothing_is_left(&s);
    assert_sound(&image);
}

#[test]
fn an_edit_that_fails_or_changes_nothing_writes_nothing() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    s.write("f", b"text\n");
    succeed(s.tane().args(["cp", "f", "disk.img:/f"]));
    succeed(s.tane().args(["ln", "disk.img:/f", "disk.img:/other"]));
    succeed(s.tane().args(["cp", "f", "disk.img:/g"]));
    let before = s.read("disk.img");
    for (script, file, code, why) in [
        ("true", "disk.img:/g", 0, "not changed"),
        ("echo text > $1", "disk.img:/g", 0, "not changed"),
        (
            "echo other > $1; exit 3",
            "disk.img:/g",
            1,
            "exit status: 3",
        ),
        (
            "echo other > $1; kill -TERM $$",
            "disk.img:/g",
            1,
            "status: 143",
        ),
        ("rm $1; mkdir $1", "disk.img:/g", 1, "left no file"),
        ("rm $1", "disk.img:/g", 1, "no such file"),
        (
            "rm $1; ln -s /etc/passwd $1",
            "disk.img:/g",
            1,
            "symbolic links",
        ),
        ("true", "disk.img:/", 1, "is a directory"),
        ("true", "disk.img:/none/f", 1, "no such file"),
    ] {
        let said = text(&exit(&mut edit(&s, script, file), code).stderr);
        assert!(said.contains(why), "{script}: {said}");
    }
    let mut none = edit(&s, "true", "disk.img:/g");
    none.env("VISUAL", "no-such-editor");
    let said = text(&exit(&mut none, 1).stderr);
    assert!(said.contains("VISUAL or EDITOR"), "{said}");
    nothing_is_left(&s);
    assert!(s.read("disk.img") == before);
    // Under one of its names only, it would be another file.
    let said = text(&exit(&mut edit(&s, "echo x > $1", "disk.img:/f"), 1).stderr);
    assert!(said.contains("2 names"), "{said}");
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/other"])).stdout,
        b"text\n"
    );
    assert_sound(&image);
}

#[test]
fn what_changed_in_the_image_meanwhile_is_left_alone_and_the_text_is_kept() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    s.write("f", b"text\n");
    succeed(s.tane().args(["cp", "f", "disk.img:/f"]));
    s.write("theirs", b"more\n");
    let tane = env!("CARGO_BIN_EXE_tane");
    // The image is nobody's while the editor runs.
    let script = format!("{tane} cp theirs disk.img:/f && echo mine > $1");
    let said = text(&exit(&mut edit(&s, &script, "disk.img:/f"), 1).stderr);
    assert!(said.contains("meanwhile"), "{said}");
    let (_, kept) = said
        .trim()
        .split_once("the changed text is in ")
        .expect("where");
    assert_eq!(std::fs::read(kept).expect("kept"), b"mine\n");
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/f"])).stdout,
        b"more\n"
    );
    std::fs::remove_file(kept).expect("removed");
    nothing_is_left(&s);
    let mut told = edit(&s, "echo x > $1", "disk.img:/f");
    let told = succeed(told.arg("--json")).stdout;
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!(
        (&told["path"], &told["changed"]),
        (&"/f".into(), &true.into())
    );
}

#[test]
fn a_new_file_that_stays_empty_is_not_made() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    succeed(&mut edit(&s, "true", "disk.img:/mistyped"));
    let gone = s.tane().args(["stat", "disk.img:/mistyped"]).output();
    assert!(!gone.expect("runs").status.success());
}

#[test]
fn the_editor_has_what_the_user_has_in_the_environment() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    let mut command = edit(&s, "echo $DISPLAY > $1", "disk.img:/f");
    succeed(command.env("DISPLAY", ":7"));
    let read = succeed(s.tane().args(["cat", "disk.img:/f"]));
    assert_eq!(read.stdout, b":7\n");
}
