//! How much memory a copy takes, however much is copied.

mod common;

use common::*;
use std::process::Command;

/// More than the Linux of any command has: all of it would be in use.
const FILES: usize = 320;
const SIZE: usize = 1_000_000;
/// In bytes. A program built for debugging has some more than the 150 MB that
/// `tane bench` holds it to.
const MOST: u64 = 200_000_000;

/// The most bytes that it had in memory at a time, by the host's own account, which
/// only wait4(2) gives.
#[expect(clippy::zombie_processes)]
fn peak(command: &mut Command) -> u64 {
    let child = command.spawn().expect("tane");
    let mut status = 0;
    // SAFETY: a child of ours that nobody waits for; zeroes are a rusage.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = child.id() as i32;
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        usage
    };
    assert_eq!(status, 0, "{command:?}");
    usage.ru_maxrss as u64 * 1024
}

#[test]
fn a_copy_of_much_takes_little_memory_in_and_out() {
    if !has_kernel() {
        return;
    }
    let Some(mut qemu) = tane_test_support::tool("qemu-utils", "qemu-img") else {
        return;
    };
    let s = Scratch::new();
    for i in 0..FILES {
        s.write(&format!("tree/{i}"), &vec![i as u8 | 1; SIZE]);
    }
    s.ext4("disk.img", None, 512);
    let most = peak(s.tane().args(["cp", "-r", "tree", "disk.img:/"]));
    assert!(most < MOST, "in: {most}");
    // Out of a container, as what lies in a raw image the host copies.
    let convert = ["convert", "-O", "qcow2", "disk.img", "disk.qcow2"];
    succeed(qemu.current_dir(s.path()).args(convert));
    let most = peak(s.tane().args(["cp", "-r", "disk.qcow2:/tree", "out"]));
    assert!(most < MOST, "out: {most}");
    assert_same(
        &manifest(&s.join("tree"), ""),
        &manifest(&s.join("out"), ""),
    );
}
