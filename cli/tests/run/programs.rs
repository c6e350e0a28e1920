//! Promises of `tane run`: unchanged programs run on the image's Linux as they do on the
//! host's, and what cannot is named.

use crate::common::run::{image, piped, root, run, says};
use crate::common::schema;
use crate::common::terminal::Terminal;
use crate::common::*;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::Output;
use std::time::{Duration, Instant};

/// The same words, in a shell of the host and in one of the image.
#[track_caller]
fn as_on_the_host(s: &Scratch, script: &str) {
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
fn calls_are_counted_by_name() {
    let Some(s) = image() else { return };
    let script = "for i in 1 2 3; do echo $i; done; [ -e /none ]; exit 4";
    let words = ["sh", "-c", script];
    let done = run(&s, &["--stat", "--json"], &words)
        .output()
        .expect("tane");
    assert_eq!(done.status.code(), Some(4));
    assert_eq!(done.stdout, b"1\n2\n3\n");
    let stat = schema::messages(&done.stderr);
    let [stat] = &stat[..] else {
        panic!("{stat:?}");
    };
    let calls = stat["stat"]["calls"].as_array().expect("calls");
    let of = |name: &str| {
        let one = calls.iter().find(|one| one["call"] == name);
        let one = one.unwrap_or_else(|| panic!("no {name}: {stat}"));
        (one["calls"].as_u64(), one["errors"].as_u64())
    };
    assert_eq!(of("write"), (Some(3), Some(0)));
    assert!(of("newfstatat").1 > Some(0), "{stat}");
    assert_eq!(of("exit_group"), (Some(1), Some(0)));
    assert!(stat["stat"]["faults"].as_u64() > Some(5), "{stat}");
    let done = run(&s, &["--stat"], &words).output().expect("tane");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        err.starts_with("     seconds     calls    errors call\n"),
        "{err}"
    );
    assert!(err.contains("         3           write\n"), "{err}");
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

/// The line of a trace that has all of these.
#[track_caller]
fn line<'a>(trace: &'a str, parts: &[&str]) -> &'a str {
    let found = trace
        .lines()
        .find(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no {parts:?}: {trace}"))
}

#[test]
fn calls_are_shown_with_their_arguments_results_and_times() {
    let Some(s) = image() else { return };
    let script = "cat /etc/motd; echo hello; [ -e /none ]; (exit 3); kill -USR1 99999; exit 4";
    let words = ["sh", "-c", script];
    for cpus in ["1", "2"] {
        let options = ["--cpus", cpus, "--trace=calls.txt"];
        let done = run(&s, &options, &words).output().expect("tane");
        assert_eq!(done.status.code(), Some(4));
        assert_eq!(done.stdout, b"good morning\nhello\n");
        let trace = String::from_utf8(s.read("calls.txt")).expect("UTF-8");
        line(&trace, &["\"/etc/motd\", O_RDONLY", " = 3 <"]);
        line(&trace, &["write(1, \"hello\\n\", 6) = 6 <"]);
        line(
            &trace,
            &["\"/none\", ", " = -1 ENOENT (no such file or directory) <"],
        );
        line(
            &trace,
            &["kill(99999, SIGUSR1) = -1 ESRCH (no such process) <"],
        );
        line(&trace, &["mprotect(0x", ", PROT_READ) = 0 <"]);
        line(&trace, &["[exited 3]"]);
        let last = line(&trace, &["] exit_group(4) = ?"]);
        let first = trace.lines().next().expect("a line");
        let thread = |line: &str| line.split(']').next().map(str::to_owned);
        assert_eq!(thread(last), thread(first));
        let other = line(&trace, &["] exit_group(3) = ?"]);
        assert_ne!(thread(other), thread(first));
        for line in trace.lines() {
            let is_whole =
                line.starts_with('[') && ["?", ">"].iter().any(|end| line.ends_with(end));
            assert!(is_whole, "{line}");
        }
    }
    let words = ["sh", "-c", "exit 0"];
    let done = run(&s, &["--trace"], &words).output().expect("tane");
    assert_eq!((done.status.code(), &*done.stdout), (Some(0), &b""[..]));
    line(
        &String::from_utf8_lossy(&done.stderr),
        &["] exit_group(0) = ?"],
    );
}

#[test]
fn a_trace_has_objects_for_who_asks_and_a_file_that_cannot_be_made_is_named() {
    let Some(s) = image() else { return };
    let options = ["--json", "--trace"];
    let words = ["sh", "-c", "cat /none 2>/dev/null"];
    let done = run(&s, &options, &words).output().expect("tane");
    let calls = schema::messages(&done.stderr);
    let is_open = |call: &str| call == "open" || call == "openat";
    let failed = calls.iter().filter(|it| {
        let trace = &it["trace"];
        trace["call"].as_str().is_some_and(is_open) && trace["error"] == "ENOENT"
    });
    let failed: Vec<_> = failed.collect();
    assert_eq!(failed.len(), 1, "{calls:?}");
    assert_eq!(failed[0]["trace"]["result"], -libc::ENOENT);
    assert!(failed[0]["trace"]["nanoseconds"].as_u64() > Some(0));
    let done = run(&s, &["--trace=none/calls"], &words)
        .output()
        .expect("tane");
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        err.contains("--trace: none/calls: No such file or directory"),
        "{err}"
    );
    assert!(done.stdout.is_empty());
}
