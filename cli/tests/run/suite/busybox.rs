//! BusyBox's own tests, of each of its programs and of its shell, on Debian's static one. A
//! unit is a program, or a directory of tests of the shell.

use super::{debian, foreign, image, names, runs, users, Extent, Outcome, Suite};
use crate::common::run::applets;
use crate::common::*;

pub const SUITE: Suite = Suite {
    name: "busybox",
    about: "BusyBox's own tests (Debian's source package `busybox`: `testsuite` and \
            `shell/ash_test`), with Debian's busybox-static",
    make,
    part: PART,
    other_version: || debian::other_version(SUITE.name, "busybox-static", "1.35"),
    kernel: "default",
    read,
};

const PART: &[&str] = &[
    "ash-heredoc",
    "ash-redir",
    "ash-signals",
    "cp",
    "cpio",
    "date",
    "dd",
    "find",
    "grep",
    "hostname",
    "ln",
    "ls",
    "mount",
    "mv",
    "sort",
    "tar",
    "taskset",
    "touch",
    "xargs",
];

/// In a copy, since units on the host have one tree. At its end a unit says how many of its
/// tests failed by its own count, also when it is `runtest` that counts.
const RUN: &str = r#"#!/bin/sh
export bindir=/suite/busybox SHELL=/bin/sh
case $1 in
ash-*)
	mkdir /tmp/shell && cp -r $bindir/shell/ash_test/[!a]* $bindir/shell/ash_test/"$1" /tmp/shell &&
	cd /tmp/shell && cp $bindir/.config . && ln -s $bindir/busybox ash || exit 2
	failed=0
	{ ./run-all "$1" && echo end; } | while read -r line; do
		case $line in
		end) echo "= $failed" ;;
		*' ok') echo "PASS: ${line#*/}" ;;
		*' fail')
			failed=$((failed + 1))
			echo "FAIL: ${line#*/}"
			test=${line%: fail}
			cat "$1-${test##*/}.fail" ;;
		esac
	done ;;
*)
	cp -r $bindir/testsuite /tmp && cd /tmp/testsuite && ln -s $bindir/busybox .. || exit 2
	export LANG=en_US.UTF-8
	./runtest -v "$1" 2>&1 ;;
esac
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let config = "debian/config/pkg/static";
    let source = foreign("busybox", config)?;
    run::root(s, "root");
    applets(s, "root");
    // Links to all of its programs are there before, which takes its `runtest` seconds.
    let script = "set -e; mkdir -p root/suite/busybox/shell; \
                  cp -r \"$1/testsuite\" root/suite/busybox/; \
                  cp -r \"$1/shell/ash_test\" root/suite/busybox/shell/; \
                  cp \"$2\" root/suite/busybox/.config; \
                  cp root/bin/busybox root/suite/busybox/busybox; \
                  links=root/suite/busybox/runtest-tempdir-links; mkdir $links; \
                  for p in $(busybox --list); do ln -s ../busybox $links/$p; done; \
                  sed -i -e 's/^rm -rf \"$LINKSDIR\"/: &/' -e 's/^\tln -s \"$bindir/\t: &/' \
                  -e 's/^exit $status$/echo \"= $total_failed\"; &/' \
                  root/suite/busybox/testsuite/runtest; \
                  cd root/suite/busybox/shell/ash_test; \
                  for p in recho zecho printenv; do cc -w -O1 -static \"$p.c\" -o \"$p\"; done";
    let mut build = s.tool("sh");
    build.args(["-c", script, "sh"]).arg(&source);
    succeed(build.arg(source.join(config)));
    let mut units = Vec::new();
    for dir in ["testsuite", "shell/ash_test"] {
        let dir = source.join(dir);
        for name in names(&dir) {
            let is_dir = dir.join(&name).is_dir();
            match name.strip_suffix(".tests") {
                Some(applet) => units.push(applet.to_owned()),
                None if is_dir => units.push(name),
                None => {}
            }
        }
    }
    units.sort();
    units.dedup();
    // Of its source, what is no test, and what never runs (it compares names of options).
    units.retain(|unit| !["all_sourcecode", "ash"].contains(&unit.as_str()) && !unit.contains('.'));
    units.retain(|unit| extent == Extent::All || PART.contains(&unit.as_str()));
    runs(s, RUN);
    users(s);
    s.write("root/etc/hosts", b"127.0.0.1 localhost\n");
    image(s);
    Ok(units)
}

fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut failed: Option<&mut String> = None;
    let (mut told, mut counted) = (0, None);
    for line in said.lines() {
        if let Some(count) = line.strip_prefix("= ") {
            counted = count.parse::<usize>().ok();
        }
        let Some((verdict, name)) = line.split_once(": ") else {
            // What it said in the place of what it was to say.
            if let Some(why) = failed.as_mut().filter(|why| why.len() < 200) {
                if line.starts_with(['-', '+']) && !line.starts_with("---") {
                    why.push_str(line);
                    why.push_str(" | ");
                }
            }
            continue;
        };
        match verdict {
            "PASS" => outcome.passed += 1,
            "SKIPPED" | "UNTESTED" => outcome.skipped += 1,
            "FAIL" => {
                told += 1;
                let name = name.trim_end_matches(": fail").replace(' ', "_");
                failed = Some(outcome.failed.entry(name).or_default());
                continue;
            }
            _ => continue,
        }
        failed = None;
    }
    // A script that ends before its last test has another exit code than its count.
    if counted != Some(told) {
        let own = counted.map_or("nothing".to_owned(), |count| count.to_string());
        let why = format!("it ended early: {told} of its tests failed, and it counts {own}");
        outcome.failed.insert(String::new(), why);
    }
    outcome
}
