//! Promises of `tane run -it`: a program has a terminal as it has one on the host, and the
//! host's is afterwards as it was.

use crate::common::run::{add_dynamic, image, piped, run, says};
use crate::common::typist::{self, Typist};
use crate::common::*;
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tane_test_support::eventually;

/// A shell of the tree `root`.
fn at(s: &Scratch, shell: &[&str]) -> Typist {
    let mut command = s.tane();
    command.args(["run", "-it", "-e", "PS1=ready> ", "--root", "root"]);
    Typist::at({
        command.arg("--").args(shell);
        command
    })
}

const ASH: &[&str] = &["sh"];
const PROMPT: &str = "ready> ";

/// All shells, unchanged: one with a line editor of its own, one with readline, and one
/// that has the kernel's.
fn shells(s: &Scratch) -> Vec<&'static [&'static str]> {
    let others: [&[&str]; 2] = [&["bash", "--norc"], &["dash"]];
    let mut found = vec![ASH];
    for shell in others {
        let path = format!("/usr/bin/{}", shell[0]);
        if std::path::Path::new(&path).exists() {
            add_dynamic(s, "root", &path);
            found.push(shell);
        }
    }
    found
}

#[test]
fn a_shell_has_a_prompt_and_its_exit_code_is_the_commands() {
    let Some(s) = image() else { return };
    for shell in shells(&s) {
        let mut typist = at(&s, shell);
        typist.sees(PROMPT);
        // The word is erased but for its beginning.
        typist.types("echo a$((6*77\x7f\x7f7))z\r");
        typist.sees("a42z\r\n");
        typist.sees(PROMPT);
        typist.types("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && cat /proc/self/stat /proc/$$/stat\r");
        // Process group, session, terminal and the group in its foreground.
        let mut stat = || {
            typist.sees(") ");
            let line = typist.sees("\n");
            let fields = line.split_whitespace().skip(2).take(4);
            fields
                .map(|n| n.parse().expect("a number"))
                .collect::<Vec<i32>>()
        };
        let (cat, own) = (stat(), stat());
        assert_eq!(cat[0], cat[3], "{shell:?}: a job is in the foreground");
        assert_ne!(cat[0], own[0], "{shell:?}: it is a group of its own");
        assert_eq!([cat[1], own[0]], [own[1]; 2], "{shell:?}: its session");
        assert_eq!(cat[2], 136 << 8, "{shell:?}: /dev/pts/0");
        typist.sees(PROMPT);
        typist.types("exit 5\r");
        assert_eq!(typist.ends().code(), Some(5), "{shell:?}");
    }
}

#[test]
fn a_line_is_edited_by_the_shell() {
    let Some(s) = image() else { return };
    let mut typist = at(&s, ASH);
    typist.sees(PROMPT);
    // Three to the left, and the line before by the arrow up.
    typist.types("echo z$((6*))z\x1b[D\x1b[D\x1b[D7\r");
    typist.sees("z42z\r\n");
    typist.sees(PROMPT);
    typist.types("\x1b[A\x7f+y$((1+1))\r");
    typist.sees("z42+y2\r\n");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert_eq!(typist.ends().code(), Some(0));
}

/// A key that is a signal, and what the shell then has in `$?`. The terminal forgets what is
/// shown at that moment, which may be a prompt: as on any Linux.
fn key(typist: &mut Typist, key: &str, code: i32) {
    typist.types(key);
    typist.types("echo c$?c\r");
    typist.sees(&format!("c{code}c\r\n"));
    typist.sees(PROMPT);
}

#[test]
fn keys_stop_end_and_continue_what_is_in_the_foreground() {
    let Some(s) = image() else { return };
    s.write("root/says", b"r2n\n");
    std::os::unix::fs::symlink("busybox", s.join("root/bin/tail")).expect("a link");
    for shell in shells(&s) {
        let mut typist = at(&s, shell);
        typist.sees(PROMPT);
        for (ctrl, code) in [("\x03", 130), ("\x1c", 131)] {
            // It has said this itself: a shell that is about to become another program still
            // ignores SIGQUIT, or drops SIGINT.
            typist.types("tail -f /says\r");
            typist.sees("r2n\r\n");
            key(&mut typist, ctrl, code);
        }
        // It says when it goes on.
        let trap = "trap \"echo w$((1+1))w\" CONT";
        let job = format!("{trap}; echo r$((1+1))n; while :; do sleep 1; done");
        typist.types(&format!("sh -c '{job}'\r"));
        typist.sees("r2n\r\n");
        key(&mut typist, "\x1a", 148);
        for (ctrl, code) in [("\x1a", 148), ("\x03", 130)] {
            typist.types("fg\r");
            typist.sees("w2w\r\n");
            key(&mut typist, ctrl, code);
        }
        typist.types("exit 6\r");
        assert_eq!(typist.ends().code(), Some(6), "{shell:?}");
    }
}

#[test]
fn the_terminal_has_the_size_of_the_hosts_and_follows_it() {
    let Some(s) = image() else { return };
    let mut typist = at(&s, ASH);
    typist.sees(PROMPT);
    typist.resizes(37, 111);
    typist.types("until [ \"$(stty size)\" = '37 111' ]; do :; done; echo d$((1+1))ne\r");
    typist.sees("d2ne\r\n");
    typist.sees(PROMPT);
    // Who is in the foreground is told.
    typist.types(
        "sh -c 'trap \"stty size; exit 9\" WINCH; echo t$((1+1))t; while :; do sleep 1; done'\r",
    );
    typist.sees("t2t\r\n");
    typist.resizes(41, 99);
    typist.sees("41 99\r\n");
    typist.sees(PROMPT);
    typist.types("exit\r");
    assert_eq!(typist.ends().code(), Some(9));
}

#[test]
fn the_size_is_there_when_the_program_begins() {
    let Some(s) = image() else { return };
    let (seen, status) = at(&s, &["sh", "-c", "stty size"]).ends_with();
    let (rows, columns) = typist::SIZE;
    assert_eq!(seen, format!("{rows} {columns}\r\n"));
    assert_eq!(status.code(), Some(0));
}

/// How the command ends after this; the terminal was the program's, and is as it was.
#[track_caller]
fn restored(s: &Scratch, program: &[&str], end: impl FnOnce(&mut Typist)) -> ExitStatus {
    let mut typist = at(s, program);
    typist.sees(PROMPT);
    eventually("the keys are the program's", || typist.settings().is_raw());
    end(&mut typist);
    let status = typist.child.wait().expect("exit");
    assert_eq!(typist.settings(), typist.before);
    status
}

/// The other process of the command, in which Linux is.
fn other_of(front: u32) -> u32 {
    let path = format!("/proc/{front}/task/{front}/children");
    let children = std::fs::read_to_string(path).expect("it runs");
    let mut children = children.split_whitespace();
    let found = children.next().and_then(|pid| pid.parse().ok());
    assert_eq!(children.next(), None);
    found.expect("one")
}

fn send(pid: u32, signal: i32) {
    // SAFETY: no memory; to a child that nobody has waited for, or to its child.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

#[test]
fn the_hosts_terminal_is_as_it_was_however_the_command_ends() {
    let Some(s) = image() else { return };
    let typed = |keys: &str| restored(&s, ASH, |typist| typist.types(keys));
    assert_eq!(typed("exit 3\r").code(), Some(3));
    assert_eq!(typed("kill -9 $$\r").code(), Some(137));
    // The program's Linux ends.
    let status = typed("echo c >/proc/sysrq-trigger\r");
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let waits = ["sh", "-c", "echo 'ready> '; exec sleep 100000"];
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let status = restored(&s, &waits, |typist| send(typist.child.id(), signal));
        assert_eq!(status.code(), Some(128 + signal), "{status}");
    }
    // Of the command's own making, and the process that Linux is in.
    let status = restored(&s, &waits, |typist| send(typist.child.id(), libc::SIGQUIT));
    assert_eq!(status.signal(), Some(libc::SIGQUIT), "{status}");
    let killed = |typist: &mut Typist| send(other_of(typist.child.id()), libc::SIGKILL);
    let status = restored(&s, &waits, killed);
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
}

#[test]
fn a_program_that_cannot_be_started_is_named_as_without_a_terminal() {
    let Some(s) = image() else { return };
    let (seen, status) = at(&s, &["/none"]).ends_with();
    assert_eq!(seen, "tane: /none: there is no /none\r\n");
    assert_eq!(status.code(), Some(127));
}

#[test]
fn a_terminal_that_goes_away_hangs_up_on_the_program() {
    let Some(s) = image() else { return };
    let mut command = s.tane();
    let script = "trap 'echo hung up >/etc/motd; sync; exit 4' HUP; echo 'ready> '; \
                  while :; do read a || sleep 1; done";
    command.args([
        "run", "-it", "--rw", "--root", "disk.img", "--", "sh", "-c", script,
    ]);
    let mut typist = Typist::at(command);
    typist.sees(PROMPT);
    let status = typist.leaves().wait().expect("exit");
    assert!(
        status.code() == Some(4) || status.signal().is_some(),
        "{status}"
    );
    let found = succeed(s.tane().args(["cat", "disk.img:/etc/motd"])).stdout;
    assert_eq!(text(&found), "hung up\n");
}

#[test]
fn all_that_is_shown_arrives_before_the_command_ends() {
    let Some(s) = image() else { return };
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let done = run(&s, &["-t"], &["sh", "-c", script])
        .output()
        .expect("tane");
    let lines: String = (0..20_000).map(|i| format!("line {i}\r\n")).collect();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(text(&done.stdout) == lines, "{} bytes", done.stdout.len());
    assert_eq!(text(&done.stderr), "");
}

#[test]
fn without_i_nothing_that_is_typed_is_read() {
    let Some(s) = image() else { return };
    s.write("input", b"a line\n");
    let mut input = std::fs::File::open(s.join("input")).expect("a file");
    let mut command = run(
        &s,
        &["-t"],
        &["sh", "-c", "[ -t 0 ] && [ -t 2 ] && echo yes"],
    );
    command.stdin(input.try_clone().expect("a descriptor"));
    says(&mut command, 0, "yes\r\n", "");
    assert_eq!(input.stream_position().expect("a file"), 0);
}

#[test]
fn it_is_refused_when_nobody_sits_at_a_terminal() {
    let Some(s) = image() else { return };
    let mut command = run(&s, &["-it"], &["true"]);
    let err = "tane: run -t: standard input is no terminal, which -i would have the program \
               read; -i alone passes it on as it is\n";
    says(command.stdin(Stdio::null()), 2, "", err);
    // Alone it is what is so anyway.
    let mut child = piped(run(&s, &["-i"], &["cat"]));
    let mut keys = child.stdin.take().expect("a pipe");
    keys.write_all(b"typed").expect("somebody reads");
    drop(keys);
    let mut seen = String::new();
    let mut output = child.stdout.take().expect("a pipe");
    output.read_to_string(&mut seen).expect("text");
    assert_eq!(seen, "typed");
    assert!(child.wait().expect("tane").success());
}
