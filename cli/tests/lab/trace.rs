//! Promises of tane trace and tane probe: what is recorded, how it is written, and that
//! the verb does what it does without them.

use crate::common::*;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const TEXT: &str = "twelve bytes";

/// An ext4 image with a file, and the kernel image that is recorded.
fn image() -> Option<(Scratch, PathBuf)> {
    let lab = tane_test_support::image("lab")?;
    let s = Scratch::new();
    s.write("tree/file", TEXT.as_bytes());
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    Some((s, lab))
}

/// `tane VERB --kernel LAB arguments`
fn tane(s: &Scratch, lab: &PathBuf, verb: &str, arguments: &[&str]) -> Command {
    let mut command = s.tane();
    command.arg(verb).arg("--kernel").arg(lab).args(arguments);
    command
}

const CAT: [&str; 3] = ["--", "cat", "disk.img:/file"];

/// What was recorded while cat wrote its file, and only that, to standard output.
#[track_caller]
fn of_cat(s: &Scratch, lab: &PathBuf, verb: &str, arguments: &[&str]) -> String {
    let arguments = [arguments, &CAT].concat();
    let output = succeed(&mut tane(s, lab, verb, &arguments));
    assert_eq!(output.stdout, TEXT.as_bytes());
    err(&output)
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The objects of this kind in lines of JSON.
fn objects(text: &str, kind: &str) -> Vec<Value> {
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines
        .filter_map(|mut line| Some(line.get_mut(kind)?.take()))
        .collect()
}

#[test]
fn a_tree_has_the_functions_of_a_verb_in_each_other_with_their_times() {
    let Some((s, lab)) = image() else { return };
    let text = of_cat(&s, &lab, "trace", &["--min", "0", "--from", "verb"]);
    let line = |function: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.split_whitespace().nth(3) == Some(function));
        found.unwrap_or_else(|| panic!("no {function}:\n{text}"))
    };
    let indent = |function: &str| line(function).find(function).expect("a column");
    let total = |function: &str| -> f64 {
        let words = line(function).split_whitespace().next();
        words.and_then(|word| word.parse().ok()).expect("a time")
    };
    assert!(indent("vfs_read") < indent("ext4_file_read_iter"), "{text}");
    assert!(total("ext4_file_read_iter") > 0.0);
    assert!(total("vfs_read") >= total("ext4_file_read_iter"), "{text}");
    // The mount was before.
    assert!(!text.contains("ext4_fill_super"), "{text}");
}

#[test]
fn a_recording_begins_with_the_mount_or_the_boot() {
    let Some((s, lab)) = image() else { return };
    let mount = of_cat(&s, &lab, "trace", &["--min", "0"]);
    assert!(mount.contains("ext4_fill_super") && mount.contains("ext4_file_read_iter"));
    assert!(!mount.contains("do_one_initcall"));
    let boot = of_cat(
        &s,
        &lab,
        "trace",
        &["--min", "0", "--from", "boot", "--depth", "4"],
    );
    assert!(boot.contains("do_one_initcall"), "{boot}");
    let only = [
        "--min",
        "0",
        "--function",
        "ext4_fill_super",
        "--depth",
        "1",
    ];
    let only = of_cat(&s, &lab, "trace", &only);
    let lines: Vec<_> = only.lines().collect();
    assert!(
        lines[0].ends_with(": 1 calls") && lines[2].ends_with("ext4_fill_super"),
        "{only}"
    );
    assert_eq!(lines.len(), 3, "{only}");
}

#[test]
fn json_has_a_line_for_each_call_and_event() {
    let Some((s, lab)) = image() else { return };
    let arguments = ["--json", "--events", "ext4:*", "--stack"];
    let text = of_cat(&s, &lab, "trace", &arguments);
    let calls = objects(&text, "call");
    let read = calls
        .iter()
        .find(|call| call["function"] == "ext4_file_read_iter");
    assert!(read.expect("a read")["total"].as_u64().expect("ns") > 0);
    let events = objects(&text, "event");
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| event["name"].as_str())
        .collect();
    assert!(names.contains(&"ext4_es_lookup_extent_enter"), "{names:?}");
    let stack = |event: &Value| event["stack"].as_array().expect("a stack").len();
    assert!(events.iter().all(|event| stack(event) > 0));
    let end = &objects(&text, "trace")[0];
    assert_eq!(end["calls"], calls.len());
    assert_eq!(end["events"], events.len());
    assert_eq!(end["lost_calls"], 0);
}

#[test]
fn trace_viewers_get_events_by_their_times() {
    let Some((s, lab)) = image() else { return };
    let arguments = ["--as", "chrome", "-o", "trace.json", "--events", "ext4:*"];
    assert_eq!(of_cat(&s, &lab, "trace", &arguments), "");
    let value: Value = serde_json::from_slice(&s.read("trace.json")).expect("JSON");
    let events = value["traceEvents"].as_array().expect("events");
    let phases = ["X", "i", "M"];
    assert!(events
        .iter()
        .all(|e| phases.contains(&e["ph"].as_str().unwrap_or(""))));
    let timed: Vec<_> = events.iter().filter_map(|e| e["ts"].as_f64()).collect();
    assert!(timed.is_sorted() && timed.len() > 100);
    // Of one thread, calls are in each other or beside each other.
    let calls = events.iter().filter(|e| e["ph"] == "X");
    let mut open: Vec<(u64, f64)> = Vec::new();
    for call in calls {
        let number = |name: &str| call[name].as_f64().expect(name);
        let (thread, from) = (call["tid"].as_u64().expect("a thread"), number("ts"));
        let to = from + number("dur");
        open.retain(|(other, end)| *other != thread || *end > from);
        let within = open.iter().filter(|(other, _)| *other == thread);
        // Nanoseconds, as floating point.
        assert!(within.clone().all(|(_, end)| to <= *end + 0.001), "{call}");
        open.push((thread, to));
    }
}

#[test]
fn a_flame_graph_is_a_picture_with_titles() {
    let Some((s, lab)) = image() else { return };
    let arguments = ["--as", "flame", "--min", "0", "-o", "flame.svg"];
    assert_eq!(of_cat(&s, &lab, "trace", &arguments), "");
    let script = "import sys, xml.etree.ElementTree as t\n\
                  for e in t.parse(sys.argv[1]).iter(): print(e.tag.split('}')[1], e.text)";
    let mut python = Command::new("python3");
    let output = succeed(python.args(["-c", script]).arg(s.join("flame.svg")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("svg"), "{text}");
    let titles: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("title "))
        .collect();
    assert!(
        titles
            .iter()
            .any(|line| line.starts_with("title ext4_file_read_iter: ")),
        "{text}"
    );
    let boxes = text
        .lines()
        .filter(|line| line.starts_with("rect "))
        .count();
    assert_eq!(boxes, titles.len() + 1, "a box for each, and the ground");
}

#[test]
fn what_is_lost_is_told() {
    let Some((s, lab)) = image() else { return };
    let text = of_cat(&s, &lab, "trace", &["--buffer", "64K"]);
    assert!(
        text.starts_with("tane: warning: ") && text.contains(" events of calls lost"),
        "{text}"
    );
    // Records of some 400 bytes.
    let fields: String = (0..40).map(|n| format!(" a{n}=%di")).collect();
    let spec = format!("kmem_cache_free{fields}");
    let text = of_cat(&s, &lab, "probe", &[&spec, "--buffer", "8K", "--json"]);
    let warning = &objects(&text, "warning")[0]["message"];
    assert!(
        warning.as_str().expect("text").contains("events lost"),
        "{text}"
    );
    let end = &objects(&text, "probe")[0];
    let shown = objects(&text, "event").len() as u64;
    assert!(end["hits"].as_u64() > Some(shown), "{end}");
}

#[test]
fn a_probe_counts_and_keeps_what_is_asked_for() {
    let Some((s, lab)) = image() else { return };
    let read = |arguments: &[&str]| {
        let arguments = [&["ext4_file_read_iter", "--from", "verb"], arguments].concat();
        of_cat(&s, &lab, "probe", &arguments)
    };
    // A read of what there is, and one of the end.
    assert_eq!(read(&["--count"]), "2 hits\n");
    let values = read(&["--return", "--histogram", "retval"]);
    let rows: Vec<Vec<_>> = values
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..2], ["0", "1"], "{values}");
    assert_eq!(rows[1][..2], ["12", "1"], "{values}");
    assert_eq!(rows[2], ["2", "hits"]);
    let times = objects(&read(&["--histogram", "time", "--json"]), "bucket");
    let count: u64 = times.iter().filter_map(|b| b["count"].as_u64()).sum();
    assert_eq!(count, 2, "{times:?}");
    let one = read(&["--limit", "1"]);
    assert!(
        one.contains("ext4_file_read_iter: ") && one.contains("and 1 more (--limit)"),
        "{one}"
    );
    let from = read(&["--count", "--stack"]);
    assert!(
        from.contains("    vfs_read\n") && from.ends_with("2 hits\n"),
        "{from}"
    );
}

#[test]
fn an_instruction_inside_a_function_is_reached_by_a_breakpoint_in_the_jail() {
    let Some((s, lab)) = image() else { return };
    let place = |offset: u32| format!("ext4_file_read_iter+{offset}");
    let hit = (5..12).any(|offset| {
        let place = place(offset);
        let arguments = [&[&*place, "--count", "--from", "verb"], &CAT[..]].concat();
        let output = tane(&s, &lab, "probe", &arguments).output().expect("tane");
        output.status.success() && err(&output) == "2 hits\n"
    });
    assert!(hit);
}

/// Exit code and what was said; nothing went to standard output.
#[track_caller]
fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("tane");
    assert_eq!(output.stdout, b"", "{}", err(&output));
    (output.status.code(), err(&output))
}

#[test]
fn what_cannot_be_recorded_is_named() {
    let Some((s, lab)) = image() else { return };
    for (verb, arguments, said) in [
        (
            "trace",
            &["--function", "vfs_raed"][..],
            "there is vfs_read",
        ),
        (
            "trace",
            &["--events", "ext4_writepagse"],
            "there is ext4_writepages",
        ),
        ("trace", &["--events", "ext5:*"], "ext4:*"),
        ("probe", &["vfs_raed"], "there is vfs_read"),
        ("probe", &["vfs_read+1"], "not an instruction boundary"),
        ("probe", &["vfs_read+99999"], "not in this function"),
        ("probe", &["tane_invalid"], "no probe may be there"),
        ("probe", &["vfs_read a=%nothing"], "Invalid register name"),
        ("probe", &["vfs_read+5", "--return"], "functions return"),
        (
            "probe",
            &["vfs_read+5", "--histogram", "time"],
            "is of a function",
        ),
        ("probe", &[" "], "no function is named"),
    ] {
        let arguments = [arguments, &CAT].concat();
        let (code, text) = refused(&mut tane(&s, &lab, verb, &arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn verbs_and_images_that_cannot_be_recorded_are_named() {
    let Some((s, lab)) = image() else { return };
    let (code, text) = refused(s.tane().args(["trace", "--", "run", "--", "/bin/true"]));
    assert_eq!(code, Some(3));
    assert!(text.contains("the kernel image run"), "{text}");
    for words in [
        &["kaslr"][..],
        &["mount", "disk.img", "dir"],
        &["trace", "--", "ls"],
    ] {
        let (code, text) = refused(s.tane().args(["trace", "--"]).args(words));
        assert_eq!(code, Some(2), "{text}");
    }
    let Some(tiny) = tane_test_support::image("tiny") else {
        return;
    };
    let (code, text) = refused(&mut tane(&s, &tiny, "trace", &CAT));
    assert_eq!(code, Some(3));
    assert!(
        text.contains("no tracers") && text.contains("--base lab"),
        "{text}"
    );
    // Where none lies beside the others.
    let beside = s.write("images/tane.elf", &std::fs::read(&tiny).expect("an image"));
    let mut command = s.tane();
    let (code, text) = refused(command.env("TANE_IMAGE", beside).arg("trace").args(CAT));
    assert_eq!(code, Some(3));
    assert!(
        text.contains("no kernel image lab") && text.contains("--base lab"),
        "{text}"
    );
    // A verb without a Linux of its own is not recorded, and says so.
    s.write("raw.img", &[0; 1 << 20]);
    let (code, text) = refused(&mut tane(&s, &lab, "trace", &["--", "ls", "raw.img:/"]));
    assert_eq!(code, Some(3), "{text}");
}

#[test]
fn the_verb_has_its_exit_code_and_its_jail() {
    let Some((s, lab)) = image() else { return };
    let missing = ["--depth", "1", "--", "cat", "disk.img:/missing"];
    let (code, text) = refused(&mut tane(&s, &lab, "trace", &missing));
    assert_eq!(code, Some(1));
    assert!(
        text.contains("disk.img:/missing: no such file") && text.contains(" calls\n"),
        "{text}"
    );
    // Options of all verbs go to the verb, wherever they are.
    for arguments in [
        &["--no-jail", "--depth", "1", "--", "stat", "disk.img:/file"][..],
        &["--depth", "1", "--", "stat", "--no-jail", "disk.img:/file"],
        &["--depth", "1", "--", "--no-jail", "stat", "disk.img:/file"],
    ] {
        let output = succeed(&mut tane(&s, &lab, "trace", arguments));
        assert!(err(&output).contains(" calls\n"), "{}", err(&output));
    }
}

#[test]
fn verbs_that_write_copy_and_have_several_kernels_do_what_they_always_do() {
    let Some((s, lab)) = image() else { return };
    let trace = |words: &str| {
        let words: Vec<_> = ["--depth", "1", "--"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let output = succeed(&mut tane(&s, &lab, "trace", &words));
        assert!(
            err(&output).contains(" calls\n"),
            "{words:?}: {}",
            err(&output)
        );
        output.stdout
    };
    trace("cp disk.img:/file out");
    assert_eq!(s.read("out"), TEXT.as_bytes());
    s.write("other", b"other text");
    trace("cp other disk.img:/new");
    trace("mkdir disk.img:/dir");
    assert_eq!(trace("cat disk.img:/new"), b"other text");
    let copy = s.read("disk.img");
    s.write("copy.img", &copy);
    // Two kernels, of which the first is recorded.
    trace("diff disk.img copy.img");
    assert_eq!(trace("sh disk.img -c pwd").last(), Some(&b'\n'));
    succeed(s.tool("e2fsck").args(["-fn", "disk.img"]));
}

/// The program of BPF that the crate of tracers has its tests by.
fn counts(s: &Scratch) -> String {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../lab/tests/programs/counts.bpf.c"
    );
    tane_test_support::compile_bpf(source.as_ref(), &s.join("counts.o"));
    "counts.o".into()
}

#[test]
fn programs_of_bpf_tell_what_they_found_out_about_a_verb() {
    let Some((s, lab)) = image() else { return };
    let object = counts(&s);
    s.write("new", &[b'x'; 3000]);
    let verb = ["--bpf", &object, "--", "cp", "new", "disk.img:/new"];
    let text = err(&succeed(&mut tane(&s, &lab, "trace", &verb)));
    assert!(
        text.contains("by_size (hash): 1 entries\n  3000  1\n"),
        "{text}"
    );
    assert!(text.contains("first_bytes = \"xxxxxxxxxxxxxxx\""), "{text}");
    assert!(text.contains("bpf_trace_printk: wrote 3000"), "{text}");
    assert!(
        text.contains("per_cpu (percpu_array): 1 entries, and 3 of zero"),
        "{text}"
    );
    // Calls are recorded only if some are asked for.
    assert!(!text.contains(" calls\n"), "{text}");
    let verb = [
        "--bpf",
        &object,
        "--function",
        "vfs_write",
        "--json",
        "--",
        "cp",
        "new",
    ];
    let verb = [&verb[..], &["disk.img:/newer"]].concat();
    let text = err(&succeed(&mut tane(&s, &lab, "trace", &verb)));
    let maps = objects(&text, "map");
    let by_size = maps
        .iter()
        .find(|map| map["name"] == "by_size")
        .expect("it");
    assert_eq!(by_size["entries"][0]["key"], "b80b000000000000");
    assert_eq!(by_size["entries"][0]["values"][0], "0100000000000000");
    let names = objects(&text, "variable");
    assert!(names.iter().any(|variable| variable["name"] == "returned"));
    assert!(!objects(&text, "call").is_empty(), "{text}");
}

#[test]
fn programs_of_bpf_that_cannot_run_are_refused_before_the_verb() {
    let Some((s, lab)) = image() else { return };
    let object = counts(&s);
    let before = s.read("disk.img");
    for (arguments, said) in [
        (["--bpf", "none.o"], "none.o: "),
        (["--bpf", "disk.img"], "disk.img: no object"),
    ] {
        let arguments = [&arguments[..], &["--", "touch", "disk.img:/new"]].concat();
        let (code, text) = refused(&mut tane(&s, &lab, "trace", &arguments));
        assert!(code.is_some() && text.contains(said), "{text}");
    }
    let arguments = [
        "--bpf",
        &object,
        "--as",
        "flame",
        "--",
        "touch",
        "disk.img:/new",
    ];
    let (code, text) = refused(&mut tane(&s, &lab, "trace", &arguments));
    assert!(code == Some(2) && text.contains("--function"), "{text}");
    assert_eq!(s.read("disk.img"), before);
}

#[test]
fn names_of_an_image_in_a_record_steer_no_terminal_and_need_not_be_text() {
    let Some((s, lab)) = image() else { return };
    let name = OsStr::from_bytes(b"red\x1b[31m\xff");
    std::fs::write(s.join("tree").join(name), TEXT).expect("a file");
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    let spec = "do_filp_open name=+0(+0($arg2)):string";
    for way in [&[][..], &["--histogram", "name"]] {
        let mut probe = tane(
            &s,
            &lab,
            "probe",
            &[&[spec][..], way, &["--", "cat"]].concat(),
        );
        let mut path = OsString::from("disk.img:/");
        path.push(name);
        let text = err(&succeed(probe.arg(path)));
        assert!(text.contains("red\\033[31m"), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
}

#[test]
fn a_record_does_not_replace_an_image() {
    let Some((s, lab)) = image() else { return };
    let before = s.read("disk.img");
    let arguments = [&["-o", "disk.img"], &CAT[..]].concat();
    let (code, text) = refused(&mut tane(&s, &lab, "trace", &arguments));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("holds "), "{text}");
    assert_eq!(s.read("disk.img"), before);
}
