//! What code that an image or an archive got to run finds where a new image is made: the
//! file that it writes, and no name beside it.

use crate::common::*;
use crate::jailed::making::*;
use crate::jailed::*;
use crate::prisoner::*;
use std::process::Stdio;

#[test]
fn whoever_converts_an_image_reaches_no_name_beside_the_new_one() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    beside(&s);
    let mut command = s.tane();
    command.args(["--json", "convert", "disk.img", "out/new.qcow2"]);
    // What it says in the end, nobody takes.
    command.stdout(full_pipe(&s)).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::behind(command.0.id(), 2);
    reaches_no_name(&mut thread, &s);
}

/// The end of a fifo that holds as much as it can.
fn full_pipe(s: &Scratch) -> std::fs::File {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    succeed(s.tool("mkfifo").arg(s.join("fifo")));
    let mut options = std::fs::File::options();
    let both = options.read(true).write(true);
    let held = both.open(s.join("fifo")).expect("a fifo");
    let filling = both.custom_flags(libc::O_NONBLOCK).open(s.join("fifo"));
    let mut filling = filling.expect("a fifo");
    while filling.write(&[0; 4096]).is_ok() {}
    held
}

#[test]
fn whoever_makes_an_image_reaches_no_name_beside_it() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    let command = making(&s);
    let mut thread = Prisoner::behind(command.0.id(), 1);
    reaches_no_name(&mut thread, &s);
}

#[test]
fn nothing_is_left_of_an_image_whose_making_was_killed() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    let mut command = making(&s);
    // Its first child is the one that gives names.
    let pid = command.0.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    tane_test_support::eventually("it is begun", || {
        names(&s).len() == 2 && std::fs::read_to_string(&children).is_ok_and(|c| !c.is_empty())
    });
    // By whatever kills it: it is not asked.
    command.0.kill().expect("a process that lives");
    command.0.wait().expect("its end");
    tane_test_support::eventually("it is gone", || names(&s) == [".profile"]);
}

#[test]
fn the_linux_that_fills_an_image_opens_neither_its_source_nor_anything_else() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    opens_nothing(&[], ".part");
    // What an erofs is made of.
    opens_nothing(&["--fs=erofs"], ".ext4");
}

/// The Linux that writes the file whose name ends so.
fn opens_nothing(more: &[&str], end: &str) {
    let s = Scratch::new();
    beside(&s);
    for i in 0..MANY {
        s.write(&format!("tree/a-rather-long-name-{i:060}"), b"a file");
    }
    s.write("secret", b"a secret");
    let mut command = s.tane();
    command.args(["-v", "make-image", "tree", "out/disk.img"]);
    command.args(more).env("LINUX_SHOULD_NOT", "see this");
    // Names that nobody takes: who reads waits, and with it who writes.
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let command = Running(command.spawn().expect("tane"));
    let pid = linux(command.0.id());
    let mut thread = Prisoner::behind(pid, 2);
    reaches_no_name(&mut thread, &s);
    let part = names(&s).into_iter().find(|name| name.ends_with(end));
    let part = format!("out/{}", part.expect("the new image"));
    let name = format!("tree/a-rather-long-name-{:060}", 0);
    for name in ["tree", &name, "secret", "out", &part] {
        for how in [libc::O_RDONLY, libc::O_WRONLY, libc::O_PATH] {
            let outcome = thread.open(&path(&s.join(name)), how);
            assert_eq!(outcome, DENIED, "{name}");
        }
    }
    // Of files it has the new image and what it was booted with, and of sockets one.
    let open = open_beside_its_leash(pid);
    let (sockets, files): (Vec<_>, Vec<_>) = open.iter().partition(|to| to.starts_with("socket:"));
    assert_eq!(sockets.len(), 1, "{open:?}");
    let new = path(&s.join(&part)).into_string().expect("UTF-8");
    for file in files {
        let is_known = *file == new
            || file == "/dev/null"
            || file.starts_with("anon_inode:")
            || file.starts_with("/memfd:")
            || file.ends_with(".elf");
        assert!(is_known, "{file}");
    }
    // And its system calls are those of `cat`.
    let found = listed::differences(&filter::Filters::of(&thread), pid, 'L');
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_image_whose_linux_dies_is_not_made_and_the_command_says_why() {
    use std::io::Read;
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    for i in 0..MANY {
        s.write(&format!("tree/a-rather-long-name-{i:060}"), b"a file");
    }
    let mut command = s.tane();
    command.args(["-v", "make-image", "tree", "out/disk.img"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut command = Running(command.spawn().expect("tane"));
    let pid = linux(command.0.id());
    // SAFETY: a signal to a process that is there.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
    let mut said = String::new();
    let stderr = command.0.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let end = &said[said.len().saturating_sub(500)..];
    let why = "the process in which Linux writes the image has died";
    assert!(said.contains(why), "{end}");
    assert_eq!(command.0.wait().expect("exit").code(), Some(3));
    assert_eq!(names(&s), [".profile"]);
}
