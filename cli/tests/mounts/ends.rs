//! Promises about the end of a mount, whoever brings it about.

use crate::common::fuse::*;
use crate::common::*;
use crate::mount::errno_or_zero;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use tane_test_support::eventually;

#[test]
fn a_mount_in_use_stays_and_says_so() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data");
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    let mounted = Mounted::new(&s, &["disk.img"]);
    let file = fs::File::open(mounted.join("f")).expect("open");
    let output = exit(s.tane().args(["umount", "mnt"]), 1);
    assert!(text(&output.stderr).contains("in use"), "{output:?}");
    assert_eq!(fs::read(mounted.join("f")).expect("still there"), b"data");
    drop(file);
    mounted.unmount();
    assert!(!is_mounted(&s.join("mnt")));
}

#[test]
fn ctrl_c_ends_a_mount_with_everything_written() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    let mut child = foreground(&s, &["--rw", "disk.img"]);
    let gone = Mounted::adopt(&s);
    // In the host's cache only, when the signal comes.
    let file = fs::File::create(gone.join("f")).expect("a file");
    file.write_all_at(&[7; 300_000], 0).expect("written");
    drop(file);
    // SAFETY: a signal to our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    let status = child.wait().expect("exit");
    assert_eq!(status.code(), Some(0));
    assert_sound(&image);
    let output = succeed(sbin("debugfs").args(["-R", "cat /f"]).arg(&image));
    assert!(output.stdout == [7; 300_000]);
}

#[test]
fn what_was_synced_survives_the_death_of_the_server() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 64);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    fs::create_dir(mounted.join("d")).expect("a directory");
    let mut file = fs::File::create(mounted.join("d/synced")).expect("a file");
    file.write_all(b"this stays").expect("written");
    file.sync_all().expect("synced");
    fs::write(mounted.join("unsynced"), [1; 50_000]).expect("written");
    let server = mounted.server();
    for process in [parent(server), server] {
        // SAFETY: a signal to a process of this test's.
        assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    }
    eventually("the host notices", || {
        errno_or_zero(fs::read_dir(mounted.join("d"))) == libc::ENOTCONN
    });
    drop(file);
    succeed(s.tane().args(["umount", "mnt"]));
    let recovered = sbin("e2fsck")
        .arg("-fy")
        .arg(&image)
        .output()
        .expect("e2fsck");
    assert!(
        matches!(recovered.status.code(), Some(0 | 1)),
        "{recovered:?}"
    );
    assert_sound(&image);
    let output = succeed(sbin("debugfs").args(["-R", "cat /d/synced"]).arg(&image));
    assert_eq!(text(&output.stdout), "this stays");
}

/// Who supervises it.
fn parent(process: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.expect("a parent").trim().parse().expect("a number")
}

#[test]
fn a_mount_whose_server_is_killed_goes_away() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 64);
    let mut child = foreground(&s, &["disk.img"]);
    let mounted = Mounted::adopt(&s);
    // SAFETY: a signal to a process of this test's.
    assert_eq!(unsafe { libc::kill(mounted.server(), libc::SIGKILL) }, 0);
    assert_eq!(child.wait().expect("exit").code(), Some(1));
    assert!(!is_mounted(mounted.path()));
    let mut said = String::new();
    let stderr = child.stderr.as_mut().expect("stderr");
    stderr.read_to_string(&mut said).expect("UTF-8");
    assert!(said.contains("killed by signal 9"), "{said}");
}

#[test]
fn a_time_limit_ends_a_mount() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 64);
    let mut child = foreground(&s, &["--time-limit=2", "disk.img"]);
    assert_eq!(child.wait().expect("exit").code(), Some(124));
    assert!(!is_mounted(&s.join("mnt")));
}
