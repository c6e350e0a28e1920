//! Promises about Ctrl-C, pressed for certain in the middle of a copy.

use crate::common::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Child;
use tane_test_support::eventually;

const FILES: u8 = 60;
const SIZE: usize = 8 << 20;

/// A pipe that holds a line or two more and then makes its writer wait.
fn nearly_full_pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are then ours.
    let (reader, mut writer) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    // SAFETY: a descriptor of ours.
    let size = unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1) };
    let fill = usize::try_from(size).expect("a size") - 256;
    writer.write_all(&vec![b'\n'; fill]).expect("fits");
    (reader, writer)
}

fn waiting_in(pipe: &File) -> i32 {
    let mut bytes = 0;
    // SAFETY: the result is an int.
    let failed = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(failed, 0);
    bytes
}

/// The line of a status file in /proc that begins so.
fn status(path: &str, field: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

/// Whether the command's signal thread has taken the interrupt and has nothing
/// left to do but to say so.
fn has_noticed(child: &Child) -> bool {
    let process = format!("/proc/{}", child.id());
    let pending = status(&format!("{process}/status"), "ShdPnd:");
    let pending = u64::from_str_radix(&pending, 16).expect("a set of signals");
    if pending & 1 << (libc::SIGINT - 1) != 0 {
        return false;
    }
    let tasks = std::fs::read_dir(format!("{process}/task")).expect("its threads");
    tasks.flatten().any(|task| {
        let path = task.path().join("status").display().to_string();
        status(&path, "Name:") == "signals" && status(&path, "State:").starts_with('S')
    })
}

#[test]
fn an_interrupted_copy_leaves_whole_files_and_a_sound_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 1024);
    for i in 0..FILES {
        s.write(&format!("tree/{i}"), &vec![i + 1; SIZE]);
    }
    let (mut said, stderr) = nearly_full_pipe();
    let before = waiting_in(&said);
    let mut command = s.tane();
    command
        .args(["cp", "--progress=json", "tree", "disk.img:/"])
        .stderr(stderr);
    heeds_ctrl_c(&mut command);
    let mut child = command.spawn().expect("tane");
    drop(command); // and our copy of the pipe's other end
                   // It tells of progress now and then, and cannot go on for long unheard.
    let ended = |child: &mut Child| child.try_wait().expect("a child").is_some();
    eventually("the copy is under way", || {
        waiting_in(&said) > before || ended(&mut child)
    });
    // SAFETY: a signal to our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    eventually("the command notices", || {
        ended(&mut child) || has_noticed(&child)
    });
    let mut text = String::new();
    said.read_to_string(&mut text).expect("UTF-8");
    let code = child.wait().expect("exit").code();
    assert_eq!(code, Some(130), "{}", text.trim());
    let first = text.trim().lines().next().expect("a line");
    let first: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(first["done"], false, "it was done too soon: {text}");
    assert!(text.contains("stopping after this file"), "{text}");

    assert_sound(&image);
    succeed(s.tane().args(["cp", "disk.img:/tree", "out"]));
    let mut copied = 0;
    for entry in std::fs::read_dir(s.join("out")).expect("a listing") {
        let name = entry.expect("an entry").file_name();
        let i: u8 = name.to_str().and_then(|n| n.parse().ok()).expect("ours");
        let data = s.read(&format!("out/{i}"));
        assert!(
            data.len() == SIZE && data.iter().all(|&b| b == i + 1),
            "{i}"
        );
        copied += 1;
    }
    assert!(copied < FILES, "nothing was left to do");
}
