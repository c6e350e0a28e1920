//! Promises about what the command says when an image is of no use: exit code 3,
//! one line that names the image, the remedy if there is one, and nothing
//! changed.

mod common;

use common::*;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tane_test_support::{is_root, skip};

/// The command's complaint: of one line, that begins with what it is about.
fn complaint(command: &mut Command, code: i32, about: &str) -> String {
    let output = exit(command, code);
    let said = text(&output.stderr);
    let expected = format!("tane: {about}: ");
    assert!(said.starts_with(&expected), "{command:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
    said
}

/// Reading and writing complain alike.
fn useless(s: &Scratch, image: &str, remedy: &str) {
    let address = format!("{image}:/");
    for arguments in [["ls", &address, ""], ["cp", "source", &address]] {
        let arguments = arguments.into_iter().filter(|a| !a.is_empty());
        let said = complaint(s.tane().args(arguments), 3, image);
        assert!(said.contains(remedy), "{said}");
    }
}

#[test]
fn what_holds_no_file_system_is_named_and_left_alone() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("source", b"x");
    for (name, data, remedy) in [
        ("empty", &b""[..], "make a file system in it first"),
        ("few", b"abc", "no file system"),
        ("junk", &[0x5a; 70_000], "no file system"),
    ] {
        s.write(name, data);
        useless(&s, name, remedy);
        assert!(s.read(name) == data, "{name} changed");
    }
}

#[test]
fn an_image_cut_short_says_by_how_much() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("source", b"x");
    let image = s.ext4("cut", None, 16);
    let file = std::fs::File::options().write(true).open(image);
    file.and_then(|f| f.set_len(5 << 20)).expect("truncates");
    useless(&s, "cut", "exceeds size of device");
}

#[test]
fn what_is_no_file_is_named() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("source", b"x");
    std::fs::create_dir(s.join("dir")).expect("mkdir");
    useless(&s, "missing", "no such file");
    useless(&s, "dir", "is a directory, not an image");
}

#[test]
fn an_image_in_use_says_by_whom() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("source", b"x");
    let image = s.ext4("disk.img", None, 16);
    let lock = |kind| {
        let mut flock = Command::new("flock");
        flock.args(["-n", kind]).arg(&image);
        flock.arg(env!("CARGO_BIN_EXE_tane"));
        flock.current_dir(s.path());
        flock
    };
    // Somebody writes: nobody else gets in.
    for arguments in [["cp", "source", "disk.img:/"], ["ls", "-l", "disk.img:/"]] {
        let said = complaint(lock("-x").args(arguments), 3, "disk.img");
        assert!(said.contains("in use by another program"), "{said}");
        assert!(said.contains("wait until it ends"), "{said}");
    }
    // Somebody reads: so may others.
    let mut write = lock("-s");
    let said = complaint(write.args(["cp", "source", "disk.img:/"]), 3, "disk.img");
    assert!(said.contains("in use by another program"), "{said}");
    succeed(lock("-s").args(["ls", "disk.img:/"]));
    assert_sound(&image);
}

#[test]
fn an_image_without_permission_is_an_error() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("source", b"x");
    let image = s.ext4("disk.img", None, 16);
    let mode = |mode| std::fs::set_permissions(&image, Permissions::from_mode(mode));
    let nobody = |arguments: &[&str]| {
        let mut command = s.tane();
        command.args(arguments);
        if is_root() {
            command.uid(65534).gid(65534);
        }
        command
    };
    match nobody(&["--version"]).output() {
        Ok(output) if output.status.success() => {}
        _ => return skip("others may not run the command where it is"),
    }
    mode(0o444).expect("chmod");
    succeed(&mut nobody(&["ls", "disk.img:/"]));
    let mut write = nobody(&["cp", "source", "disk.img:/"]);
    let said = complaint(&mut write, 3, "disk.img");
    assert!(said.contains("you may not write"), "{said}");
    mode(0o000).expect("chmod");
    let said = complaint(&mut nobody(&["ls", "disk.img:/"]), 3, "disk.img");
    assert!(said.contains("you may not read"), "{said}");
}

#[test]
fn a_name_that_is_too_long_is_an_error() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let address = format!("disk.img:/{}", "n".repeat(300));
    let mut mkdir = s.tane();
    let said = complaint(mkdir.args(["mkdir", &address]), 1, &address);
    assert!(said.contains("file name too long"), "{said}");
    assert_sound(&image);
}

#[test]
fn odd_names_go_in_and_come_out_as_they_are() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let names: [&[u8]; 5] = [b"a:b", b"two\nlines", b"\xff\xfe", b" ", b"\x1b[31m"];
    for name in names {
        let path = s.join("in").join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        std::fs::write(path, name).expect("a file");
    }
    let image = s.ext4("disk.img", None, 16);
    succeed(s.tane().args(["cp", "in/.", "disk.img:/"]));
    succeed(s.tane().args(["cp", "disk.img:/.", "out"]));
    for name in names {
        let path = s.join("out").join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(std::fs::read(path).expect("came out"), name);
    }
    // As one argument, with a colon on each side.
    s.write("a:b", b"from here");
    succeed(s.tane().args(["cp", "a:b", "disk.img:/c:d"]));
    let output = succeed(s.tane().args(["cat", "disk.img:/c:d"]));
    assert_eq!(output.stdout, b"from here");
    assert_sound(&image);
}
