//! Promises of `tane run` about processes: signals and interrupts reach them, at a terminal
//! too, and shells have their pipelines and jobs, on several CPUs as on one.

use super::programs::as_on_the_host;
use crate::common::run::{image, piped, run, says};
use crate::common::terminal::Terminal;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

#[test]
fn signals_reach_the_program_and_end_it_or_not_as_it_says() {
    let Some(s) = image() else { return };
    let signal = |script: &str, signal: i32| {
        let mut child = piped(run(&s, &[], &["sh", "-c", script]));
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0; 6]).expect("it has begun");
        // SAFETY: a child of this process.
        unsafe { libc::kill(child.id() as i32, signal) };
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("text");
        (child.wait().expect("tane").code(), rest)
    };
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let waits = "echo begun; exec sleep 1000";
        assert_eq!(signal(waits, number), (Some(128 + number), String::new()));
    }
    // One that computes, too.
    let busy = "trap 'echo caught; exit 5' INT; echo begun; while :; do :; done";
    assert_eq!(signal(busy, libc::SIGINT), (Some(5), "caught\n".into()));
}

#[test]
fn who_interrupts_when_the_program_has_ended_and_nobody_reads_need_not_wait() {
    let Some(s) = image() else { return };
    // More than a pipe holds, and less than two.
    let words = ["busybox", "head", "-c", "100000", "/dev/zero"];
    let mut child = piped(run(&s, &[], &words));
    let output = child.stdout.take().unwrap();
    let held = || {
        let mut held = 0;
        // SAFETY: a descriptor, and an int of ours.
        unsafe { libc::ioctl(output.as_raw_fd(), libc::FIONREAD, &raw mut held) };
        held
    };
    let begun = Instant::now();
    while held() < 65_536 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // It ends, since the rest fits into its own pipe.
    std::thread::sleep(Duration::from_secs(2));
    while child.try_wait().expect("tane").is_none() {
        // SAFETY: a child of this process.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        // Signals that come together are one.
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(child.wait().expect("tane").code(), Some(130));
}

#[test]
fn who_sits_at_a_terminal_types_to_the_program_and_interrupts_it() {
    let Some(s) = image() else { return };
    let mut terminal = Terminal::new();
    let script = "echo begun; read a; echo \"<$a>\"; exec sleep 1000";
    let mut command = run(&s, &[], &["sh", "-c", script]);
    terminal.give(&mut command);
    let mut child = command.spawn().expect("tane");
    terminal.shows("begun");
    terminal.types("words");
    terminal.shows("<words>");
    // SAFETY: a child of this process. What Ctrl-C does; the terminal is nobody's session's.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let code = child.wait().expect("tane").code();
    assert_eq!(code, Some(128 + libc::SIGINT));
}

#[test]
fn shells_have_pipelines_jobs_and_the_codes_of_what_they_start() {
    let Some(s) = image() else { return };
    for script in [
        "ls /bin | wc -l >/dev/null; (exit 3); echo $?",
        "echo $(echo a; echo b | cat); cat /nosuch 2>/dev/null || echo none",
        // Whether a shell tells of it depends on who is faster.
        "exec 2>/dev/null; sleep 1000 & kill $!; wait $!; echo $?",
    ] {
        as_on_the_host(&s, script);
    }
    // The image can be closed beside what is left behind.
    let script = "sleep 1000 >/dev/null 2>&1 & echo kept >/file; exit 4";
    says(&mut run(&s, &["--rw"], &["sh", "-c", script]), 4, "", "");
    says(&mut run(&s, &[], &["cat", "/file"]), 0, "kept\n", "");
    // Also if that has the output open.
    let script = "sleep 1000000 & echo begun; exit 5";
    says(&mut run(&s, &[], &["sh", "-c", script]), 5, "begun\n", "");
}

#[test]
fn an_interrupt_ends_all_that_the_program_has_started() {
    let Some(s) = image() else { return };
    let script = "echo begun; sleep 1000 | cat; echo no";
    let mut child = piped(run(&s, &[], &["sh", "-c", script]));
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 6]).expect("output");
    // SAFETY: a child of ours that nobody has waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the end");
    assert_eq!(rest, "");
    let code = child.wait().expect("tane").code();
    assert_eq!(code, Some(128 + libc::SIGINT));
}

#[test]
fn processes_are_the_same_on_several_cpus() {
    let Some(s) = image() else { return };
    for script in [
        "ls /bin | wc -l >/dev/null; (exit 3); echo $?",
        "for i in 1 2 3 4; do echo $i | cat | cat; done; seq 1 5000 | sort -rn | head -n 2",
        "(i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo $i) & seq 1 30000 | tail -n 1; wait",
    ] {
        let host = s.tool("busybox").args(["sh", "-c", script]).output();
        let (code, output) = host.map(|it| (it.status.code(), it.stdout)).expect("sh");
        let words = ["sh", "-c", script];
        let here = run(&s, &["--cpus", "2"], &words).output().expect("tane");
        let sorted = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(here.status.code(), code, "{script}");
        assert_eq!(sorted(&here.stdout), sorted(&output), "{script}");
    }
}
