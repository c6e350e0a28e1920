//! Promises about who has an image: QEMU's programs, the host, another command. QEMU's
//! own programs and the host's kernel are on the other side.

use crate::common::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use tane_test_support::eventually;

const FORMATS: [(&str, &str); 6] = [
    ("raw", "raw"),
    ("qcow2", "qcow2"),
    ("vmdk", "vmdk"),
    ("vmdk -o subformat=monolithicFlat", "vmdk"),
    ("vpc", "vpc"),
    ("vhdx", "vhdx"),
];

/// The image in another format, as `d`.
fn convert(s: &Scratch, format: &str) {
    for name in ["d", "d-flat"] {
        let _ = std::fs::remove_file(s.join(name));
    }
    succeed(&mut s.command(
        "qemu-img",
        &format!("convert -f raw -O {format} disk.img d"),
    ));
}

/// A program that has an image open until it is told to end.
struct Has {
    child: Child,
    input: Option<ChildStdin>,
}

impl Has {
    fn start(command: &mut Command) -> Has {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let input = child.stdin.take();
        Has { child, input }
    }

    fn qemu_io(s: &Scratch, arguments: &str) -> Has {
        let mut has = Has::start(&mut s.command("qemu-io", arguments));
        // It answers once it has opened the image.
        has.ask("read 0 512\n", "read 512/512");
        has
    }

    fn ask(&mut self, line: &str, answer: &str) {
        let input = self.input.as_mut().expect("its input");
        input.write_all(line.as_bytes()).expect("it listens");
        let output = self.child.stdout.as_mut().expect("its output");
        let mut lines = BufReader::new(output).lines();
        let mut said = String::new();
        while !said.contains(answer) {
            said = lines.next().expect("an answer").expect("text");
        }
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("exit").success());
    }
}

impl Drop for Has {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

pub fn refused(s: &Scratch, arguments: &[&str]) -> String {
    text(&exit(s.tane().args(arguments), 3).stderr)
}

#[test]
fn what_qemu_writes_is_used_by_nobody_else_in_any_format_and_it_is_named() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    s.write("tree/f", b"data");
    s.ext4("disk.img", None, 16);
    for (made, format) in FORMATS {
        convert(&s, made);
        let qemu = Has::qemu_io(&s, &format!("-f {format} d"));
        let ours: [&[&str]; 5] = [
            &["make-image", "--force", "tree", "d"],
            &["cp", "f", "d:/"],
            &["ls", "d:/"],
            &["--no-jail", "ls", "d:/"],
            &["mkfs", "--force", "d"],
        ];
        for arguments in ours {
            let said = refused(&s, arguments);
            let wanted = "is in use by another program, qemu-io (pid ";
            assert!(said.contains(wanted), "{made}, {arguments:?}: {said}");
            assert!(said.contains("wait until it ends"), "{said}");
        }
        qemu.end();
        succeed(s.tane().args(["cp", "f", "d:/"]));
    }
}

#[test]
fn what_qemu_reads_is_read_and_not_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    s.ext4("disk.img", None, 16);
    for (made, format) in FORMATS {
        convert(&s, made);
        let qemu = Has::qemu_io(&s, &format!("-r -f {format} d"));
        succeed(s.tane().args(["ls", "d:/"]));
        let said = refused(&s, &["cp", "f", "d:/"]);
        assert!(said.contains("qemu-io (pid "), "{made}: {said}");
        qemu.end();
    }
}

#[test]
fn a_backing_file_that_qemu_writes_is_not_read() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    convert(&s, "qcow2");
    succeed(&mut s.command("qemu-img", "create -q -f qcow2 -b d -F qcow2 over"));
    let qemu = Has::qemu_io(&s, "-f qcow2 d");
    let said = refused(&s, &["ls", "over:/"]);
    assert!(said.contains("d: is in use by another program"), "{said}");
    qemu.end();
    // And the other way round: what is above it, QEMU has; what is below is read.
    let qemu = Has::qemu_io(&s, "-f qcow2 over");
    succeed(s.tane().args(["ls", "d:/"]));
    let said = refused(&s, &["touch", "d:/f"]);
    assert!(said.contains("qemu-io (pid "), "{said}");
    qemu.end();
}

#[test]
fn what_is_written_qemu_refuses_in_any_format() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    for (made, format) in FORMATS {
        convert(&s, made);
        let qemu_io = |line: &str| {
            let mut command = s.command("qemu-io", &format!("-f {format}"));
            command.args(line.split('|')).arg("d");
            command
        };
        let refuses = |command: &mut Command| {
            let said = text(&exit(command, 1).stderr);
            assert!(said.contains("lock"), "{made}: {said}");
        };
        let mut ours = Has::start(s.tane().args(["sh", "--rw", "d"]));
        ours.ask("ls; echo ready\n", "ready");
        // It is read: that QEMU may do too.
        refuses(&mut qemu_io("-c|write 0 512"));
        succeed(&mut qemu_io("-r|-c|read 0 512"));
        ours.ask("touch /f; echo ready\n", "ready");
        refuses(&mut qemu_io("-c|write 0 512"));
        refuses(&mut qemu_io("-r|-c|read 0 512"));
        // Who asks for it by name looks at it all the same.
        succeed(&mut s.command("qemu-img", &format!("info -U -f {format} d")));
        ours.end();
        succeed(&mut qemu_io("-c|read 0 512"));
    }
}

/// Sets the command going and waits until it says that it waits.
fn waits(command: &mut Command) -> (Child, String) {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    heeds_ctrl_c(command);
    let mut child = command.spawn().expect("tane");
    let mut said = String::new();
    let output = child.stderr.take().expect("its output");
    let mut output = BufReader::new(output);
    output.read_line(&mut said).expect("text");
    // What it says from here on is nobody's.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    (child, said)
}

#[test]
fn with_wait_it_goes_on_when_the_other_has_ended() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    s.ext4("disk.img", None, 16);
    convert(&s, "qcow2");
    let ours: [&[&str]; 3] = [
        &["--wait", "cp", "f", "d:/"],
        &["ls", "--wait=1h", "d:/"],
        &["fsck", "--wait", "--repair", "d"],
    ];
    for arguments in ours {
        let qemu = Has::qemu_io(&s, "-f qcow2 d");
        let (mut child, said) = waits(s.tane().args(arguments));
        assert!(said.contains("d: is in use by another program"), "{said}");
        assert!(said.contains("waiting until it ends"), "{said}");
        assert!(child.try_wait().expect("a child").is_none());
        qemu.end();
        assert!(child.wait().expect("exit").success(), "{arguments:?}");
    }
    // It waits for no longer than it is told to.
    let qemu = Has::qemu_io(&s, "-f qcow2 d");
    let said = refused(&s, &["ls", "--wait=0.2", "d:/"]);
    assert!(said.contains("wait until it ends"), "{said}");
    qemu.end();
}

#[test]
fn ctrl_c_ends_a_wait() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    let image = s.ext4("disk.img", None, 16);
    let qemu = Has::qemu_io(&s, "-f raw disk.img");
    for arguments in [["cp", "f", "disk.img:/"], ["fsck", "--repair", "disk.img"]] {
        let (mut child, said) = waits(s.tane().arg("--wait").args(arguments));
        assert!(said.contains("waiting until it ends"), "{said}");
        // SAFETY: a child of ours that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        eventually("the wait's end", || {
            child.try_wait().expect("a child").is_some()
        });
        assert_eq!(child.wait().expect("exit").code(), Some(130));
    }
    qemu.end();
    assert_sound(&image);
}

#[cfg(feature = "fuse")]
#[test]
fn a_mount_has_its_locks_until_it_is_unmounted() {
    if !crate::common::fuse::has_fuse() {
        return;
    }
    let s = Scratch::new();
    s.write("f", b"data");
    let image = s.ext4("disk.img", None, 16);
    let written = || {
        let mut command = s.command("qemu-io", "-f raw disk.img -c");
        // Where an ext4 has nothing.
        command.arg("write -P 7 0 512");
        command
    };
    for how in ["--rw", "--verbose"] {
        let mounted = crate::common::fuse::Mounted::new(&s, &[how, "disk.img"]);
        let said = text(&exit(&mut written(), 1).stderr);
        assert!(said.contains("lock"), "{how}: {said}");
        let said = refused(&s, &["cp", "f", "disk.img:/"]);
        let server = format!("tane (pid {})", mounted.server());
        assert!(said.contains(&server), "{said}");
        mounted.unmount();
        succeed(&mut written());
        succeed(s.tane().args(["cp", "f", "disk.img:/"]));
    }
    assert_sound(&image);
}
