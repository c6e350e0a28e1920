//! Commands that can be caught in the middle of what they do, and how what they are made
//! to do there ends.
#![allow(dead_code)]

pub mod making;
pub mod opener;
pub mod setting;
pub mod sleeping;
pub mod verbs;

use crate::common::*;
use crate::prisoner::Outcome::{self, Returned};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// Whether a command can be made to do what it would not: it lets nobody but root look
/// into it, and the host shows its filters to nobody who has one.
#[track_caller]
pub fn has_prisoners() -> bool {
    if !has_kernel() || !tane_test_support::has_root() {
        return false;
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let is_free = status.contains("\nSeccomp:\t0\n");
    if !is_free {
        tane_test_support::skip("this process has a filter of system calls already");
    }
    is_free
}

pub const SIZE: usize = 2 << 20;

/// A process that goes away with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// With so many names that the list of them fills a pipe.
pub const MANY: u32 = 2000;

pub fn image(s: &Scratch, names: u32) {
    s.write("tree/big", &vec![7; SIZE]);
    for i in 0..names {
        s.write(&format!("tree/d/a-rather-long-name-{i:060}"), b"");
    }
    s.ext4("disk.img", Some(&s.join("tree")), 64);
}

/// `tane cat`, in the middle of it.
pub fn reading(s: &Scratch, options: &[&str]) -> Running {
    let mut command = s.tane();
    command.args(options).args(["cat", "disk.img:/big"]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    Running(command.spawn().expect("tane"))
}

/// `tane cp`, in the middle of telling what it copied.
pub fn copying(s: &Scratch, words: &[&str]) -> Running {
    let mut command = s.tane();
    command.args(["cp", "-v"]).args(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Running(command.spawn().expect("tane"))
}

pub fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

#[track_caller]
pub fn refused(outcome: &Outcome) {
    assert!(matches!(outcome, Returned(-4095..=-1)), "{outcome:?}");
}

#[track_caller]
pub fn done(outcome: &Outcome) {
    assert!(matches!(outcome, Returned(0..)), "{outcome:?}");
}

pub const DENIED: Outcome = Returned(-(libc::EACCES as i64));
pub const NOT_PERMITTED: Outcome = Returned(-(libc::EPERM as i64));
pub const STDOUT: u64 = 1;
pub const STDERR: u64 = 2;
pub const HERE: u64 = libc::AT_FDCWD as u64;

/// What a process has open, but for the one pipe by which it ends with who started it.
pub fn open_beside_its_leash(pid: u32) -> Vec<String> {
    let (mut open, mut leashes) = (Vec::new(), 0);
    for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files") {
        let fd = fd.expect("a file");
        let to = std::fs::read_link(fd.path()).expect("a link");
        let to = to.to_string_lossy().into_owned();
        let number = fd.file_name().into_string().expect("a number");
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
        let info = info.expect("how it is open");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = i32::from_str_radix(flags.expect("flags").trim(), 8).expect("octal");
        match to.starts_with("pipe:") && flags & libc::O_ASYNC != 0 {
            true => leashes += 1,
            false => open.push(to),
        }
    }
    assert_eq!(leashes, 1, "{open:?}");
    open
}

/// The process that writes for this one.
pub fn gofer(pid: u32) -> u32 {
    let tasks = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(tasks).expect("its children");
    let children: Vec<u32> = children
        .split_whitespace()
        .map(|child| child.parse().expect("a number"))
        .collect();
    let [gofer] = children[..] else {
        panic!("one child: {children:?}");
    };
    gofer
}

/// The child that this process started first.
pub fn first_child(pid: u32) -> u32 {
    child(pid, 0)
}

/// One of those that this process started and that have not ended; the first is 0.
pub fn child(pid: u32, number: usize) -> u32 {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut found = None;
    tane_test_support::eventually("it has a child", || {
        let children = std::fs::read_to_string(&children).expect("its children");
        let child = children.split_whitespace().nth(number);
        found = child.and_then(|child| child.parse().ok());
        found.is_some()
    });
    found.expect("just found")
}
