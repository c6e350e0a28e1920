//! What is wrong in a program is told with its line and column.

use tane_checked_tl::tl::{build, format, Options};

fn told(source: &str) -> String {
    match build("t.tl", source, Options::default()) {
        Ok(_) => panic!("nothing is wrong: {source}"),
        Err(told) => told.to_string(),
    }
}

/// In the body of a function.
fn in_body(text: &str) -> String {
    told(&format!("record P {{ x: int, y: [P] }}\nvariant V {{ A, B(n: int) }}\nfn f(n: int, p: P): int {{ return n; }}\nexport fn g(): int {{ return 0; }}\nexport fn main(): int {{\n{text}\nreturn 0;\n}}"))
}

#[test]
fn each_mistake_is_told_at_its_place() {
    for (text, at, says) in [
        ("let a = b;", "6:9", "there is no b"),
        (
            "let a = 1 + true;",
            "6:13",
            "this is bool, and int is needed",
        ),
        (
            "let a: text = 1;",
            "6:15",
            "this is int, and text is needed",
        ),
        ("let a = f(1);", "6:9", "f takes 2, and 1 are here"),
        ("let a = h(1);", "6:9", "no function h"),
        ("let a = g();", "6:9", "only the host calls it"),
        ("let a = 1; a = 2;", "6:12", "declare it with var"),
        ("let a = \"x\"; a[0] = 1;", "6:15", "a text does not change"),
        ("let a = P { x: 1 };", "6:9", "y is missing"),
        (
            "let a = P { x: 1, x: 2, y: [] };",
            "6:19",
            "x is there already",
        ),
        ("let a = P { z: 1 };", "6:13", "has no field z"),
        ("let a = Q { z: 1 };", "6:9", "no record Q"),
        ("let a = [];", "6:9", "an array of what"),
        ("let a = [1, true];", "6:13", "this is bool"),
        ("let a = 1; a.x = 1;", "6:13", "int has no fields"),
        ("let a = 1; let b = a[0];", "6:21", "int has no elements"),
        ("let a = A == A;", "6:9", "V is not compared"),
        ("let a = B;", "6:9", "B has fields"),
        ("let a = 1 < 2 < 3;", "6:15", "do not follow each other"),
        ("match 1 { A => {} }", "6:7", "match is for variants"),
        ("match A { A => {} }", "6:1", "B is missing"),
        (
            "match A { A => {} A => {} B(n) => {} }",
            "6:19",
            "A is there already",
        ),
        ("match A { A => {} B => {} }", "6:19", "B has 1 fields"),
        ("match A { A => {} C => {} }", "6:19", "V has no case C"),
        (
            "match A { _ => {} A => {} }",
            "6:19",
            "all cases are there already",
        ),
        ("break;", "6:1", "no loop"),
        ("return true;", "6:8", "this is bool"),
        ("return;", "6:1", "the function gives int"),
        ("return 1; let a = 2;", "6:11", "nothing leads here"),
        ("1 + 2;", "6:3", "this does nothing"),
        ("f(1, 2) = 3;", "6:1", "are assigned to"),
        ("let a = print(\"x\");", "6:9", "gives nothing"),
        ("read(1, bytes(3), 0, 3);", "6:6", "file is needed"),
        ("let a = 1", "7:1", "\";\" is needed here"),
        ("let if = 1;", "6:5", "a name is needed here"),
        ("let a = 0x;", "6:9", "no number"),
        (
            "let a = 9223372036854775808;",
            "6:9",
            "only with - before it",
        ),
        ("let a = 99999999999999999999;", "6:9", "no number"),
        ("let a = \"x;", "6:9", "does not end in its line"),
        ("let a = 'xy';", "6:9", "there is one byte"),
        ("let a = \"\\q\";", "6:10", "stands before"),
        ("let a = 1 $ 2;", "6:11", "means nothing"),
        ("if 1 { }", "6:4", "bool is needed"),
        (
            "var a = 1; let f = fn(): int { return a; };",
            "6:39",
            "a changes, and this function",
        ),
        ("let f = fn(): int { };", "6:21", "without a return"),
        ("let f = fn() { break; };", "6:16", "no loop"),
        (
            "let f = fn(a: int): bool { return a; };",
            "6:35",
            "bool is needed",
        ),
        ("let f: fn(int): int = fn(a: int) { };", "6:23", "is needed"),
        (
            "let f = fn(a: int, b: int, c: int, d: int, e: int, f: int) { };",
            "6:9",
            "at most 5",
        ),
        ("let f = 1; let a = f(1);", "6:20", "f is no function"),
    ] {
        let said = in_body(text);
        assert!(said.starts_with(&format!("t.tl:{at}: ")), "{text}: {said}");
        assert!(said.contains(says), "{text}: {said}");
        assert_eq!(said.lines().count(), 3, "{said}");
    }
    for (source, at, says) in [
        (
            "fn f(): int { if true { return 1; } }",
            "1:37",
            "without a return",
        ),
        ("fn f() {} fn f() {}", "1:14", "already"),
        ("fn len() {}", "1:4", "already"),
        ("fn read() {}", "1:4", "already"),
        ("record int { a: int }", "1:1", "already"),
        ("record P { a: int, a: int }", "1:20", "already"),
        ("record P { a: Q }", "1:15", "no type Q"),
        ("variant V { }", "1:1", "has no case"),
        ("variant V { A } variant W { A }", "1:29", "already"),
        ("export fn f(b: bool) {}", "1:11", "takes and gives int"),
        (
            "fn f(a: int, b: int, c: int, d: int, e: int, f: int, g: int) {}",
            "1:4",
            "at most 6",
        ),
        ("fn f(a: int, a: int) {}", "1:14", "already"),
        (
            "let a = 1;",
            "1:1",
            "record, variant, fn, export, pub or use",
        ),
        ("pub export fn f() {}", "1:5", "record, variant or fn is"),
        ("pub use \"x.tl\";", "1:5", "record, variant or fn is"),
        ("use \"x.tl\";", "1:5", "x.tl: no other file"),
        ("use x;", "1:5", "the name of a file"),
    ] {
        let said = told(source);
        assert!(
            said.starts_with(&format!("t.tl:{at}: ")),
            "{source}: {said}"
        );
        assert!(said.contains(says), "{source}: {said}");
    }
}

#[test]
fn the_mark_is_below_what_is_wrong_whatever_is_before_it() {
    let said = told("fn f(): int {\n\treturn \"ü\" + 1;\n}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1], "    \treturn \"ü\" + 1;");
    assert_eq!(lines[2], "    \t       ^");
}

#[test]
fn what_is_too_deep_or_too_large_is_an_error_and_no_crash() {
    let deep = format!(
        "fn f(): int {{ return {}1{}; }}",
        "(".repeat(9999),
        ")".repeat(9999)
    );
    assert!(told(&deep).contains("within each other"));
    let long = format!("fn f(): int {{ return 1{}; }}", " + 1".repeat(9999));
    assert!(told(&long).contains("within each other"));
    let blocks = format!(
        "fn f() {{ {} {} }}",
        "if true {".repeat(9999),
        "}".repeat(9999)
    );
    assert!(told(&blocks).contains("within each other"));
    let minus = format!("fn f(): int {{ return {}1; }}", "- ".repeat(9999));
    assert!(told(&minus).contains("within each other"));
    let types = format!("fn f(a: {}int{}) {{ }}", "[".repeat(9999), "]".repeat(9999));
    assert!(told(&types).contains("within each other"));
    let many: String = (0..400).map(|i| format!("let v{i} = n;\n")).collect();
    let uses: String = (0..400).map(|i| format!("h(v{i});\n")).collect();
    let source = format!("fn h(n: int) {{}}\nexport fn f(n: int) {{\n{many}{uses}}}");
    assert!(told(&source).contains("more variables than fit"));
    let checks = "a[n] = a[n] + 1;\n".repeat(2000);
    let source = format!("export fn f(n: int) {{\nlet a = [1, 2];\n{checks}}}");
    build("t.tl", &source, Options::default()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn bytes_that_are_no_program_are_an_error_and_no_crash() {
    let programs = [
        include_str!("programs/tree.tl"),
        include_str!("programs/generic.tl"),
    ];
    let mut seed = 1_u64;
    let mut next = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as usize % n
    };
    let mut wrong = 0;
    for i in 0..3000 {
        let mut bytes = programs[i % 2].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let (at, from) = (next(bytes.len()), next(bytes.len()));
            match next(3) {
                0 => bytes[at] = bytes[from],
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(bytes.len() - next(40)),
            }
        }
        let source = String::from_utf8_lossy(&bytes);
        let made = build("t.tl", &source, Options::default());
        if let Err(told) = &made {
            assert!(
                !told.what.contains("the checker refuses"),
                "{told}\n{source}"
            );
            wrong += 1;
        }
        let _ = format("t.tl", &source);
    }
    assert!(wrong > 1000, "{wrong}");
}

#[test]
fn a_program_is_laid_out_and_keeps_its_comments_and_lines() {
    let source = "// first\n\n\n  fn  f( a:int ,b : [ int ] ):int{ // second\nif a<- 1&&!  (b [0]==2){return   -a*( a-1 ) ; }\n\n\nlet x=[1 ,2];for i in 0 .. len( b ){b[i]=x[ 0 ];}\n\n\nreturn b[\n1\n] ;\n}\n";
    let expected = "// first\n\nfn f(a: int, b: [int]): int { // second\n    if a < -1 && !(b[0] == 2) { return -a * (a - 1); }\n\n    let x = [1, 2]; for i in 0..len(b) { b[i] = x[0]; }\n\n    return b[\n        1\n    ];\n}\n";
    let laid_out = format("t.tl", source).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(laid_out, expected);
    assert!(format("t.tl", "fn f(").is_err());
    for program in [
        include_str!("programs/closures.tl"),
        include_str!("programs/words.tl"),
        include_str!("../src/tl/std.tl"),
    ] {
        assert_eq!(format("t.tl", program).as_deref(), Ok(program));
    }
}
