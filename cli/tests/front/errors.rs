//! Promises about what the command says when an image is of no use: exit code 3,
//! one line that names the image, the remedy if there is one, and nothing
//! changed.

use crate::common::*;
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

#[test]
fn a_kernel_image_that_is_missing_is_named_and_no_less_safety_is_advised() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    let named = |option: &str| {
        let mut command = s.tane();
        command.args(["--kernel", option, "ls", "disk.img"]);
        command
    };
    let said = complaint(&mut named("/nope"), 3, "/nope");
    assert!(said.contains("--kernel names: no such file"), "{said}");
    let said = complaint(named("/").env("TANE_IMAGE", "/nope"), 3, "/");
    assert!(said.contains("is a directory"), "{said}");
    for arguments in [&["ls", "disk.img"][..], &["sh", "disk.img", "-c", "ls"]] {
        let mut command = s.tane();
        let command = command.args(arguments).env("TANE_IMAGE", "/nope");
        let said = complaint(command, 3, "/nope");
        assert!(
            said.contains("TANE_IMAGE") && !said.contains("jail"),
            "{said}"
        );
    }
}

#[test]
fn a_selector_that_nothing_has_is_named_beside_what_there_is() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    let said = complaint(s.tane().args(["ls", "disk.img@99"]), 3, "disk.img");
    assert!(
        said.contains(" 99;") && said.contains("ext4: disk.img:/"),
        "{said}"
    );
}

#[test]
fn a_path_that_lacks_its_slash_is_written_out() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 8);
    s.write("source", b"x");
    for (arguments, code) in [
        (&["ls", "disk.img:etc"][..], 3),
        (&["cat", "disk.img@1:etc"], 2),
        (&["cp", "disk.img:etc", "."], 2),
        (&["cp", "source", "disk.img:etc"], 2),
        (&["cp", "disk.img:etc", "disk.img:/"], 1),
    ] {
        let said = text(&exit(s.tane().args(arguments), code).stderr);
        let wanted = [
            "in the image it is disk.img:/etc",
            "in the image it is disk.img@1:/etc",
        ];
        assert!(
            wanted.iter().any(|w| said.contains(w)),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn an_image_of_a_type_that_is_only_read_says_so_when_it_is_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"x");
    succeed(&mut s.command("mksquashfs", "tree disk.squashfs -quiet -no-progress"));
    succeed(&mut s.command("genisoimage", "-quiet -R -o disk.iso9660 tree"));
    for kind in ["squashfs", "iso9660"] {
        let image = format!("disk.{kind}");
        let before = s.read(&image);
        for arguments in [
            &["mkdir", "I:/d"][..],
            &["cp", "tree/f", "I:/g"],
            &["rm", "I:/f"],
        ] {
            let arguments = arguments.iter().map(|a| a.replace('I', &image));
            let said = complaint(s.tane().args(arguments), 3, &image);
            let wanted = format!("is of the type {kind}, which Linux only reads");
            assert!(said.contains(&wanted), "{said}");
        }
        assert!(s.read(&image) == before, "{image} changed");
    }
    s.ext4("disk.img", None, 8);
    let mut asked = s.tane();
    let said = complaint(
        asked.args(["--options=ro", "mkdir", "disk.img:/d"]),
        3,
        "disk.img",
    );
    assert!(said.contains("--options"), "{said}");
}

#[test]
fn an_xfs_that_lacks_a_device_says_which_and_how_it_is_given() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for (option, device, what) in [
        ("-r", "rtdev", "its realtime volume"),
        ("-l", "logdev", "its log"),
    ] {
        let (main, other) = (format!("{device}.img"), format!("{device}.other"));
        for (name, mib) in [(&main, 320), (&other, 80)] {
            let file = std::fs::File::create(s.join(name)).expect("a file");
            file.set_len(mib << 20).expect("room");
        }
        let further = match device {
            "logdev" => format!("logdev={other},size=64m"),
            _ => format!("{device}={other}"),
        };
        succeed(s.tool("mkfs.xfs").args(["-q", option, &further, &main]));
        let said = complaint(s.tane().args(["ls", &main]), 3, &main);
        let given = format!("--options {device}=/dev/vdb");
        for part in [what, "--with IMAGE", &given, "XFS (vda)"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("know the type"), "{said}");
        let mut with = s.tane();
        with.args(["--with", &other, "--options", &format!("{device}=/dev/vdb")]);
        succeed(with.args(["ls", &main]));
    }
}

#[test]
fn a_panic_that_a_system_call_brings_about_is_shown_and_no_success() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let crash = "syscall openat -100 /proc/sysrq-trigger 1 , write _ c 1";
    let said = text(&exit(s.tane().args(crash.split(' ')), 3).stderr);
    assert!(
        said.contains("Kernel panic") && said.contains("sysrq"),
        "{said}"
    );
}
