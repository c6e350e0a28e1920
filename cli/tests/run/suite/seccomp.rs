//! Linux's own tests of seccomp(2), one program, of the source that images are built from.

use super::{image, Extent, Outcome, Suite};
use crate::common::*;
use std::path::{Path, PathBuf};

pub const SUITE: Suite = Suite {
    name: "seccomp",
    about: "Linux's own tests of filters of system calls \
            (`tools/testing/selftests/seccomp/seccomp_bpf.c`), on the image `container`",
    make,
    kernel: "container",
    read,
};

const UNIT: &str = "seccomp_bpf";

/// The tree that xtask has unpacked.
fn source() -> Option<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build");
    let entries = std::fs::read_dir(build).ok()?;
    let mut trees = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"linux-"))
        .map(|entry| entry.path().join("tools/testing/selftests"));
    trees.find(|tests| tests.join("seccomp/seccomp_bpf.c").is_file())
}

fn make(s: &Scratch, _: Extent) -> Result<Vec<String>, String> {
    let source = source().ok_or("xtask has unpacked no Linux source into build/")?;
    if !Path::new("/usr/include/sys/capability.h").is_file() {
        return Err("there is no sys/capability.h (Debian: libcap-dev)".into());
    }
    run::root(s, "root");
    let program = s.join("root/suite/seccomp_bpf");
    std::fs::create_dir_all(s.join("root/suite")).expect("a directory");
    let mut cc = s.tool("cc");
    cc.args(["-O1", "-w", "-static", "-o"]).arg(&program);
    cc.arg("-I").arg(&source);
    cc.arg(source.join("seccomp/seccomp_bpf.c"));
    succeed(cc.args(["-lpthread", "-lcap"]));
    s.write(
        "root/suite/run",
        b"#!/bin/sh\nexec /suite/seccomp_bpf 2>&1\n",
    );
    s.make_executable("root/suite/run");
    image(s);
    Ok(vec![UNIT.to_owned()])
}

/// The Test Anything Protocol, and before each verdict what led to it.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut why = String::new();
    for line in said.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["ok", _, _, "#", "SKIP", ..] => outcome.skipped += 1,
            ["ok", _, _, ..] => outcome.passed += 1,
            ["not", "ok", _, name, ..] => {
                outcome.failed.insert(name.to_owned(), why.clone());
            }
            ["#", "", "RUN", ..] => why.clear(),
            // File and line, then what is not so.
            ["#", place, ..] if place.contains(".c:") => {
                why = line.rsplit('/').next().unwrap_or(line).to_owned();
            }
            _ => {}
        }
    }
    outcome
}
