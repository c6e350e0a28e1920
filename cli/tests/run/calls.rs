//! Promises of `tane run --stat` and `--trace`: each system call of a program is counted and shown.

use crate::common::run::{image, run};
use crate::common::schema;

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
