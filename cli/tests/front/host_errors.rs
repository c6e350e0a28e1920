//! Promises about hosts that fail: the command names the image and the cause.

use crate::common::*;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tane_test_support::skip;

/// Run a script where `small` is a file system of 24 MiB; None, and the test is
/// skipped, where nobody may mount.
#[track_caller]
fn with_small_disk(s: &Scratch, script: &str) -> Option<std::process::Output> {
    let mut unshare = Command::new("unshare");
    let all = format!("mount -t tmpfs -o size=24m none small && cd small && {{ {script}; }}");
    std::fs::create_dir_all(s.join("small")).expect("a directory");
    unshare.args(["-rm", "true"]);
    if !unshare.output().is_ok_and(|o| o.status.success()) {
        skip("no namespace of one's own here");
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare
        .args(["-rm", "sh", "-c", &all])
        .current_dir(s.path());
    unshare.env("TANE", env!("CARGO_BIN_EXE_tane"));
    Some(unshare.output().expect("unshare"))
}

#[test]
fn a_full_disk_of_the_host_is_named_and_what_was_there_stays_sound() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data\n");
    s.ext4("disk.raw", Some(&s.join("tree")), 128);
    s.write("big", &vec![7; 60 << 20]);
    for format in ["raw", "qcow2", "vmdk", "vhdx"] {
        let make = format!("qemu-img convert -f raw -O {format} ../disk.raw disk");
        let script = format!(
            "{make} && ! $TANE cp ../big disk:/big && $TANE cat disk:/f && \
             rm -f ../back && qemu-img convert -O raw disk ../back"
        );
        let Some(output) = with_small_disk(&s, &script) else {
            return;
        };
        let said = text(&output.stderr);
        assert!(output.status.success(), "{format}: {said}");
        assert!(
            said.contains("disk: the host's disk is full"),
            "{format}: {said}"
        );
        assert!(text(&output.stdout).contains("data\n"), "{format}");
    }
}

#[test]
fn a_limit_on_the_length_of_files_is_named() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 256);
    s.write("big", &vec![7; 200 << 20]);
    let mut tane = s.tane();
    // The memory of the kernel inside is a file, too.
    tane.args(["--memory=96M", "cp", "big", "disk.img:/big"]);
    let limit = libc::rlimit {
        rlim_cur: 160 << 20,
        rlim_max: 160 << 20,
    };
    // SAFETY: between fork and exec, a system call only.
    unsafe {
        tane.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            Ok(())
        });
    }
    let said = text(&exit(&mut tane, 1).stderr);
    assert!(
        said.contains("disk.img: the host allows no file that large"),
        "{said}"
    );
}

#[test]
fn an_overlay_that_cannot_be_made_is_named() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    let image = s.join("disk.img");
    let script = format!(
        "mount -o remount,ro none . && ! $TANE --overlay=over mkdir {0}:/d && \
         cp {0} copy; ! $TANE mkdir {0}:/lost+found",
        image.display()
    );
    let Some(output) = with_small_disk(&s, &script) else {
        return;
    };
    let said = text(&output.stderr);
    assert!(said.contains("over: Read-only file system"), "{said}");
}

#[test]
fn a_second_writer_is_refused_for_every_container() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.raw", None, 16);
    for (format, locked) in [
        ("qcow2", "d"),
        ("vmdk", "d"),
        ("vmdk -o subformat=monolithicFlat", "d-flat"),
        ("vpc", "d"),
        ("vhdx", "d"),
    ] {
        let line = format!("convert -f raw -O {format} disk.raw d");
        let mut qemu = Command::new("qemu-img");
        succeed(qemu.args(line.split(' ')).current_dir(s.path()));
        let run = |kind: &str, words: [&str; 2]| {
            let mut flock = Command::new("flock");
            flock.args(["-n", kind, locked, env!("CARGO_BIN_EXE_tane")]);
            flock.args(words).current_dir(s.path());
            flock
        };
        for kind in ["-x", "-s"] {
            let said = text(&exit(&mut run(kind, ["mkdir", "d:/x"]), 3).stderr);
            assert!(
                said.contains("in use by another program"),
                "{format}: {said}"
            );
        }
        succeed(&mut run("-s", ["ls", "d:/"]));
        for name in ["d", "d-flat"] {
            let _ = std::fs::remove_file(s.join(name));
        }
    }
}
