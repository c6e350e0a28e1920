//! Promises that concern real images and the kernel inside this process, with
//! e2fsprogs, which shares no code with it, as the judge.

use crate::common::*;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};

#[test]
fn a_tree_comes_back_from_an_image_as_it_went_in() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let wanted = manifest(&s.sample("tree", 1500), "");
    let image = s.ext4("disk.img", None, 256);
    succeed(s.tane().args(["cp", "--strict", "tree/.", "disk.img:/"]));
    assert_sound(&image);
    succeed(
        s.tane()
            .args(["cp", "--strict", "--devices", "disk.img:/.", "out"]),
    );
    assert_same(&wanted, &manifest(&s.join("out"), ""));
}

#[test]
fn what_mke2fs_wrote_is_read_whole() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let tree = s.sample("tree", 500);
    // What mke2fs 1.47 itself loses: nanoseconds, linked symlinks; zeroes at
    // the end of a file become a hole.
    std::fs::remove_file(tree.join("links/dangling2")).expect("rm");
    s.ext4("disk.img", Some(&tree), 256);
    succeed(s.tane().args(["cp", "--devices", "disk.img:/.", "out"]));
    let without = "mtime,holes";
    assert_same(
        &manifest(&tree, without),
        &manifest(&s.join("out"), without),
    );
}

#[test]
fn debugfs_reads_what_was_copied_in() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data: Vec<u8> = (0..5_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    s.write("file", &data);
    let image = s.ext4("disk.img", None, 64);
    succeed(s.tane().args(["cp", "file", "disk.img:/copied"]));
    assert_sound(&image);
    let output = succeed(sbin("debugfs").args(["-R", "cat /copied"]).arg(&image));
    assert!(output.stdout == data);
}

#[test]
fn reading_changes_no_byte_of_an_image_with_a_dirty_journal() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 64);
    succeed(
        sbin("debugfs")
            .args(["-w", "-R", "feature needs_recovery"])
            .arg(&image),
    );
    let before = std::fs::read(&image).expect("the image");
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/f"])).stdout,
        b"data"
    );
    succeed(s.tane().args(["inspect", "disk.img"]));
    succeed(s.tane().args(["cp", "disk.img:/.", "out"]));
    assert!(std::fs::read(&image).expect("the image") == before);
}

#[test]
fn an_image_that_may_not_be_written_can_be_read() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 64);
    let mut permissions = image.metadata().expect("the image").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&image, permissions).expect("chmod");
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/f"])).stdout,
        b"data"
    );
}

#[test]
fn the_small_verbs_write_images_that_are_sound() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    for line in [
        "mkdir -p disk.img:/a/b",
        "touch -d @1.5 disk.img:/a/f",
        "ln -s f disk.img:/a/soft",
        "ln /a/f disk.img:/a/hard",
        "chown 12:34 disk.img:/a/f",
        "chmod 4711 disk.img:/a/f",
        "mv disk.img:/a/f disk.img:/a/b/g",
        "rm -r disk.img:/lost+found",
    ] {
        succeed(s.tane().args(line.split(' ')));
    }
    let stat = succeed(s.tane().args(["stat", "--json", "disk.img:/a/hard"])).stdout;
    let stat: serde_json::Value = serde_json::from_slice(&stat).expect("JSON");
    assert_eq!(
        (&stat["mode"], &stat["uid"], &stat["links"]),
        (&"4711".into(), &12.into(), &2.into())
    );
    assert_eq!(stat["mtime"], "1970-01-01T00:00:01.500000000Z");
    let found = text(&succeed(s.tane().args(["find", "disk.img"])).stdout);
    assert_eq!(found, "/\n/a\n/a/b\n/a/b/g\n/a/hard\n/a/soft\n");
    assert_sound(&image);
}

/// A disk with a GPT-less partition table: two Linux partitions.
fn partitioned(s: &Scratch) {
    s.write("one/f", b"first");
    s.write("two/f", b"second");
    let parts = [
        s.ext4("1.img", Some(&s.join("one")), 16),
        s.ext4("2.img", Some(&s.join("two")), 16),
    ];
    succeed(sbin("e2label").arg(&parts[1]).arg("other"));
    let disk = std::fs::File::create(s.join("disk.img")).expect("disk");
    disk.set_len(40 << 20).expect("truncate");
    let mut table = [0u8; 512];
    for (i, part) in parts.iter().enumerate() {
        let start = (1 + 17 * i as u64) << 20;
        disk.write_all_at(&std::fs::read(part).expect("a part"), start)
            .expect("write");
        let entry = &mut table[446 + 16 * i..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&((start / 512) as u32).to_le_bytes());
        entry[12..].copy_from_slice(&(16u32 << 11).to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&table, 0).expect("write");
}

#[test]
fn a_selector_chooses_the_partition() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    partitioned(&s);
    let cat = |at: &str| succeed(s.tane().args(["cat", at])).stdout;
    assert_eq!(cat("disk.img@1:/f"), b"first");
    assert_eq!(cat("disk.img@2:/f"), b"second");
    assert_eq!(cat("disk.img@label=other:/f"), b"second");
    let refused = text(&exit(s.tane().args(["ls", "disk.img"]), 3).stderr);
    assert!(
        refused.contains("choose one") && refused.contains("disk.img@2:/"),
        "{refused}"
    );
    let missing = text(&exit(s.tane().args(["ls", "disk.img@3"]), 3).stderr);
    assert!(missing.contains("no such file system"), "{missing}");
}

#[test]
fn copies_go_between_partitions_of_one_image_and_between_images() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    partitioned(&s);
    s.ext4("new.img", None, 16);
    succeed(s.tane().args(["cp", "disk.img@1:/f", "disk.img@2:/from1"]));
    succeed(s.tane().args(["cp", "disk.img@2:/.", "new.img:/"]));
    assert_eq!(
        succeed(s.tane().args(["cat", "new.img:/from1", "new.img:/f"])).stdout,
        b"firstsecond"
    );
    assert_sound(&s.join("new.img"));
}

#[test]
fn inspect_lists_what_is_there() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    partitioned(&s);
    let json = succeed(s.tane().args(["inspect", "--json", "disk.img"])).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["size"], 40 << 20);
    assert_eq!(json["volumes"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["volumes"][1]["label"], "other");
    assert_eq!(json["volumes"][1]["fs"], "ext4");
    assert!(json["volumes"][0]["used"].as_u64().expect("used") > 0);
}

#[test]
fn what_is_no_file_system_is_refused_with_a_hint() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("noise.img", &[0x5a; 1 << 20]);
    let said = text(&exit(s.tane().args(["ls", "noise.img"]), 3).stderr);
    assert!(said.contains("noise.img: no file system"), "{said}");
}

#[test]
fn an_image_is_locked_while_it_is_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let file = std::fs::File::open(&image).expect("the image");
    // SAFETY: a lock on a descriptor of ours.
    assert_eq!(
        unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&file), libc::LOCK_EX) },
        0
    );
    let said = text(&exit(s.tane().args(["touch", "disk.img:/f"]), 3).stderr);
    assert!(said.contains("in use by another program"), "{said}");
}

#[test]
fn a_full_image_is_an_error_and_stays_sound() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    s.write("big/file", &vec![7; 32 << 20]);
    let said = text(&exit(s.tane().args(["cp", "big", "disk.img:/"]), 1).stderr);
    assert!(said.contains("no space left"), "{said}");
    assert_eq!(
        succeed(s.tane().args(["find", "disk.img", "--type", "f"])).stdout,
        b""
    );
    assert_sound(&image);
}

#[test]
fn system_calls_can_be_made_by_hand() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let line = "syscall openat -100 /proc/version 0 , read _ buf:200 200";
    let said = text(&succeed(s.tane().args(line.split(' '))).stdout);
    assert!(said.contains("Linux version"), "{said}");
    exit(s.tane().args(["syscall", "close", "99"]), 1);
}

/// The command with this as its standard input.
fn fed(command: &mut Command, input: &[u8]) -> Output {
    use std::io::Write;
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::piped()).spawn().expect("tane");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may end without reading all.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("an end")
}

#[test]
fn standard_input_becomes_a_file_and_a_file_standard_output() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i >> 9) as u8).collect();
    for (source, path) in [("-", "new"), ("/dev/stdin", "stdin"), ("/dev/fd/0", "fd")] {
        let at = format!("disk.img:/{path}");
        let output = fed(s.tane().args(["cp", "--json", source, &at]), &data);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{source}: {said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&json["files"], &json["bytes"]),
            (&1.into(), &5_000_000.into())
        );
        assert!(
            succeed(s.tane().args(["cp", &at, "-"])).stdout == data,
            "{source}"
        );
    }
    // A hole at the end stays within the length.
    let sparse = ["cp", "--sparse=always", "-", "disk.img:/sparse"];
    let zeroes = [&data[..10_000], &[0; 100_000]].concat();
    assert_eq!(fed(s.tane().args(sparse), &zeroes).status.code(), Some(0));
    assert!(succeed(s.tane().args(["cat", "disk.img:/sparse"])).stdout == zeroes);
    assert_sound(&image);
}

#[test]
fn a_file_that_standard_input_replaces_keeps_what_a_stream_has_not() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    let at = "disk.img:/f";
    assert!(fed(s.tane().args(["cp", "-", at]), b"one").status.success());
    let stat = || {
        let said = succeed(s.tane().args(["stat", "--json", at])).stdout;
        serde_json::from_slice::<serde_json::Value>(&said).expect("JSON")
    };
    let of = |stat: &serde_json::Value| ["mode", "uid", "gid"].map(|key| stat[key].to_string());
    assert_eq!(of(&stat()), ["\"0644\"", "0", "0"]);
    succeed(s.tane().args(["chown", "5:6", at]));
    succeed(s.tane().args(["chmod", "4751", at]));
    succeed(s.tane().args(["xattr", "set", "user.note", "kept", at]));
    assert!(fed(s.tane().args(["cp", "-", at]), b"two").status.success());
    assert_eq!(of(&stat()), ["\"0751\"", "5", "6"]);
    assert_eq!(succeed(s.tane().args(["cat", at])).stdout, b"two");
    assert_eq!(stat()["xattrs"][0]["name"], "user.note");
    let said = fed(s.tane().args(["cp", "-", "disk.img:/"]), b"x");
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("a stream has no name: write DIRECTORY/NAME"));
    for wrong in [
        &["-", "host"][..],
        &["-", "-", at],
        &["-", "f", at],
        &["f", "-"],
    ] {
        exit(s.tane().arg("cp").args(wrong), 2);
    }
}

#[test]
fn a_device_is_made_on_the_host_only_if_that_was_asked_for() {
    if !has_kernel() || !tane_test_support::has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"a file");
    succeed(&mut s.command("mknod", "tree/null c 1 3"));
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    let words = ["cp", "--strict", "disk.img:/null", "disk.img:/f", "."];
    let said = text(&exit(s.tane().args(words), 1).stderr);
    assert!(said.contains("device node (--devices"), "{said}");
    assert!(s.join("f").exists() && !s.join("null").exists());
    succeed(
        s.tane()
            .args(["cp", "--strict", "--devices", "disk.img:/null", "."]),
    );
    use std::os::unix::fs::FileTypeExt;
    let made = s.join("null").metadata().expect("a device");
    assert!(made.file_type().is_char_device());
}
