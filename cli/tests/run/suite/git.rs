//! git's own tests, on Debian's git. A unit is one of its scripts, which runs git and shells
//! hundreds of times.

use super::{debian, foreign, image, runs, units, Extent, Outcome, Suite};
use crate::common::*;

pub const SUITE: Suite = Suite {
    name: "git",
    about: "git's own tests (Debian's source package `git`: some forty scripts of `t`), \
            with Debian's git",
    make,
    part: PART,
    other_version: || debian::other_version(SUITE.name, "git", "2.39"),
    kernel: "default",
    read,
};

const PART: &[&str] = &[
    "t0005-signals",
    "t0010-racy-git",
    "t0061-run-command",
    "t1304-default-acl",
    "t2007-checkout-symlink",
];

/// Beginnings of the names of those that all have: of git's bases, files, references and index.
const ALL: &[&str] = &[
    "t0000", "t0001", "t0002", "t0003", "t0004", "t0005", "t0006", "t0007", "t0010", "t002",
    "t0060", "t0061", "t0066", "t0090", "t1002", "t1006", "t1007", "t1300", "t1301", "t1304",
    "t1401", "t1404", "t1410", "t1450", "t1501", "t2007", "t2022", "t2107", "t2201", "t3000",
    "t3010", "t3070", "t3210", "t3300", "t3600", "t3700", "t3903",
];

const RUN: &str = r#"#!/bin/sh
if [ $(id -u) = 0 ] && setpriv --reuid 1000 true 2>/dev/null; then
	exec setpriv --reuid 1000 --regid 1000 --clear-groups "$0" "$@"
fi
cd /suite/git/t || exit 2
export GIT_TEST_INSTALLED=/usr/bin TEST_OUTPUT_DIRECTORY=/tmp HOME=/home/ann PATH=/usr/bin
# Not how they are written.
export GIT_TEST_CHAIN_LINT=0
exec sh "./$1.sh" --root=/tmp </dev/null 2>&1
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let source = foreign("git", "t/helper/test-tool")?;
    debian::root(s, &["git", "perl-base"])?;
    // Of its own build what scripts call and ask.
    let script = "set -e; mkdir -p root/suite/git/t root/suite/git/templates; \
                  cp -r \"$1\"/t/*.sh \"$1\"/t/t[0-3]??? \"$1\"/t/lib-* \"$1\"/t/oid-info \
                  \"$1\"/t/test-binary-* root/suite/git/t/; cp -r \"$1/contrib\" root/suite/git/; \
                  mkdir root/suite/git/t/helper; \
                  cp \"$1/t/helper/test-tool\" root/suite/git/t/helper/; \
                  cp \"$1/GIT-BUILD-OPTIONS\" root/suite/git/; \
                  cp -r \"$1/templates/blt\" root/suite/git/templates/";
    let mut build = s.tool("sh");
    succeed(build.args(["-c", script, "sh"]).arg(&source));
    let units = units(&source.join("t"), ".sh", extent, PART, is_chosen);
    runs(s, RUN);
    image(s);
    Ok(units)
}

fn is_chosen(unit: &str) -> bool {
    ALL.iter().any(|start| unit.starts_with(start))
}

/// The Test Anything Protocol. What is known to be broken (TODO) is no failure.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["ok", _, "#", "skip", ..] | ["1..0", ..] => outcome.skipped += 1,
            ["ok", _, ..] => outcome.passed += 1,
            ["not", "ok", ..] if line.contains("# TODO") => outcome.skipped += 1,
            ["not", "ok", _, "-", ..] => {
                outcome.failed.insert(words[4..].join("_"), String::new());
            }
            _ => {}
        }
    }
    outcome
}
