//! Promises of `tane module`: modules out of the tree, built by Linux's Kbuild and loaded by
//! Linux's own loader, which says what it refuses.

use crate::common::{exit, succeed, text, Scratch};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane_lab::{Error, Lab, Trace};

/// The image lab of this checkout, beside which it was built: where Kbuild finds what it
/// takes.
fn lab() -> Option<PathBuf> {
    let image = tane_test_support::image("lab")?;
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/kernel-lab/vmlinux");
    if !Path::new(built).is_file() {
        tane_test_support::skip(format!("no {built}"));
        return None;
    }
    Some(image)
}

fn tane(s: &Scratch, image: &Path, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.arg("--kernel").arg(image).args(words);
    command
}

/// A verb that reads the file of the example `hello`.
const READ: &[&str] = &[
    "syscall",
    "openat",
    "-100",
    "/proc/hello",
    "0",
    ",",
    "read",
    "_",
    "buf:99",
    "99",
];

/// One that opens the device of the example `echo` and writes to it.
const OPEN: &[&str] = &[
    "syscall",
    "openat",
    "-100",
    "/dev/echo",
    "1",
    ",",
    "write",
    "_",
];

/// One of the examples, built from a copy of its source.
fn built(s: &Scratch, image: &Path, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/examples/modules");
    succeed(
        Command::new("cp")
            .arg("-r")
            .arg(source.join(name))
            .arg(s.join(name)),
    );
    let output = succeed(&mut tane(s, image, &["module", "build", name]));
    let file = format!("{name}/{name}.ko");
    assert!(text(&output.stdout).contains(&file), "{output:?}");
    file
}

#[test]
fn a_module_is_loaded_says_what_it_says_and_is_taken_out() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    let file = built(&s, &image, "hello");
    let output = succeed(&mut tane(&s, &image, &["module", "load", &file, "who=you"]));
    let said = text(&output.stdout);
    let [hello, goodbye] = ["hello, you", "goodbye, you"].map(|w| said.find(w));
    assert!(hello.is_some() && hello < goodbye, "{said}");
    // Damaged in its code: run, it might do anything.
    let mut damaged = s.read(&file);
    let middle = damaged.len() / 3;
    damaged[middle] ^= 1;
    s.write("damaged.ko", &damaged);
    let failed = exit(&mut tane(&s, &image, &["module", "load", "damaged.ko"]), 2);
    assert!(text(&failed.stderr).contains("has changed"), "{failed:?}");
    // Its own error.
    let failed = exit(
        &mut tane(&s, &image, &["module", "load", &file, "fails=19"]),
        2,
    );
    assert!(
        text(&failed.stderr).contains("No such device"),
        "{failed:?}"
    );
}

#[test]
fn another_verbs_linux_has_the_file_that_a_module_makes() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    let file = built(&s, &image, "hello");
    let words = [&["module", "load", &file, "who=all", "--"], READ].concat();
    let output = succeed(&mut tane(&s, &image, &words));
    let said = text(&output.stdout);
    assert!(said.contains("hello, all, for the 1. time"), "{output:?}");
    // It is not there by itself.
    let without = exit(&mut tane(&s, &image, READ), 1);
    assert!(
        text(&without.stdout).contains("openat = -2 "),
        "{without:?}"
    );
}

#[test]
fn another_verbs_linux_has_the_device_that_a_module_registers() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    let file = built(&s, &image, "echo");
    let load = ["module", "load", &file, "--"];
    let read = [
        "twice",
        "5",
        ",",
        "openat",
        "-100",
        "/dev/echo",
        "0",
        ",",
        "read",
        "_",
        "buf:99",
        "99",
    ];
    let words = [&load[..], OPEN, &read].concat();
    let said = succeed(&mut tane(&s, &image, &words));
    let said = text(&said.stdout);
    assert!(
        said.contains("read = 5") && said.contains("twice"),
        "{said}"
    );
    // A pointer to nowhere is an error of the call, not the kernel's end.
    let words = [&load[..], OPEN, &["8", "5"]].concat();
    let said = exit(&mut tane(&s, &image, &words), 1);
    assert!(text(&said.stdout).contains("write = -14"), "{said:?}");
}

#[test]
fn functions_of_a_module_are_traced_and_probed() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    let file = built(&s, &image, "hello");
    let trace = [
        "trace",
        "--module",
        &file,
        "--function",
        "hello_show",
        "--min",
        "0",
        "--",
    ];
    let output = succeed(&mut tane(&s, &image, &[&trace[..], READ].concat()));
    let said = text(&output.stderr);
    assert!(
        said.contains("hello_show") && said.contains("hello_count"),
        "{said}"
    );
    let probe = [
        "probe",
        "hello_count more=$arg1:u64",
        "--module",
        &file,
        "--",
    ];
    let output = succeed(&mut tane(&s, &image, &[&probe[..], READ].concat()));
    assert!(text(&output.stderr).contains("more=1"), "{output:?}");
}

#[test]
fn a_directory_without_kbuild_and_source_with_a_mistake_are_told() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    s.write("none/x.c", b"");
    let output = exit(&mut tane(&s, &image, &["module", "build", "none"]), 1);
    assert!(text(&output.stderr).contains("Kbuild"), "{output:?}");
    s.write("bad/Kbuild", b"obj-m := bad.o\n");
    s.write("bad/bad.c", b"int broken(void) { return nothing; }\n");
    let output = exit(&mut tane(&s, &image, &["module", "build", "bad"]), 1);
    assert!(text(&output.stderr).contains("nothing"), "{output:?}");
}

#[test]
fn an_image_without_modules_says_which_has_them() {
    let Some(image) = lab() else { return };
    let Some(tiny) = tane_test_support::image("tiny") else {
        return;
    };
    let s = Scratch::new();
    let file = built(&s, &image, "hello");
    let output = exit(&mut tane(&s, &tiny, &["module", "load", &file]), 3);
    assert!(text(&output.stderr).contains("--kernel lab"), "{output:?}");
}

/// Where a file has these bytes.
fn find(bytes: &[u8], what: &[u8]) -> usize {
    let mut places = bytes.windows(what.len());
    places.position(|place| place == what).expect("is there")
}

fn refusal(lab: &Lab, bytes: &[u8]) -> String {
    match lab.module("hello.ko", bytes, "") {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// Name, start of its header, and place and length of each section.
fn sections(bytes: &[u8]) -> Vec<(String, usize, usize, usize)> {
    let word = |at: usize, len: usize| {
        let bytes = bytes[at..at + len].iter().rev();
        bytes.fold(0usize, |n, byte| n << 8 | usize::from(*byte))
    };
    let (table, count, names) = (word(40, 8), word(60, 2), word(62, 2));
    let header = |n: usize| table + n * 64;
    let names = word(header(names) + 24, 8);
    let section = |n: usize| {
        let at = header(n);
        let name = &bytes[names + word(at, 4)..];
        let end = name.iter().position(|byte| *byte == 0).expect("an end");
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        (name, at, word(at + 24, 8), word(at + 32, 8))
    };
    (0..count).map(section).collect()
}

#[test]
fn modules_that_do_not_fit_and_damaged_files_are_refused_and_the_kernel_lives() {
    let Some(image) = lab() else { return };
    let s = Scratch::new();
    let file = built(&s, &image, "hello");
    let mut good = std::fs::read(s.join(&file)).expect("reads");
    // Without the command's line, which neither Linux nor the crate looks at.
    good.truncate(find(&good, b"\n~tane module sha256 "));
    let kernel = tane::Kernel::builder().image(&image).cpus(2);
    let kernel = kernel.boot().expect("boots");
    let lab = kernel.trace().expect("the image lab");

    // Another kernel's.
    let mut other = good.clone();
    let at = find(&other, b"vermagic=");
    other[at + 9] ^= 1;
    assert!(
        refusal(&lab, &other).contains("version magic"),
        "{}",
        refusal(&lab, &other)
    );
    // What nobody has.
    let mut other = good.clone();
    let at = find(&other, b"\0proc_create_single_data\0");
    other[at + 1..at + 5].copy_from_slice(b"xxxx");
    let why = refusal(&lab, &other);
    assert!(
        why.contains("Unknown symbol xxxx_create_single_data"),
        "{why}"
    );
    // Twice.
    let module = lab.module("hello.ko", &good, "").expect("loads");
    assert_eq!(module.name(), "hello");
    assert!(refusal(&lab, &good).contains("File exists"));
    lab.unload(module).expect("is taken out");

    // Cut off anywhere.
    for len in (0..good.len()).step_by(97) {
        refusal(&lab, &good[..len]);
    }
    refusal(
        &lab,
        b"#!/bin/sh\necho no module, but long enough to be looked at by its header\n",
    );
    let sections = sections(&good);
    let of = |name: &str| {
        let found = sections.iter().find(|section| section.0 == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {sections:?}"))
            .clone()
    };
    let (_, text_header, ..) = of(".text");
    let (_, _, symbols, _) = of(".symtab");
    let (_, _, strings, strings_len) = of(".strtab");
    let (_, _, relocations, _) = of(".rela.text");
    let damages: [(&str, usize, u8); 8] = [
        ("an alignment that is no power of two", text_header + 48, 3),
        ("a section larger than all memory", text_header + 32 + 6, 1),
        ("a name behind all names", symbols + 24 + 3, 0x7f),
        ("a symbol in no section", symbols + 24 + 7, 0x7f),
        ("names that do not end", strings + strings_len - 1, b'x'),
        ("a relocation outside of its section", relocations + 6, 1),
        ("a relocation of another machine", relocations + 8, 200),
        ("a relocation to no symbol", relocations + 14, 1),
    ];
    for (what, at, byte) in damages {
        let mut damaged = good.clone();
        damaged[at] = byte;
        assert!(!refusal(&lab, &damaged).is_empty(), "{what}");
        assert!(kernel.is_alive(), "{what}: {}", kernel.last_words());
    }
    // And after all that.
    let module = lab.module("hello.ko", &good, "who=again").expect("loads");
    assert!(module
        .said()
        .iter()
        .any(|line| line.contains("hello, again")));
    let read = kernel
        .tree("/proc")
        .and_then(|proc| proc.read_to_string("hello"));
    assert!(read.expect("reads").contains("hello, again"));
    lab.unload(module).expect("is taken out");
    let log = kernel.dmesg();
    let bad = ["WARNING:", "BUG", "Oops", "no room for"];
    let bad: Vec<_> = log
        .lines()
        .filter(|line| bad.iter().any(|b| line.contains(b)))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}
