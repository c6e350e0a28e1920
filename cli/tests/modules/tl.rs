//! Promises of tane build for programs of TL and typed assembly, and of tane check for those.

use crate::common::*;
use tane_test_support::skip;

const LINES: &str = r#"// Prints the lines of a file that begin with a digit.

export fn main(): int {
    let path = "numbers\0";
    let file = openat(path, 0, len(path), 0, 0);
    if number(file) < 0 {
        print("no file\n");
        return 2;
    }
    let buffer = bytes(100);
    let got = read(file, buffer, 0, len(buffer));
    var start = 0;
    for i in 0..got {
        if buffer[i] == '\n' {
            if buffer[start] >= '0' && buffer[start] <= '9' {
                tane_output(1, buffer, start, i + 1 - start);
            }
            start = i + 1;
        }
    }
    close(file);
    return 0;
}
"#;

#[test]
fn a_program_of_tl_reads_files_of_its_root_and_no_others() {
    if !has_kernel() {
        return;
    }
    if let Some(what) = tane_checked_run::lacks() {
        return skip(what);
    }
    let s = Scratch::new();
    s.write("lines.tl", LINES.as_bytes());
    succeed(s.tane().args(["build", "lines.tl"]));
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("numbers", b"9 outside\n");
    let run = |s: &Scratch| {
        let mut tane = s.tane();
        let output = tane.args(["run-module", "--root", "tree", "--", "lines.tmod"]);
        output.output().expect("tane")
    };
    let output = run(&s);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(2), "no file\n".into())
    );
    s.write("tree/numbers", b"1 one\nno\n2 two\n");
    let output = run(&s);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "1 one\n2 two\n");
}

#[test]
fn what_fails_in_tl_is_told_with_its_line() {
    if !has_kernel() {
        return;
    }
    if let Some(what) = tane_checked_run::lacks() {
        return skip(what);
    }
    let s = Scratch::new();
    let source = "export fn main(): int {\n    let all = [1];\n    return all[1];\n}\n";
    s.write("index.tl", source.as_bytes());
    succeed(s.tane().args(["build", "index.tl"]));
    let output = s.tane().args(["run-module", "--", "index.tmod"]).output();
    let output = output.expect("tane");
    assert_eq!(output.status.code(), Some(132));
    let said = text(&output.stderr);
    assert!(said.contains("Unreachable at index.tl:3"), "{said}");
    succeed(s.tane().args(["build", "--heap", "4K", "index.tl"]));
    let source = source.replace("= [1]", "= [0; 600]");
    s.write("index.tl", source.as_bytes());
    succeed(s.tane().args(["build", "--heap", "4K", "index.tl"]));
    let output = s.tane().args(["run-module", "--", "index.tmod"]).output();
    assert_eq!(output.expect("tane").status.code(), Some(139));
}

#[test]
fn a_mistake_is_told_with_its_line_and_a_mark_and_nothing_is_made() {
    let s = Scratch::new();
    s.write("wrong.tl", b"export fn main(): int {\n    return x;\n}\n");
    let output = s.tane().args(["build", "wrong.tl"]).output().expect("tane");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("wrong.tl:2:12: there is no x here\n"),
        "{said}"
    );
    assert!(said.contains("    return x;\n"), "{said}");
    assert!(!s.join("wrong.tmod").exists());
    for words in [
        &["build", "wrong.tl", "other.tl"][..],
        &["build", "wrong.tl", "-D", "A"],
        &["build", "--heap", "1M", "x.c"],
        &["build", "--heap", "2G", "wrong.tl"],
        &["build", "--reformat", "x.c"],
    ] {
        for name in ["other.tl", "x.c"] {
            s.write(name, b"");
        }
        let output = s.tane().args(words).output().expect("tane");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_typed_module_is_printed_as_assembly_that_becomes_the_same_module() {
    let s = Scratch::new();
    s.write("lines.tl", LINES.as_bytes());
    succeed(s.tane().args(["build", "--strip", "lines.tl"]));
    let printed = succeed(s.tane().args(["check", "--disassemble", "lines.tmod"])).stdout;
    s.write("again.tasm", &printed);
    succeed(s.tane().args(["build", "again.tasm"]));
    let module = |name: &str| std::fs::read(s.join(name)).expect("a module");
    assert_eq!(module("again.tmod"), module("lines.tmod"));
    let explained = succeed(s.tane().args(["check", "--explain", "lines.tmod"])).stdout;
    assert!(
        text(&explained).contains("rax:#2"),
        "the types of what it holds"
    );
    s.write("wrong.tasm", b"fn f(): int\n    mov rax\n");
    let output = s
        .tane()
        .args(["build", "wrong.tasm"])
        .output()
        .expect("tane");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("wrong.tasm:2: "));
    s.write(
        "untyped.tasm",
        b"fn f(): int\n    mov rax, qword [rdi]\n    ret\n",
    );
    let output = s
        .tane()
        .args(["build", "untyped.tasm"])
        .output()
        .expect("tane");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("T5 at code+"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_program_is_laid_out_in_its_place() {
    let s = Scratch::new();
    s.write("lines.tl", LINES.replace("    ", "\t  ").as_bytes());
    succeed(s.tane().args(["build", "--reformat", "lines.tl"]));
    let laid_out = std::fs::read_to_string(s.join("lines.tl")).expect("a program");
    assert_eq!(laid_out, LINES);
    assert!(!s.join("lines.tmod").exists());
    s.write("wrong.tl", b"fn (");
    let output = s.tane().args(["build", "--reformat", "wrong.tl"]).output();
    assert_eq!(output.expect("tane").status.code(), Some(1));
    assert_eq!(std::fs::read(s.join("wrong.tl")).expect("a file"), b"fn (");
}
