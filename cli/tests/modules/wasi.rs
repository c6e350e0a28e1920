//! Promises of WebAssembly that is built to a module: a program of WASI does what it does on
//! the host, its end is told, and what cannot be built is an error that says why.

use crate::common::*;
use std::fs::File;
use std::process::{Command, Stdio};
use tane_test_support::skip;

/// Whether modules run here, and clang makes WebAssembly.
fn can_run() -> bool {
    if !has_kernel() {
        return false;
    }
    let clang = Command::new("clang").arg("--version").output();
    if !clang.is_ok_and(|output| output.status.success()) {
        let missing = "no clang: Debian's packages clang, lld and wasi-libc (make deps)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        skip(missing);
        return false;
    }
    match tane_checked_run::lacks() {
        Some(what) => skip(what),
        None => return true,
    }
    false
}

fn clang(s: &Scratch, source: &str, words: &[&str]) {
    let mut clang = s.tool("clang");
    clang.args(["--target=wasm32-wasi", "-O2", "-o", "program.wasm", source]);
    succeed(clang.args(words));
}

#[test]
fn a_program_of_wasi_does_what_it_does_on_the_host() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    s.write("program.c", include_bytes!("wasi_program.c"));
    s.write("input", b"first\nsecond\nno end of line");
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("tree/there", b"before\n");
    clang(&s, "program.c", &[]);
    succeed(s.tane().args(["build", "program.wasm"]));
    succeed(s.tane().args(["check", "program.tmod"]));
    let mut gcc = s.tool("gcc");
    succeed(gcc.args(["-O2", "program.c", "-o", "program", "-lm"]));
    let input = || File::open(s.join("input")).expect("an input");
    let mut native = Command::new(s.join("program"));
    native.args(["some", "words"]).current_dir(s.join("tree"));
    let native = native.stdin(input()).output().expect("the program");
    let mut tane = s.tane();
    tane.args(["run-module", "--root", "tree", "--", "program.tmod"]);
    let module = tane.args(["some", "words"]).stdin(input()).output();
    let module = module.expect("tane");
    assert_eq!(text(&module.stdout), text(&native.stdout));
    assert_eq!(text(&module.stderr), "to errors\n");
    assert_eq!(module.status.code(), Some(3));
}

const RUST: &str = r#"
use std::collections::BTreeMap;
use std::io::Read;

fn main() {
    let mut all = String::new();
    std::io::stdin().read_to_string(&mut all).unwrap();
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for word in all.split_whitespace() {
        *words.entry(word).or_default() += 1;
    }
    println!("{words:?}");
    for path in std::env::args().skip(1) {
        match std::fs::read_to_string(&path) {
            Ok(text) => println!("{path}: {} {:.3}", text.len(), (text.len() as f64).sqrt()),
            Err(error) => println!("{path}: {:?}", error.kind()),
        }
    }
    let of: Vec<Box<dyn Fn(usize) -> usize>> = vec![Box::new(|n| n + 1), Box::new(|n| n * n)];
    println!("{:?}", of.iter().map(|f| f(7)).collect::<Vec<_>>());
    std::process::exit(words.len() as i32);
}
"#;

#[test]
fn a_program_of_rust_with_its_library_does_what_it_does_on_the_host() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    s.write("program.rs", RUST.as_bytes());
    s.write("input", b"b a c a");
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("tree/there", b"before\n");
    let mut rustc = s.tool("rustc");
    rustc.args([
        "-O",
        "--target",
        "wasm32-wasip1",
        "-o",
        "program.wasm",
        "program.rs",
    ]);
    let made = rustc.output().expect("rustc");
    if text(&made.stderr).contains("target may not be installed") {
        return skip("no library of Rust's for it: rustup target add wasm32-wasip1");
    }
    assert!(made.status.success(), "{}", text(&made.stderr));
    succeed(s.tool("rustc").args(["-O", "program.rs"]));
    succeed(s.tane().args(["build", "program.wasm"]));
    let input = || File::open(s.join("input")).expect("an input");
    let mut native = Command::new(s.join("program"));
    native.args(["there", "not"]).current_dir(s.join("tree"));
    let native = native.stdin(input()).output().expect("the program");
    let mut tane = s.tane();
    tane.args(["run-module", "--root", "tree", "--", "program.tmod"]);
    let module = tane.args(["there", "not"]).stdin(input()).output();
    let module = module.expect("tane");
    assert_eq!(text(&module.stderr), "");
    assert_eq!(text(&module.stdout), text(&native.stdout));
    assert_eq!(module.status.code(), native.status.code());
}

const TRAPS: &str = "\
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
static int deep(volatile int n) { return n ? deep(n + 1) + n : 0; }
int main(int argc, char **argv)
{
	volatile char *far = (char *)0x7fff0000;
	volatile int zero = 0, one = 1;
	char *volatile all;

	puts(argv[1]);
	fflush(stdout);
	switch (argv[1][0]) {
	case 'm': *far = 1; break;
	case 'd': return one / zero;
	case 's': return deep(1);
	case 'u': __builtin_trap();
	case 't': for (;;) zero++;
	case 'e': exit(7);
	case 'g': all = malloc(1 << 30); return all ? 1 : 9;
	}
	return 0;
}
";

#[test]
fn its_faults_are_those_of_a_module() {
    if !can_run() {
        return;
    }
    let s = Scratch::new();
    s.write("traps.c", TRAPS.as_bytes());
    clang(&s, "traps.c", &["-Wno-everything"]);
    succeed(s.tane().args(["build", "program.wasm"]));
    // It has no files, and needs none.
    for (word, code) in [
        ("memory", 139),
        ("divide", 136),
        ("stack", 139),
        ("unreachable", 132),
        ("time", 124),
        ("exit", 7),
        ("grow", 9),
        ("nothing", 0),
    ] {
        let mut tane = s.tane();
        tane.args(["run-module", "--time", "2", "--", "program.tmod", word]);
        let ended = tane.stdin(Stdio::null()).output().expect("tane");
        let errors = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{word}: {errors}");
        assert_eq!(text(&ended.stdout), format!("{word}\n"), "{errors}");
    }
}

#[test]
fn what_cannot_be_built_of_webassembly_says_why() {
    let s = Scratch::new();
    let build = |bytes: &[u8], words: &[&str]| {
        s.write("bad.wasm", bytes);
        let mut tane = s.tane();
        tane.args(["build", "bad.wasm"]).args(words);
        let ended = tane.output().expect("tane");
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
        assert!(!s.join("bad.tmod").exists());
        text(&ended.stderr)
    };
    let magic = b"\0asm\x01\0\0\0";
    assert!(build(b"", &[]).contains("bad.wasm: at byte 0x0: "));
    assert!(build(&[magic, &b"\x01\x99"[..]].concat(), &[]).contains("bad.wasm: at byte 0xa: "));
    // A function of the module "env", which is called "far"; and a memory of it.
    let import = |kind: &[u8]| {
        let types = [1, 4, 1, 0x60, 0, 0];
        let import = [b"\x01\x03env\x03far", kind].concat();
        let section = [&[2, import.len() as u8], &import[..]].concat();
        [&magic[..], &types, &section].concat()
    };
    let said = build(&import(&[0, 0]), &[]);
    assert!(
        said.contains("it imports env.far") && said.contains("--import env.far"),
        "{said}"
    );
    let said = build(&import(&[2, 0, 1]), &[]);
    assert!(
        said.contains("env.far: an import that is no function is not supported"),
        "{said}"
    );
    let mut tane = s.tane();
    s.write("bad.wasm", &import(&[0, 0]));
    let ended = tane.args(["build", "bad.wasm", "-D", "X"]).output();
    let ended = ended.expect("tane");
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
    succeed(s.tane().args(["build", "bad.wasm", "--import", "env.far"]));
}
