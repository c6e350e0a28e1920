//! Promises of `tane run`: unchanged programs run on the image's Linux as they do on the
//! host's, and what cannot is named.

use crate::common::run::{image, piped, root, run, says};
use crate::common::*;
use std::io::{Read, Write};
use std::process::Output;

/// The same words, in a shell of the host and in one of the image.
#[track_caller]
pub fn as_on_the_host(s: &Scratch, script: &str) {
    let host = s.tool("busybox").args(["sh", "-c", script]).output();
    let here = run(s, &[], &["sh", "-c", script]).output();
    let of = |done: std::io::Result<Output>| {
        let done = done.expect("a program");
        (done.status.code(), done.stdout, done.stderr)
    };
    assert_eq!(of(here), of(host));
}

#[test]
fn a_program_of_an_image_runs_and_its_exit_code_is_the_commands() {
    let Some(s) = image() else { return };
    says(
        &mut run(&s, &[], &["cat", "/etc/motd"]),
        0,
        "good morning\n",
        "",
    );
    says(&mut run(&s, &[], &["/bin/sh", "-c", "exit 7"]), 7, "", "");
    let both = "echo out; echo err >&2; exit 255";
    says(
        &mut run(&s, &[], &["sh", "-c", both]),
        255,
        "out\n",
        "err\n",
    );
    for script in [
        "kill -9 $$",
        "kill -TERM $$",
        "trap 'echo caught; exit 3' TERM; kill -TERM $$; echo no",
    ] {
        use std::os::unix::process::ExitStatusExt;
        let mut host = s.tool("busybox");
        let host = host.args(["sh", "-c", script]).output().expect("busybox");
        let here = run(&s, &[], &["sh", "-c", script]).output().expect("tane");
        let signal = host.status.signal().map(|signal| 128 + signal);
        assert_eq!(
            here.status.code(),
            host.status.code().or(signal),
            "{script}"
        );
        assert_eq!(here.stdout, host.stdout, "{script}");
    }
    as_on_the_host(
        &s,
        "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo $i",
    );
    as_on_the_host(&s, "set -- 1 2 3; shift; echo $# $*; echo ${#HOME:+x}");
}

#[test]
fn any_amount_of_input_and_output_goes_through_unchanged() {
    let Some(s) = image() else { return };
    let sent: Vec<u8> = (0..20_000_000u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    let mut child = piped(run(&s, &[], &["cat"]));
    let mut input = child.stdin.take().expect("a pipe");
    let writer = {
        let sent = sent.clone();
        std::thread::spawn(move || input.write_all(&sent).expect("all of it"))
    };
    let mut back = Vec::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_end(&mut back)
        .expect("all of it");
    writer.join().expect("no panic");
    assert!(child.wait().expect("tane").success());
    assert!(back == sent, "{} bytes of {}", back.len(), sent.len());
}

#[test]
fn what_a_program_writes_arrives_while_it_runs() {
    let Some(s) = image() else { return };
    let mut child = piped(run(
        &s,
        &[],
        &["sh", "-c", "while read a; do echo \"<$a>\"; done"],
    ));
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for word in ["one", "two"] {
        writeln!(input, "{word}").expect("a pipe");
        let mut answer = [0; 6];
        output.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, format!("<{word}>\n").as_bytes());
    }
    drop(input);
    assert!(child.wait().expect("tane").success());
}

#[test]
fn a_program_learns_that_nobody_reads_what_it_writes() {
    let Some(s) = image() else { return };
    let endless = "while echo y; do :; done 2>/dev/null";
    let mut child = piped(run(&s, &[], &["sh", "-c", endless]));
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 2]).expect("output");
    drop(output);
    let code = child.wait().expect("tane").code();
    assert_eq!(code, Some(128 + libc::SIGPIPE));
}

#[test]
fn the_environment_is_what_was_asked_for_and_nothing_of_the_hosts() {
    let Some(s) = image() else { return };
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n";
    let mut command = run(&s, &[], &["env"]);
    says(
        command.env("SECRET", "1"),
        0,
        &format!("{path}HOME=/root\n"),
        "",
    );
    let options = [
        "-e", "A=b=c", "--env", "SEEN", "-e", "HOME=/h", "-e", "EMPTY=",
    ];
    let mut command = run(&s, &options, &["env"]);
    let wanted = format!("{path}A=b=c\nSEEN=yes\nHOME=/h\nEMPTY=\n");
    says(command.env("SEEN", "yes"), 0, &wanted, "");
    let done = run(&s, &["-e", "NOT_SET_ANYWHERE"], &["env"])
        .output()
        .expect("tane");
    assert_eq!(done.status.code(), Some(2));
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(err.contains("write NAME=VALUE"), "{err}");
}

#[test]
fn the_user_and_the_directory_are_those_that_were_asked_for() {
    let Some(s) = image() else { return };
    let id = ["id"];
    says(&mut run(&s, &[], &id), 0, "uid=0(root) gid=0(root)\n", "");
    says(
        &mut run(&s, &["-u", "ann"], &id),
        0,
        "uid=1000(ann) gid=1001\n",
        "",
    );
    says(
        &mut run(&s, &["-u", "7:staff"], &id),
        0,
        "uid=7 gid=50(staff)\n",
        "",
    );
    let err = "tane: --user: there is no user bob in the root's /etc; a number does without\n";
    says(&mut run(&s, &["-u", "bob"], &id), 2, "", err);
    let home = ["sh", "-c", "echo $HOME"];
    says(&mut run(&s, &["-u", "ann"], &home), 0, "/home/ann\n", "");
    says(&mut run(&s, &["-u", "7"], &home), 0, "/\n", "");
    let pwd = ["sh", "-c", "pwd; cat motd"];
    says(
        &mut run(&s, &["-w", "/etc"], &pwd),
        0,
        "/etc\ngood morning\n",
        "",
    );
    let err = "tane: /none: there is no such directory\n";
    says(&mut run(&s, &["-w", "/none"], &id), 127, "", err);
}

#[test]
fn the_systems_directories_are_the_kernels_own() {
    let Some(s) = image() else { return };
    let script = "read -r a b c </proc/version; echo $a $b; echo x >/dev/null; \
                  [ -b /dev/vda ] && [ -d /sys/devices/platform ] && echo there; \
                  read -r comm </proc/self/comm; echo $comm; \
                  for dir in /tmp /dev/shm; do \
                  echo kept >$dir/f && read a <$dir/f && echo $a; done; \
                  echo out >/dev/stdout; echo /tmp/* /dev/shm/*";
    let wanted = "Linux version\nthere\nsh\nkept\nkept\nout\n/tmp/f /dev/shm/f\n";
    says(&mut run(&s, &[], &["sh", "-c", script]), 0, wanted, "");
    let done = run(&s, &[], &["cat", "/proc/self/status"])
        .output()
        .expect("tane");
    let status = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(status.starts_with("Name:\tcat\n"), "{status}");
    assert!(status.contains("\nUid:\t0\t0\t0\t0\n"), "{status}");
    // Programs choose by it what they load and build.
    says(
        &mut run(&s, &[], &["busybox", "uname", "-m"]),
        0,
        "x86_64\n",
        "",
    );
}

#[test]
fn what_cannot_be_run_is_named_with_the_reason() {
    let Some(s) = image() else { return };
    let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
    foreign.resize(18, 0);
    foreign.extend(183u16.to_le_bytes());
    foreign.resize(4096, 0);
    for (name, content) in [
        ("arm", &foreign[..]),
        ("text", b"echo hello\n"),
        ("lost", b"#!/bin/none\n"),
        ("empty", b""),
    ] {
        let path = format!("more/{name}");
        s.write(&path, content);
        s.make_executable(&path);
    }
    s.write("more/plain", b"#!/bin/sh\n");
    root(&s, "more");
    s.ext4("disk.img", Some(&s.join("more")), 32);
    for (program, code, why) in [
        (
            "/arm",
            126,
            "is a program for another processor (ARM64), not for x86-64",
        ),
        (
            "/text",
            126,
            "is a text without #! in its first line: name the shell that is to run it",
        ),
        (
            "/lost",
            126,
            "needs the interpreter /bin/none, which is not there",
        ),
        ("/empty", 126, "is empty"),
        ("/plain", 126, "is not executable: its mode has no x"),
        ("/bin", 126, "is a directory"),
        ("/none", 127, "there is no /none"),
        ("none", 127, "is in no directory of PATH"),
    ] {
        let err = format!("tane: {program}: {why}\n");
        says(&mut run(&s, &[], &[program]), code, "", &err);
    }
    // Of a directory that is not the root.
    let err = "tane: ./text: is a text without #! in its first line: name the shell that is \
               to run it\n";
    s.write("more/bin/text", b"echo hello\n");
    s.make_executable("more/bin/text");
    let mut command = s.tane();
    command.args(["run", "--root", "more", "-w", "bin", "--", "./text"]);
    says(&mut command, 126, "", err);
}

#[test]
fn wrong_command_lines_are_refused_with_the_remedy() {
    let Some(s) = image() else { return };
    let refused = |words: &[&str], code: i32, why: &str| {
        let done = s.tane().arg("run").args(words).output().expect("tane");
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{err}");
        assert!(err.contains(why), "{err}");
    };
    refused(&["--root", "disk.img"], 2, "-- <PROGRAM>");
    refused(
        &["--root", "none.img", "--", "ls"],
        3,
        "none.img: no such file",
    );
    let lower = ["--root", "disk.img", "--lower", "disk.img", "--", "ls"];
    refused(&lower, 2, "a root is one image");
    refused(
        &["--root", "root", "--rw", "--", "ls"],
        2,
        "--rw and --overlay are for images",
    );
    refused(
        &["--rw", "--", "busybox"],
        2,
        "--rw and --overlay are for images",
    );
    refused(
        &["--", "./none"],
        127,
        "--root names the image or directory",
    );
    refused(
        &["--kernel", "host", "--root", "root", "--", "ls"],
        2,
        "--kernel host",
    );
    let small = ["--memory", "64M", "--root", "root", "--", "ls"];
    refused(&small, 3, "make an image of it (tane make-image)");
    let mut command = s.tane();
    command.args(["run", "--root", "disk.img", "--", "ls"]);
    command.env("TANE_IMAGE", s.join("elsewhere.elf"));
    let done = command.output().expect("tane");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{err}");
    assert!(err.contains("no kernel image that runs programs"), "{err}");
    assert!(err.contains("make builds it"), "{err}");
}
