//! Promises of `tane fuzz`. The planted defect is the superblock's: with errors=panic ext4
//! ends the kernel for any damage that it sees.

use crate::common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tane_test_support::eventually;

const PANIC: &str = "panic forced after error";

/// The lines of an output, as JSON.
fn lines_of(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

fn fuzz(s: &Scratch, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.args(["fuzz", "fs"]).args(words).arg("--json");
    heeds_ctrl_c(&mut command);
    command
}

fn base(s: &Scratch) -> PathBuf {
    let tree = s.join("tree");
    s.write("tree/file", &[b'x'; 100_000]);
    for n in 0..20 {
        s.write(&format!("tree/dir/{n}"), b"content");
    }
    s.ext4("base.img", Some(&tree), 16)
}

fn differing(a: &[u8], b: &[u8]) -> usize {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

#[test]
fn a_planted_defect_is_found_made_small_and_happens_again() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = base(&s);
    let before = s.read("base.img");
    let words = ["ext4", "base.img", "--runs=150", "--corpus=hunt"];
    let mut command = fuzz(&s, &words);
    let output = exit(command.arg("--options=errors=panic"), 1);
    let lines = lines_of(&output);
    let found: Vec<_> = lines
        .iter()
        .filter(|line| line["found"].is_string())
        .collect();
    let panic = found
        .iter()
        .find(|line| line["found"].as_str().is_some_and(|f| f.contains(PANIC)))
        .unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(panic["alone"], true);
    let end = lines.last().expect("an end");
    assert_eq!(
        (&end["tried"], &end["found_in_all"]),
        (&150.into(), &found.len().into())
    );
    assert!(
        end["a_second"].as_f64() > Some(0.0) && end["a_second_with_a_restart"].as_f64() > Some(0.0)
    );

    // One bit or byte of metadata is enough for an error, and one call that sees it.
    let file = s.join(panic["file"].as_str().expect("a file"));
    let damaged = std::fs::read(file.with_extension("img")).expect("the image");
    let bytes = differing(&before, &damaged);
    assert_eq!(panic["bytes"], bytes);
    assert!((1..=8).contains(&bytes), "{bytes}");
    assert!(panic["calls"].as_u64() <= Some(2), "{panic}");
    assert_eq!(std::fs::read(image).expect("the image"), before);

    let mut command = s.tane();
    command.args(["fuzz", "fs", "--json", "--replay"]);
    let again = exit(command.arg(&file), 1);
    let told = &lines_of(&again)[0];
    assert_eq!(told["found"], panic["found"]);
    assert_eq!(told["expected"], panic["found"]);
    assert!(told["words"].as_str().expect("words").contains(PANIC));
    // Without what was planted nothing is wrong.
    let mut command = s.tane();
    command.args(["fuzz", "fs", "--options=errors=continue", "--replay"]);
    let output = succeed(command.arg(&file));
    assert_eq!(text(&output.stdout), "nothing is wrong with it\n");
}

#[test]
fn a_seed_has_one_hunt_and_the_next_one_begins_with_what_was_kept() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    base(&s);
    // What guides: errors of calls, which depend on nothing else. Whether somebody waits for a
    // disk that has answered already is a way of its own.
    let kernel = tane_test_support::image("default").expect("a kernel");
    let hunt = |seed: &str, dir: &str| {
        let words = ["ext4", "base.img", "--runs=80", "--no-compare", seed, dir];
        let mut command = fuzz(&s, &words);
        let output = succeed(command.arg("--kernel").arg(&kernel));
        lines_of(&output).pop().expect("an end")
    };
    let first = hunt("--seed=3", "--corpus=a");
    let same = hunt("--seed=3", "--corpus=b");
    let of = |end: &Value| ["sum", "tried", "kept", "ways"].map(|name| end[name].clone());
    assert_eq!(of(&first), of(&same));
    assert_ne!(first["sum"], hunt("--seed=4", "--corpus=c")["sum"]);
    let kept = std::fs::read_dir(s.join("a/inputs"))
        .expect("inputs")
        .count();
    assert!(kept > 1 && first["kept"] == kept + 1, "{first}");
    let next = hunt("--seed=3", "--corpus=a");
    assert_eq!(
        (&next["began_with"], &first["began_with"]),
        (&kept.into(), &0.into())
    );
}

/// The process with Linux of a command that is in the middle of a hunt in this directory.
fn victim(command: &Child, inputs: &Path) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let has_linux = |pid: &&str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains("Seccomp_filters:\t2\n"))
    };
    let find = || {
        let pids = std::fs::read_to_string(&children).unwrap_or_default();
        let pid = pids.split_whitespace().find(has_linux);
        pid.and_then(|pid| pid.parse::<i32>().ok())
    };
    let kept = || std::fs::read_dir(inputs).map_or(0, Iterator::count);
    let mut found = None;
    eventually("the process with Linux runs", || {
        found = find();
        found.is_some()
    });
    // It has met something.
    let before = kept();
    eventually("something is kept", || kept() > before);
    assert_eq!(find(), found);
    found.expect("just found")
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: no memory involved; a process that a child of ours waits for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn what_hangs_or_ends_its_process_is_found_and_ctrl_c_keeps_that() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    base(&s);
    let words = [
        "ext4",
        "base.img",
        "--time=10m",
        "--no-compare",
        "--corpus=hunt",
        "--hang=3s",
    ];
    let mut command = fuzz(&s, &words);
    let said = std::fs::File::create(s.join("said")).expect("a file");
    command.stdout(Stdio::piped()).stderr(said);
    let mut child = command.spawn().expect("tane");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("reads");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    signal(victim(&child, &s.join("hunt/inputs")), libc::SIGKILL);
    let ended = next();
    assert_eq!(ended["found"], "the process was ended by signal 9");
    signal(victim(&child, &s.join("hunt/inputs")), libc::SIGSTOP);
    let hangs = next();
    assert!(
        hangs["found"]
            .as_str()
            .expect("what")
            .starts_with("hangs in "),
        "{hangs}"
    );
    // Neither was the image's fault.
    assert_eq!(
        (&ended["alone"], &hangs["alone"]),
        (&false.into(), &false.into())
    );
    signal(child.id() as i32, libc::SIGINT);
    let end = next();
    assert_eq!(end["found_in_all"], 2, "{end}");
    assert_eq!(child.wait().expect("its status").code(), Some(130));
    let said = String::from_utf8(s.read("said")).expect("text");
    assert!(said.contains("stopping (twice more"), "{said}");
    for found in [ended, hangs] {
        let file = s.join(found["file"].as_str().expect("a file"));
        assert!(
            file.is_file() && file.with_extension("img").is_file(),
            "{found}"
        );
    }
}

#[test]
fn what_cannot_be_fuzzed_is_refused_with_the_remedy() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    base(&s);
    let refused = |words: &[&str], code: i32, says: &str| {
        let output = exit(s.tane().args(["fuzz", "fs"]).args(words), code);
        assert!(text(&output.stderr).contains(says), "{output:?}");
    };
    refused(&[], 2, "<TYPE>");
    refused(&["ext4", "none.img"], 3, "none.img: no such file");
    refused(
        &["xfs", "base.img", "--runs=1"],
        3,
        "must be a sound file system of this type",
    );
    refused(&["nonsense"], 3, "no nonsense to begin with could be made");
    refused(&["ext4", "--kernel=host"], 2, "host's own Linux");
    s.write(
        "bad.calls",
        b"tane fuzz 1\ntype ext4\nimage x.img\ncall fly away\n",
    );
    refused(
        &["--replay", "bad.calls"],
        3,
        "line 4 makes no sense: call fly away",
    );
    s.write("bad.calls", b"something else\n");
    refused(&["--replay", "bad.calls"], 3, "does not begin with");
}

/// In the kernel image that the compiler has counting calls for.
#[test]
fn new_ways_through_the_code_are_kept() {
    let (Some(counts), Some(default)) = (
        tane_test_support::image("fuzz"),
        tane_test_support::image("default"),
    ) else {
        return;
    };
    let s = Scratch::new();
    base(&s);
    let hunt = |kernel: &Path, dir: &str| {
        let words = ["ext4", "base.img", "--runs=150", dir, "--kernel"];
        let mut command = s.tane();
        command.args(["fuzz", "fs", "--json"]).args(words);
        let output = succeed(command.arg(kernel));
        lines_of(&output).pop().expect("an end")
    };
    let with = hunt(&counts, "--corpus=a");
    let without = hunt(&default, "--corpus=b");
    assert!(with["ways"].as_u64() > Some(1000), "{with}");
    assert_eq!(without["ways"], Value::Null);
    // Errors are new now and then, ways much more often.
    assert!(
        with["kept"].as_u64() > without["kept"].as_u64(),
        "{with} {without}"
    );
}
