//! Random programs do the same by `tane run` as on the host: `random/random.c` chooses what
//! it does from a seed, and tells what came of it.

use crate::common::run::{can_run, root};
use crate::common::*;
use std::process::Command;

/// Seeds of every run of the tests. TANE_RANDOM=FIRST-LAST has others.
const SEEDS: (u64, u64) = (1, 150);
/// By one start of the program.
const AT_ONCE: u64 = 50;

fn seeds() -> (u64, u64) {
    let Ok(range) = std::env::var("TANE_RANDOM") else {
        return SEEDS;
    };
    let ends = range.split_once('-').map(|(a, b)| (a.parse(), b.parse()));
    match ends {
        Some((Ok(first), Ok(last))) => (first, last),
        _ => panic!("TANE_RANDOM={range}: FIRST-LAST, such as 1-1000"),
    }
}

fn compile(s: &Scratch) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/random");
    let files = ["random", "files", "memory", "signals", "processes"];
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-static", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    cc.args(files.map(|file| format!("{source}/{file}.c")));
    succeed(cc.arg("-o").arg(s.join("root/random")));
}

/// What it says, and what else came.
fn said(command: &mut Command) -> (Vec<String>, String) {
    let done = command.output().expect("a program");
    let lines = text(&done.stdout).lines().map(str::to_owned).collect();
    (lines, format!("{}: {}", done.status, text(&done.stderr)))
}

#[test]
fn random_programs_do_the_same_as_on_the_host() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    root(&s, "root");
    for dir in ["root/work", "work"] {
        std::fs::create_dir_all(s.join(dir)).expect("a directory");
    }
    std::os::unix::fs::symlink("busybox", s.join("root/bin/rm")).expect("a link");
    compile(&s);
    s.ext4("disk.img", Some(&s.join("root")), 64);
    let (mut first, last) = seeds();
    while first <= last {
        let until = last.min(first + AT_ONCE - 1);
        let range = [first.to_string(), until.to_string()];
        let mut host = Command::new(s.join("root/random"));
        let (wanted, _) = said(host.args(&range).current_dir(s.join("work")));
        let mut here = s.tane();
        here.args([
            "run", "--root", "disk.img", "-w", "/work", "--memory", "512M",
        ]);
        here.args(["--time-limit", "600", "--", "/random"]);
        let (got, end) = said(here.args(&range));
        differ(&wanted, &got, &end);
        first = until + 1;
    }
}

#[track_caller]
fn differ(wanted: &[String], got: &[String], end: &str) {
    let longest = wanted.len().max(got.len());
    let Some(at) = (0..longest).find(|&at| wanted.get(at) != got.get(at)) else {
        return;
    };
    let before = &wanted[..at.min(wanted.len())];
    let seed = before.iter().rev().find(|line| line.starts_with("seed "));
    let seed = seed.map_or("the beginning", |line| line);
    let some = |lines: &[String]| {
        let from = at.saturating_sub(6).min(lines.len());
        lines[from..lines.len().min(at + 3)].join("\n")
    };
    panic!(
        "{seed}: on the host\n{}\nand here\n{}\n({end})",
        some(wanted),
        some(got)
    );
}
