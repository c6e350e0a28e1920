//! GNU bash's own tests: scripts whose output is to be what the project has written down.
//! A unit is one of its `run-` scripts. They run on Debian's bash, as a user, on a terminal.

use super::{debian, foreign, image, names, runs, Extent, Outcome, Suite};
use crate::common::*;

pub const SUITE: Suite = Suite {
    name: "bash",
    about: "bash's own tests (Debian's source package `bash`), with Debian's bash",
    make,
    part: PART,
    other_version: || debian::other_version(SUITE.name, "bash", "5.2"),
    kernel: "default",
    read,
};

/// Those in which nothing waits for seconds.
const PART: &[&str] = &[
    "alias",
    "array",
    "builtins",
    "comsub",
    "cond",
    "dbg-support",
    "errors",
    "exp-tests",
    "exportfunc",
    "extglob",
    "getopts",
    "glob-test",
    "globstar",
    "heredoc",
    "herestr",
    "history",
    "invert",
    "iquote",
    "lastpipe",
    "mapfile",
    "redir",
    "set-e",
    "test",
    "varenv",
    "vredir",
];

/// Those that tests ask for, as localedef(1) makes them: source, map and name.
const LOCALES: &[[&str; 3]] = &[
    ["en_US", "UTF-8", "en_US.UTF-8"],
    ["de_DE", "UTF-8", "de_DE.UTF-8"],
    ["fr_FR", "ISO-8859-1", "fr_FR.ISO8859-1"],
    ["ja_JP", "SHIFT_JIS", "ja_JP.SJIS"],
    ["zh_HK", "BIG5-HKSCS", "zh_HK.BIG5-HKSCS"],
    ["zh_TW", "BIG5", "zh_TW.BIG5"],
];

/// In a copy, since units on the host have one tree.
const RUN: &str = r#"#!/bin/sh
if [ $(id -u) = 0 ] && setpriv --reuid 1000 true 2>/dev/null; then
	exec setpriv --reuid 1000 --regid 1000 --clear-groups "$0" "$@"
fi
cp -r /suite/bash /tmp/suite && cd /tmp/suite/tests && mkfifo /tmp/typed || exit 2
export PATH=/tmp/suite/tests:/usr/bin:/bin THIS_SH=/bin/bash BUILD_DIR=/tmp/suite
export TMPDIR=/tmp BASH_TSTOUT=/tmp/out HOME=/home/ann TERM=xterm
# A terminal at which nobody types; its end would be an answer.
script -qec "timeout --foreground -s KILL 850 sh ./run-$1" /dev/null <>/tmp/typed
echo "= $?"
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let source = foreign("bash", "tests/run-all")?;
    debian::root(s, &["bash", "locales"])?;
    // Run by `sh`, as bash's Makefile has it, where sh is dash.
    let script = "set -e; mkdir -p root/suite/bash root/usr/lib/locale; \
                  cp -r \"$1/tests\" \"$1/y.tab.c\" root/suite/bash/; cd \"$1\"; \
                  for h in config.h version.h; do cp config.h.in \"$2/root/suite/bash/$h\"; done; \
                  for p in recho zecho printenv xcase; do \
                  cc -w -O1 -include stdlib.h -include unistd.h -I. -Iinclude \
                  -DHAVE_STRING_H -DHAVE_UNISTD_H=1 \"support/$p.c\" \
                  -o \"$2/root/suite/bash/tests/$p\"; done";
    let mut build = s.tool("sh");
    build.args(["-c", script, "sh"]).arg(&source).arg(s.path());
    succeed(&mut build);
    for [source, map, name] in LOCALES {
        let mut make = s.tool("localedef");
        // Some maps are not quite ASCII, which is a warning, and 1.
        make.args(["--no-archive", "-c", "--prefix", "root", "-i", source]);
        let made = make.args(["-f", map, name]).output();
        let made = made.map_err(|e| format!("localedef: {e} (Debian: libc-bin)"))?;
        if !matches!(made.status.code(), Some(0 | 1)) {
            return Err(format!(
                "localedef makes no {name} of {source} and {map} (Debian: locales): {}",
                text(&made.stderr)
            ));
        }
    }
    let units = names(&source.join("tests"))
        .iter()
        .filter_map(|name| name.strip_prefix("run-").map(str::to_owned))
        // The whole, and a part of it.
        .filter(|unit| unit != "all" && unit != "minimal")
        .filter(|unit| extent == Extent::All || PART.contains(&unit.as_str()))
        .collect();
    runs(s, RUN);
    image(s);
    Ok(units)
}

/// A unit passes if there is no difference to what is written down.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    match said.lines().last().and_then(|line| line.strip_prefix("= ")) {
        Some("0") => outcome.passed = 1,
        Some(code) => {
            let differs = |line: &&str| {
                let other = line.starts_with("---") || line.starts_with("+++");
                !other && (line.starts_with(['-', '+', '<', '>']))
            };
            let lines: Vec<_> = said.lines().filter(differs).take(12).collect();
            let why = format!("ended with {code}: {}", lines.join(" | "));
            outcome.failed.insert(String::new(), why);
        }
        None => {}
    }
    outcome
}
