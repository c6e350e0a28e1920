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

#[test]
fn a_program_of_several_files_is_one_and_what_is_wrong_is_told_in_its_file() {
    if let Some(what) = tane_checked_run::lacks() {
        return skip(what);
    }
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    std::fs::create_dir_all(s.join("lib/deep")).expect("directories");
    let main = "use \"lib/sums.tl\";\n\nexport fn main(): int {\n    print_int(sum([1, 2, 3]).is);\n    return checked(0);\n}\n";
    s.write("main.tl", main.as_bytes());
    // Each names the others, by whatever way.
    let sums = "use \"deep/divides.tl\";\nuse \"../main.tl\";\n\npub record Sum {\n    is: int,\n}\n\npub fn sum(all: [int]): Sum {\n    let of = Sum { is: 0 };\n    for i in 0..len(all) {\n        of.is = of.is + all[i];\n    }\n    return of;\n}\n";
    s.write("lib/sums.tl", sums.as_bytes());
    let divides = "use \"../../lib/sums.tl\";\n\npub fn checked(by: int): int {\n    return sum([6]).is / by;\n}\n";
    s.write("lib/deep/divides.tl", divides.as_bytes());
    succeed(s.tane().args(["build", "main.tl"]));
    let output = s.tane().args(["run-module", "--", "main.tmod"]).output();
    let output = output.expect("tane");
    assert_eq!(text(&output.stdout), "6");
    assert_eq!(output.status.code(), Some(136));
    let told = text(&output.stderr);
    assert!(told.contains("Divide at lib/deep/divides.tl:4"), "{told}");
    for (file, from, to, expected) in [
        ("lib/sums.tl", "of.is +", "of.was +", "lib/sums.tl:11:"),
        ("lib/sums.tl", "return of;", "return of", "lib/sums.tl:14:"),
        (
            "lib/deep/divides.tl",
            "fn checked",
            "fn sum",
            "lib/deep/divides.tl:3:8: there is",
        ),
        (
            "main.tl",
            "sums.tl",
            "none.tl",
            "main.tl:1:5: lib/none.tl: No such file",
        ),
        (
            "main.tl",
            "\"lib/sums.tl\"",
            "lib",
            "main.tl:1:5: the name of a file",
        ),
    ] {
        let before = std::fs::read_to_string(s.join(file)).expect("a source");
        let wrong = before.replace(from, to);
        assert_ne!(wrong, before);
        s.write(file, wrong.as_bytes());
        let output = s.tane().args(["build", "main.tl"]).output().expect("tane");
        assert_eq!(output.status.code(), Some(1), "{expected}");
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{told} where {expected}");
        s.write(file, before.as_bytes());
    }
}

#[test]
fn what_never_ends_or_waits_is_no_file_of_a_program() {
    let s = Scratch::new();
    succeed(std::process::Command::new("mkfifo").arg(s.join("pipe.tl")));
    let long = std::fs::File::create(s.join("long.tl")).expect("a file");
    long.set_len(1 << 40).expect("holes");
    s.write("lib/in.tl", b"");
    for (file, expected) in [
        ("pipe.tl", "pipe.tl: is no regular file"),
        ("/dev/zero", "/dev/zero: is no regular file"),
        ("lib", "lib: is no regular file"),
        ("long.tl", "long.tl: is longer than the 4 MiB"),
    ] {
        s.write("main.tl", format!("use \"{file}\";\n").as_bytes());
        let output = s.tane().args(["build", "main.tl"]).output().expect("tane");
        assert_eq!(output.status.code(), Some(1), "{file}");
        let told = text(&output.stderr);
        let expected = format!("main.tl:1:5: {expected}");
        assert!(told.contains(&expected), "{told} where {expected}");
    }
    let output = s.tane().args(["build", "long.tl"]).output().expect("tane");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("long.tl: is longer"));
}
