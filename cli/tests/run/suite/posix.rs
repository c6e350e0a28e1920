//! The Open POSIX Test Suite, as Debian has its source: its tests of interfaces, each a
//! program. A unit is an interface.

use super::{foreign, image, names, runs, users, Extent, Outcome, Suite};
use crate::common::run::add_dynamic;
use crate::common::*;
use std::path::{Path, PathBuf};

pub const SUITE: Suite = Suite {
    name: "posix",
    about: "the Open POSIX Test Suite 1.5.2 (Debian's source package `posixtestsuite`): \
            its programs for each interface",
    make,
    part: PART,
    other_version: || None,
    kernel: "default",
    read,
};

/// Of those in which nothing waits for long.
const PART: &[&str] = &[
    "kill",
    "killpg",
    "mmap",
    "mlock",
    "mq_close",
    "mq_open",
    "mq_receive",
    "mq_send",
    "mq_unlink",
    "munmap",
    "pthread_exit",
    "pthread_join",
    "pthread_kill",
    "pthread_once",
    "pthread_sigmask",
    "raise",
    "sem_open",
    "sem_post",
    "sem_timedwait",
    "shm_unlink",
    "sigaltstack",
    "sigprocmask",
    "sigqueue",
    "sigset",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "waitpid",
];

/// Runs all programs of a directory, and says how each ended.
const RUN: &str = r#"#!/bin/sh
cd "/posix/$1" || exit 2
for test in [0-9]*.test; do
	busybox timeout -s KILL 30 "./$test" </dev/null >/tmp/out 2>&1
	code=$?
	# It may have left others behind.
	[ $code = 137 ] && kill -9 -1
	echo "= ${test%.test} $code"
	tail -n 1 /tmp/out
	echo
done
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let root = foreign("posixtestsuite", "include/posixtest.h")?;
    let source = root.join("conformance/interfaces");
    let mut units: Vec<_> = names(&source)
        .into_iter()
        .filter(|name| extent == Extent::All || PART.contains(&name.as_str()))
        .collect();
    run::root(s, "root");
    units.retain(|unit| compile(s, &root, &source.join(unit), unit));
    let library = first_program(s, &units).ok_or("no C compiler, or no program of it")?;
    add_dynamic(s, "root", library.to_str().expect("UTF-8"));
    // By dlopen(3), when threads end.
    let unwinder = "/lib/x86_64-linux-gnu/libgcc_s.so.1";
    let content = std::fs::read(unwinder).expect("a library");
    s.write(&format!("root{unwinder}"), &content);
    runs(s, RUN);
    users(s);
    image(s);
    Ok(units)
}

/// Programs of an interface that compile; none, if it has only declarations.
fn compile(s: &Scratch, top: &Path, source: &Path, unit: &str) -> bool {
    let to = s.join(&format!("root/posix/{unit}"));
    std::fs::create_dir_all(&to).expect("a directory");
    // As its Makefile does; what is only compiled has no main().
    let script = "cd \"$1\" && for c in [0-9]*.c; do case $c in *buildonly*) continue;; esac; \
                  grep -q 'main *(' $c || continue; \
                  cc -O1 -w -std=gnu99 -D_XOPEN_SOURCE=600 -D_GNU_SOURCE -I\"$2/include\" $c \
                  -o \"$3/${c%.c}.test\" -lpthread -lrt -lm 2>/dev/null; done; \
                  [ -n \"$(ls \"$3\")\" ]";
    let mut command = s.tool("sh");
    command
        .args(["-c", script, "sh"])
        .arg(source)
        .arg(top)
        .arg(&to);
    command.status().expect("a shell").success()
}

fn first_program(s: &Scratch, units: &[String]) -> Option<PathBuf> {
    let dir = s.join(&format!("root/posix/{}", units.first()?));
    let mut entries = std::fs::read_dir(dir).ok()?;
    Some(entries.next()?.ok()?.path())
}

fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("= ") else {
            continue;
        };
        let Some((name, code)) = words.split_once(' ') else {
            continue;
        };
        let last = lines.peek().copied().unwrap_or_default();
        // What its README says of exit codes.
        let why = match code {
            "0" => {
                outcome.passed += 1;
                continue;
            }
            "4" | "5" => {
                outcome.skipped += 1;
                continue;
            }
            "1" => "failed",
            "2" => "unresolved",
            "137" => "did not end in 30 s",
            _ => "ended by itself",
        };
        let why = format!("{why} ({code}): {last}");
        outcome.failed.insert(name.to_owned(), why);
    }
    outcome
}
