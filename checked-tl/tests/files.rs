//! Programs of several files.

mod common;

use common::run;
use tane_checked_tl::tl::{build_with, Options, MOST_FILES, MOST_TEXT};

/// What becomes of a program whose other files are these.
fn built(file: &str, source: &str, others: &[(&str, String)]) -> Result<(), String> {
    module(file, source, others).map(drop)
}

fn module(file: &str, source: &str, others: &[(&str, String)]) -> Result<Vec<u8>, String> {
    let mut read = |_: &str, path: &str| {
        let found = others.iter().find(|(name, _)| *name == path);
        let (name, text) = found.ok_or("no such file")?;
        Ok(((*name).to_owned(), text.clone()))
    };
    let options = Options {
        heap: 4096,
        lines: true,
    };
    let made = build_with(file, source, &mut read, options);
    made.map_err(|told| told.to_string())
}

#[test]
fn a_file_of_ones_own_may_be_called_as_the_languages_own_is() {
    let main = "use \"std.tl\";\nexport fn work(n: int): int {\n    return twice(n);\n}\n";
    let own = "pub fn twice(n: int): int {\n    print_int(n);\n    return 2 * n;\n}\n";
    assert_eq!(built("main.tl", main, &[("std.tl", own.into())]), Ok(()));
    // It is the one that mistakes are told of.
    let wrong = own.replace("2 * n", "2 * m");
    let told = built("main.tl", main, &[("std.tl", wrong)]).expect_err("a mistake");
    assert!(told.starts_with("std.tl:3:"), "{told}");
    // And so it is as the first one, with others that use it.
    let main = "use \"other.tl\";\nexport fn work(n: int): int {\n    return n;\n}\n";
    let other = [
        ("other.tl", "use \"std.tl\";\n".into()),
        ("std.tl", main.into()),
    ];
    assert_eq!(built("std.tl", main, &other), Ok(()));
    assert_eq!(built("std.tl", own, &[]), Ok(()));
}

#[test]
fn a_program_of_too_many_files_is_refused_at_the_one_that_is_too_many() {
    // Each uses the next.
    let mut read = |from: &str, path: &str| {
        let number: usize = path.parse().map_err(|_| "no number")?;
        assert!(number <= MOST_FILES && from != path);
        Ok((path.to_owned(), format!("use \"{}\";\n", number + 1)))
    };
    let made = build_with("0", "use \"1\";\n", &mut read, Options::default());
    let told = made.expect_err("too many").to_string();
    let last = MOST_FILES - 1;
    let expected = format!("{last}:1:5: {MOST_FILES}: a program has at most {MOST_FILES} files");
    assert!(told.starts_with(&expected), "{told}");
}

#[test]
fn a_program_of_too_much_text_is_refused() {
    let half = format!("// {}\n", "x".repeat(MOST_TEXT / 2));
    let main = "use \"a.tl\";\nuse \"b.tl\";\nexport fn work(n: int): int {\n    return n;\n}\n";
    let others = [("a.tl", half.clone()), ("b.tl", half.clone())];
    let told = built("main.tl", main, &others).expect_err("too much");
    assert!(
        told.starts_with("main.tl:2:5: b.tl: a program has at most 4 MiB"),
        "{told}"
    );
    let told = built("main.tl", &half.repeat(2), &[]).expect_err("too much");
    assert!(told.starts_with("main.tl:1:1: a program has"), "{told}");
    // As much as fits is no mistake.
    assert_eq!(
        built("main.tl", main, &[("a.tl", half), ("b.tl", String::new())]),
        Ok(())
    );
}

#[test]
fn what_is_not_pub_is_seen_by_its_file_alone() {
    let other = "record Hidden { n: int }
variant Answer { Yes(n: int), No }
fn secret(n: int): int { return n; }
fn same<T>(n: T): T { return n; }
record Box<T> { it: T }
pub record Seen { hidden: Hidden }
pub fn seen(n: int): Seen { return Seen { hidden: Hidden { n: secret(same(n)) } }; }
pub fn what(of: Seen): Hidden { return of.hidden; }
";
    let others = [("other.tl", other.to_owned())];
    let with = |text: &str| {
        let main =
            format!("use \"other.tl\";\nexport fn work(n: int): int {{\n{text}\nreturn n;\n}}\n");
        built("main.tl", &main, &others)
    };
    for (text, says) in [
        ("secret(1);", "3:1: there is no function secret"),
        ("same(1);", "3:1: there is no function same"),
        ("let f = secret;", "3:9: there is no secret here"),
        ("let a = No;", "3:9: there is no No here"),
        ("let a = Yes(1);", "3:9: there is no function Yes"),
        ("let a: Answer = 1;", "3:8: there is no type Answer"),
        ("let a: Box<int> = 1;", "3:8: there is no type Box"),
        ("let a = Box { it: 1 };", "3:9: there is no record Box"),
        ("let a = Hidden { n: 1 };", "3:9: there is no record Hidden"),
    ] {
        let told = with(text).expect_err(text);
        assert!(told.starts_with(&format!("main.tl:{says}")), "{told}");
        assert!(
            told.contains(": another file has it, without pub"),
            "{told}"
        );
    }
    // What has no name here is a value all the same, and what is nowhere is nobody's.
    assert_eq!(with("let a = what(seen(n)).n;"), Ok(()));
    let told = with("nowhere();").expect_err("nowhere");
    assert!(!told.contains("another file"), "{told}");
}

#[test]
fn files_have_names_of_their_own_and_use_these_first() {
    let other = "fn digits(n: int): int { return n + 1; }
record Box { n: int }
variant Way { Left, Right(n: int) }
fn own<T>(n: T): T { return n; }
pub fn other(n: int): int {
    let box = Box { n: own(n) };
    match Right(box.n) {
        Left => { return 0; }
        Right(n) => { return digits(n) * 10; }
    }
}
// An instance that another file needs sees what its own file does.
pub fn wrapped<T>(it: T): Seen<T> { return Seen { it: own(it), n: digits(2) }; }
pub record Seen<T> { it: T, n: int }
pub fn shown(n: int): int { return n; }
";
    let main = "use \"other.tl\";
fn own(n: int): int { return 7; }
record Box { other: text }
variant Way { Right, Left }
fn shown(n: int): int { return 1000 * n; }
fn digits(n: int): text { return \"no\"; }
export fn work(n: int): int {
    let box = Box { other: digits(n) };
    print_int(own(n) + len(box.other));
    match Left { Left => { return other(n) + shown(wrapped(n).n); } Right => { return 0; } }
}
";
    let module = module("main.tl", main, &[("other.tl", other.into())]);
    let module = module.unwrap_or_else(|e| panic!("{e}"));
    if tane_checked_run::lacks().is_none() {
        assert_eq!(run(&module, "work", &[4]), (Ok(3050), b"9".to_vec()));
    }
}

#[test]
fn what_is_pub_or_exported_is_there_once() {
    let main = "use \"other.tl\";\nexport fn work(n: int): int {\n    return n;\n}\n";
    for (own, other, says) in [
        ("pub fn f() {}", "pub fn f() {}", "a function f already"),
        ("", "export fn work() {}", "a function work already"),
        ("", "pub fn work() {}", "a function work already"),
        ("pub record R {}", "pub variant R { A }", "a type R already"),
        (
            "pub variant V { A }",
            "pub variant W { A }",
            "a case A already",
        ),
        (
            "pub fn A() {}",
            "pub variant W { A }",
            "a function A already",
        ),
        ("", "pub fn print_int() {}", "a function print_int already"),
        ("", "fn f() {} pub fn f() {}", "a function f already"),
    ] {
        let others = [("other.tl", other.to_owned())];
        let told = built("main.tl", &format!("{main}{own}\n"), &others).expect_err(other);
        assert!(told.contains(says), "{told} where {says}");
    }
    let others = [("other.tl", "fn work() {} fn print_int() {}".to_owned())];
    assert_eq!(built("main.tl", main, &others), Ok(()));
}
