//! Promises of tane build.

use std::process::Command;

use crate::common::{succeed, text, Scratch};

const SUM: &str = r#"
#include <tane/module.h>
long sum(const long *numbers, long count)
{
	long all = 0;
	for (long i = 0; i < count; i++)
		all += numbers[i];
	return all + EXTRA;
}
long parent(void) { return getppid(); }
"#;

/// What it was refused for, with its exit code.
fn refused(s: &Scratch, words: &[&str]) -> (Option<i32>, String) {
    let output = s.tane().args(words).output().expect("tane");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn what_is_made_of_c_is_accepted_and_imports_what_it_uses() {
    let s = Scratch::new();
    s.write("sum.c", SUM.as_bytes());
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        let words = ["build", "--json", "sum.c", "-DEXTRA=1", level];
        let made = text(&succeed(s.tane().args(words)).stdout);
        let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
        assert_eq!(made["path"], "sum.tmod", "{made}");
        let checked = succeed(s.tane().args(["check", "--json", "sum.tmod"])).stdout;
        let checked: serde_json::Value = serde_json::from_slice(&checked).expect("JSON");
        for part in ["imports", "exports", "code"] {
            assert_eq!(checked[part], made[part]);
        }
        assert_eq!(checked["imports"], serde_json::json!(["getppid"]));
        let exports = checked["exports"].as_array().expect("names");
        assert!(exports.contains(&"sum".into()) && exports.contains(&"parent".into()));
    }
}

#[test]
fn what_is_wrong_in_a_source_is_told_with_its_line() {
    let s = Scratch::new();
    s.write("wrong.c", b"int f(int x)\n{\n\treturn y;\n}\n");
    let (code, said) = refused(&s, &["build", "wrong.c"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("wrong.c:3:"), "{said}");
    s.write("system.c", b"void f(void)\n{\n\tasm(\"syscall\");\n}\n");
    let (code, said) = refused(&s, &["build", "system.c"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("system.c:3: "), "{said}");
    assert!(!s.join("wrong.tmod").exists() && !s.join("system.tmod").exists());
}

#[test]
fn a_function_that_nobody_provides_is_named() {
    let s = Scratch::new();
    s.write(
        "alone.c",
        b"int progress(int);\nint f(void) { return progress(1); }\n",
    );
    let (code, said) = refused(&s, &["build", "alone.c"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("progress") && said.contains("--import"),
        "{said}"
    );
    succeed(s.tane().args(["build", "alone.c", "--import", "progress"]));
}

#[test]
fn a_file_that_is_no_module_is_not_replaced_unasked() {
    let s = Scratch::new();
    s.write("one.c", b"int f(void) { return 1; }\n");
    s.write("one.tmod", b"somebody's work");
    let (code, said) = refused(&s, &["build", "one.c"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("one.tmod: exists"), "{said}");
    assert_eq!(s.read("one.tmod"), b"somebody's work");
    succeed(s.tane().args(["build", "--force", "one.c"]));
    succeed(s.tane().args(["build", "one.c"]));
}

#[test]
fn a_module_that_cannot_be_written_to_stays() {
    let s = Scratch::new();
    s.write("one.c", b"int f(void) { return 1; }\n");
    succeed(s.tane().args(["build", "one.c"]));
    // A program that runs is not written to (ETXTBSY), by root neither. It is copied by a
    // process of its own: a descriptor open for writing here would come into what another
    // test forks meanwhile, and keep the copy from being executed.
    succeed(Command::new("cp").arg("/bin/sleep").arg(s.join("tool")));
    let mut running = Command::new(s.join("tool"))
        .arg("600")
        .spawn()
        .expect("it runs");
    let before = s.read("tool");
    let (code, said) = refused(&s, &["build", "one.c", "-o", "tool", "--force"]);
    running.kill().expect("it is there");
    running.wait().expect("its end");
    assert_eq!(code, Some(3));
    assert!(said.contains("tool: text file busy"), "{said}");
    assert!(s.read("tool") == before);
}

#[test]
fn without_gcc_it_says_what_to_install() {
    let s = Scratch::new();
    s.write("one.c", b"int f(void) { return 1; }\n");
    let mut tane = s.tane();
    let output = tane.args(["build", "one.c"]).env("PATH", "/nowhere");
    let output = output.output().expect("tane");
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("gcc is not installed"), "{said}");
}

#[test]
fn what_is_no_file_is_neither_waited_for_nor_replaced() {
    let s = Scratch::new();
    s.write("one.c", b"int f(void) { return 1; }\n");
    succeed(Command::new("mkfifo").arg(s.join("pipe")));
    for more in [&[][..], &["--force"]] {
        let words = [&["build", "one.c", "-o", "pipe"], more].concat();
        let (code, said) = refused(&s, &words);
        assert_eq!(code, Some(3));
        assert!(said.contains("pipe: is no regular file"), "{said}");
    }
}

#[test]
fn words_for_the_compiler_are_passed_on_byte_by_byte() {
    use std::os::unix::ffi::OsStrExt;
    let s = Scratch::new();
    s.write("one.c", b"#include <own.h>\nint f(void) { return OWN; }\n");
    let dir = std::ffi::OsStr::from_bytes(b"dir-\xff");
    std::fs::create_dir(s.path().join(dir)).expect("a directory");
    std::fs::write(s.path().join(dir).join("own.h"), "#define OWN 3\n").expect("a header");
    succeed(s.tane().args(["build", "one.c", "-I"]).arg(dir));
}
