//! Promises of the jail around `tane run`: nothing protects the process from the program, so
//! that what holds is what the host lets the process do.

use crate::common::run::{image, piped};
use crate::common::typist::Typist;
use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

#[test]
fn no_file_of_the_host_can_be_reached() {
    let Some(s) = image() else { return };
    s.write("secret", b"a secret");
    let secret = s.join("secret");
    let secret = secret.to_str().expect("UTF-8");
    for root in [&["--root", "disk.img"][..], &["--root", "root"]] {
        let mut command = s.tane();
        command.arg("run").args(root).args(["--", "cat", secret]);
        let done = command.output().expect("tane");
        assert_eq!(done.status.code(), Some(1));
        assert_eq!(done.stdout, b"");
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(err.ends_with("No such file or directory\n"), "{err}");
    }
}

#[test]
fn a_program_begins_when_both_jails_have_closed_around_all_threads() {
    let Some(s) = image() else { return };
    if !tane_test_support::has_root() {
        return;
    }
    let waits = ["sh", "-c", "echo begun; read a"];
    for root in [&["--root", "disk.img"][..], &["--root", "root"], &[]] {
        let mut command = s.tane();
        command.arg("run").args(root).arg("--");
        if root.is_empty() {
            command.arg("root/bin/busybox");
        }
        command.args(waits);
        let mut child = piped(command);
        let mut begun = [0; 6];
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut begun).expect("it has begun");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()));
        let mut count = 0;
        for task in tasks.expect("threads").flatten() {
            let Ok(status) = std::fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            assert!(status.contains("\nSeccomp_filters:\t2\n"), "{status}");
            count += 1;
        }
        assert!(count > 2, "{count}");
        drop(child.stdin.take());
        assert!(child.wait().expect("tane").code().is_some());
    }
}

/// What prisoner/escape.c says of itself, and how the command ended.
fn escape(s: &Scratch, options: &[&str]) -> (Vec<String>, u32, ExitStatus) {
    let mut command = s.tane();
    command
        .args(options)
        .args(["run", "--", "./escape", "/etc/passwd"]);
    let mut child = piped(command);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = Vec::new();
    for _ in 0..4 {
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        said.push(line.trim_end().to_owned());
    }
    // All of that has come out.
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"\n").expect("somebody waits");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    said.extend(rest.lines().map(str::to_owned));
    let pid = child.id();
    (said, pid, child.wait().expect("tane"))
}

#[test]
fn a_program_that_calls_the_hosts_kernel_finds_the_jail() {
    let Some(s) = image() else { return };
    let made = Command::new("cc")
        .args(["-O1", "-static", "-w", "-mfsgsbase", "-o"])
        .arg(s.join("escape"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/prisoner/escape.c"
        ))
        .status();
    assert!(made.expect("a C compiler").success());
    let error = |errno: i32| format!("{}", -errno);
    let (said, pid, status) = escape(&s, &[]);
    let wanted = [
        format!("pid {pid}"),
        format!("open {}", error(libc::EACCES)),
        format!("mprotect {}", error(libc::EPERM)),
        format!("flags {}", error(libc::EPERM)),
    ];
    assert_eq!(said, wanted);
    // For a socket.
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{status}");
    // And it does get out, where nothing else holds it.
    let (said, pid, status) = escape(&s, &["--no-jail"]);
    assert_eq!(said[0], format!("pid {pid}"));
    let opened = said[1].strip_prefix("open ").and_then(|fd| fd.parse().ok());
    assert!(opened > Some(2), "{said:?}");
    assert_eq!(said[2..], ["mprotect 0", "flags 0", "alive"]);
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn the_process_that_runs_a_program_at_a_terminal_has_none_of_the_hosts() {
    let Some(s) = image() else { return };
    let mut command = s.tane();
    command.args(["run", "-it", "--root", "disk.img", "--"]);
    command.args(["sh", "-c", "echo begun; read a; echo \"<$a>\""]);
    let mut typist = Typist::at(command);
    typist.sees("begun\r\n");
    let front = typist.child.id();
    let terminals = |pid: &str| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
        let open = open
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let names = open.map(|path| path.display().to_string());
        let is_one = |name: &String| name.starts_with("/dev/pts") || name.starts_with("/dev/tty");
        names.filter(is_one).count()
    };
    assert!(terminals(&front.to_string()) > 0);
    let children = format!("/proc/{front}/task/{front}/children");
    let children = std::fs::read_to_string(children).expect("it runs");
    let others: Vec<_> = children.split_whitespace().collect();
    assert_eq!(others.len(), 1, "{children}");
    if tane_test_support::has_root() {
        assert_eq!(terminals(others[0]), 0);
    }
    // Field 7: its controlling terminal.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", others[0])).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    assert_eq!(fields.split(' ').nth(4), Some("0"), "{stat}");
    typist.types("yes\r");
    typist.sees("<yes>\r\n");
    assert_eq!(typist.ends().code(), Some(0));
}
