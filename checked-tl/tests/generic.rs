//! What is generic: the types that it is used with are found, or it is told what is wrong, and
//! whatever a program says, that takes no more than a moment.

use tane_checked_tl::tl::{assembly, build, format, interpret, Options};

const HEAD: &str = "record Pair<A, B> { first: A, second: B }
variant Option<T> { None, Some(value: T) }
variant List<T> { Nil, Cons(head: T, tail: List<T>) }
fn same<T>(value: T): T { return value; }
fn pick<T>(a: T, b: T): T { return b; }
fn empty<T>(): [T] { return []; }
fn map<A, B>(all: [A], f: fn(A): B): [B] { let to = [f(all[0]); len(all)]; for i in 0..len(all) { to[i] = f(all[i]); } return to; }
fn last<T>(list: List<T>, or: T): T { match list { Nil => { return or; } Cons(head, tail) => { return last(tail, head); } } }
fn value<T>(of: Option<T>, or: T): T { match of { None => { return or; } Some(it) => { return it; } } }
";

fn told(source: &str) -> String {
    match build("t.tl", source, Options::default()) {
        Ok(_) => panic!("nothing is wrong: {source}"),
        Err(told) => told.to_string(),
    }
}

/// A program whose `main` begins in line 10, with this.
fn in_main(text: &str) -> String {
    format!("{HEAD}export fn main(): int {{ {text} return 0; }}\n")
}

#[test]
fn types_are_found_by_arguments_by_what_is_wanted_or_where_they_are_written() {
    for (text, gives) in [
        // By arguments.
        ("return same(3);", 3),
        ("return len(same(\"four\"));", 4),
        ("return pick([1], [2, 5])[1];", 5),
        ("return Pair { second: 6, first: true }.second;", 6),
        ("return value(Some(7), 0);", 7),
        ("return last(Cons(1, Cons(8, Nil)), 0);", 8),
        ("return map([1, 9], fn(n: int): text { return \"123456789\"; })[1][8] - '0';", 9),
        // By arguments that come later.
        (
            "return value(value(pick(None, Some(Some(10))), None), 0);",
            10,
        ),
        ("return value(pick(None, Some(11)), 0);", 11),
        (
            "return value(value([None, Some(None), Some(Some(12))][2], None), 0);",
            12,
        ),
        ("return value([None, Some(13)][1], 0);", 13),
        ("return len(pick([], [1, 2])) + len(pick([None; 3], [Some(1); 12]));", 14),
        // By what is wanted.
        ("let none: Option<int> = None; return value(none, 15);", 15),
        ("let all: [int] = empty(); return len(all) + 16;", 16),
        ("let f: fn(int): int = same; return f(17);", 17),
        ("return map([1, 18], same::<int>)[1];", 18),
        ("let pair: Pair<Option<int>, [text]> = Pair { first: None, second: [] }; return value(pair.first, 19);", 19),
        ("var list: List<int> = Nil; list = Cons(20, list); list = Cons(1, pick(Nil, list)); return last(list, 0);", 20),
        ("let f = fn(n: int): Option<int> { if n > 1 { return None; } return Some(n); }; return value(f(21), 21);", 21),
        // Written.
        ("return value(None::<int>, 22);", 22),
        ("return len(empty::<Pair<int, Option<[text]>>>()) + 23;", 23),
        ("return Pair::<int, bool> { first: 24, second: true }.first;", 24),
        ("let list = Nil::<fn(int): int>; let f = last(list, same); return f(25);", 25),
    ] {
        let source = format!("{HEAD}export fn main(): int {{ {text} }}\n");
        build("t.tl", &source, Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let ended = interpret("t.tl", &source, "main", &[], 10_000).expect("it is right");
        assert_eq!(ended.0, Ok(gives), "{text}");
    }
}

#[test]
fn each_mistake_is_told_at_its_place() {
    for (text, at, says) in [
        (
            "let a = None;",
            33,
            "what is T of None here? None::<T> says it",
        ),
        ("let a = Some(None);", 38, "what is T of None here?"),
        ("let a = empty();", 33, "what is T of empty here?"),
        ("let a = same;", 33, "what is T of same here?"),
        ("let a = [None, None];", 34, "what is T of None here?"),
        ("match Nil { _ => {} }", 31, "what is T of Nil here?"),
        (
            "let a: Pair<int> = 1;",
            32,
            "Pair<A, B> takes 2, and 1 are here",
        ),
        ("let a: Pair = 1;", 32, "Pair<A, B> takes 2, and 0 are here"),
        (
            "let a = same::<int, int>(1);",
            33,
            "same<T> takes 1, and 2 are here",
        ),
        (
            "let a = Pair::<int> { first: 1, second: 2 };",
            33,
            "takes 2, and 1 are here",
        ),
        ("let a: int<int> = 1;", 32, "int is not generic"),
        ("let a: Option<Text> = 1;", 39, "there is no type Text"),
        ("let a = same::<U>(1);", 40, "there is no type U"),
        ("let a = main::<int>();", 33, "main is not generic"),
        ("let a = len::<int>([1]);", 33, "len is not generic"),
        ("let a = close::<int>(1);", 33, "close is not generic"),
        ("let a = 1; let b = a::<int>;", 44, "a is not generic"),
        ("let f = same::<int>; f::<int>(1);", 46, "f is not generic"),
        ("let a = same(1, 2);", 33, "same takes 1, and 2 are here"),
        (
            "let a = pick(1, true);",
            41,
            "this is bool, and int is needed",
        ),
        (
            "let a = pick(Some(1), Some(true));",
            52,
            "this is bool, and int is needed",
        ),
        (
            "let a: Option<int> = Some(true);",
            51,
            "this is bool, and int is needed",
        ),
        (
            "let a = value(3, 3);",
            39,
            "this is int, and Option<T> is needed",
        ),
        (
            "let a = map([1], 3);",
            42,
            "this is int, and fn(A): B is needed",
        ),
        (
            "let a = map([true], fn(n: int): int { return n; });",
            45,
            "fn(A): B is needed",
        ),
        (
            "let a: text = same(1);",
            44,
            "this is int, and text is needed",
        ),
        (
            "let a: text = same::<int>(1);",
            39,
            "this is int, and text is needed",
        ),
        (
            "let a: Option<text> = Some::<int>(1);",
            47,
            "this is Option<int>, and Option<text> is needed",
        ),
        ("same(print(\"\"));", 25, "T of same would be nothing"),
        ("map([1], fn(n: int) {});", 25, "B of map would be nothing"),
        ("let a = Pair { first: 1 };", 33, "second is missing"),
        ("match Some(1) { Some(n) => {} }", 25, "None is missing"),
        ("let a = Some;", 33, "Some has fields"),
        ("let a = None::(1);", 39, "\"<\" and types is needed here"),
        ("let a = None::<>;", 40, "a name is needed here"),
        ("let a = None::<int;", 43, "\",\" or \">\" is needed here"),
        ("let a = 1 < 2 > 3;", 39, "do not follow each other"),
    ] {
        let said = told(&in_main(text));
        assert!(
            said.starts_with(&format!("t.tl:10:{at}: ")),
            "{text}: {said}"
        );
        assert!(said.contains(says), "{text}: {said}");
    }
    for (source, at, says) in [
        ("fn f<T>(x: U) {}", "1:12", "no type U"),
        ("fn f<T>(): [U] {}", "1:13", "no type U"),
        (
            "record R<T> { x: [R<T, T>] }",
            "1:19",
            "R<T> takes 1, and 2 are here",
        ),
        (
            "record R<T> { x: R }",
            "1:18",
            "R<T> takes 1, and 0 are here",
        ),
        ("record R<T> { x: T<int> }", "1:18", "T is not generic"),
        (
            "variant V<T> { A(x: fn(V<int, T>)) }",
            "1:24",
            "V<T> takes 1, and 2",
        ),
        ("fn f<T, T>(x: T) {}", "1:9", "a type T already"),
        ("fn f<int>(x: int) {}", "1:6", "a type int already"),
        (
            "record T { x: int } fn f<T>(x: T) {}",
            "1:26",
            "a type T already",
        ),
        (
            "record R<T> { x: T } record R { x: int }",
            "1:1",
            "a type R already",
        ),
        (
            "variant V<T> { A } variant W { A }",
            "1:16",
            "a case A already",
        ),
        ("record R<T> { x: T, x: T }", "1:21", "a field x already"),
        ("fn f<T>(x: T, x: T) {}", "1:15", "a parameter x already"),
        ("fn f<T>(x: T) {} fn f() {}", "1:21", "a function f already"),
        ("variant V<T> { }", "1:1", "has no case"),
        (
            "export fn f<T>(x: int): int { return x; }",
            "1:11",
            "exported is not generic",
        ),
        ("fn f<>() {}", "1:6", "a name is needed here"),
        ("fn f<T() {}", "1:7", "\",\" or \">\""),
        ("fn f(x: [T]) {}", "1:10", "no type T"),
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
fn a_mistake_in_an_instance_is_told_with_its_types_and_with_who_needs_it() {
    let source = "fn most<T>(all: [T]): T {
    var most = all[0];
    for i in 1..len(all) {
        if all[i] > most {
            most = all[i];
        }
    }
    return most;
}

fn twice<T>(all: [T]): [T] {
    return [most(all), most(all)];
}

export fn main(): int {
    return twice([1, 2])[0] + len(twice([\"a\"]));
}
";
    let expected = "t.tl:4:15: this is text, and int is needed (in most<text>)
        if all[i] > most {
           ^
t.tl:12:13: most<text> is needed here
        return [most(all), most(all)];
                ^
t.tl:16:35: twice<text> is needed here
        return twice([1, 2])[0] + len(twice([\"a\"]));
                                       ^";
    let said = told(source);
    let trimmed = |text: &str| {
        let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines
    };
    assert_eq!(trimmed(&said), trimmed(expected), "{said}");
    // Nobody uses it with text: nothing is wrong.
    let right = source.replace(" + len(twice([\"a\"]))", "");
    build("t.tl", &right, Options::default()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_makes_itself_of_ever_larger_types_is_an_error_and_what_recurs_is_none() {
    for (source, line) in [
        ("fn f<T>(x: T) { f([x]); }\nexport fn main() { f(1); }", 1),
        ("fn f<T>(x: T) { g(fn(): T { return x; }); }\nfn g<T>(x: T) { f(x); }\nexport fn main() { f(1); }", 1),
        ("record R<T> { all: [R<[T]>] }\nexport fn main() { let r: [R<int>] = []; }", 1),
        ("variant V<T> { A, B(x: W<T, T>) }\nrecord W<A, B> { x: V<W<A, B>> }\nexport fn main() { let a = A::<int>; }", 1),
        ("record P<A, B> { a: A, b: B }\nfn f<T>(x: T) { f(P { a: x, b: fn(y: T): T { return y; } }); }\nexport fn main() { f(1); }", 2),
    ] {
        let said = told(source);
        assert!(said.contains("ever larger ones"), "{said}");
        assert!(said.starts_with(&format!("t.tl:{line}:")), "{said}");
        assert!(said.len() < 2000, "{said}");
    }
    // Of the same types again, also in turns, is no end of them.
    let source =
        "fn even<T>(all: [T], n: int): bool { if n == 0 { return true; } return odd(all, n - 1); }
fn odd<T>(all: [T], n: int): bool { if n == 0 { return false; } return even(all, n - 1); }
record Tree<T> { value: T, kinds: [Forest<T>] }
record Forest<T> { trees: [Tree<T>], of: fn(Tree<T>): Forest<T> }
export fn main(): int {
    let tree: Tree<text> = Tree { value: \"x\", kinds: [] };
    if even([tree], 10) && odd([1], 9) { return 1; }
    return 0;
}";
    build("t.tl", source, Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let ended = interpret("t.tl", source, "main", &[], 10_000).expect("it is right");
    assert_eq!(ended.0, Ok(1));
}

#[test]
fn too_many_instances_too_large_ones_and_too_many_types_are_errors() {
    use std::fmt::Write;
    let mut source = "fn f<T>(x: T) {}\n".to_owned();
    let mut calls = String::new();
    for i in 0..2001 {
        writeln!(source, "record R{i} {{ x: int }}").expect("a text");
        writeln!(calls, "f(R{i} {{ x: 1 }});").expect("a text");
    }
    let said = told(&format!("{source}export fn main() {{\n{calls}}}"));
    assert!(said.contains("more than 2000 types"), "{said}");
    assert!(said.starts_with("t.tl:4004:1: "), "{said}");
    // A body of 60,000 expressions, twenty times.
    let body = "n = n + 1;\n".repeat(15_000);
    let mut source = format!("fn f<T>(x: T) {{\nvar n = 0;\n{body}}}\nexport fn main() {{\n");
    for i in 0..20 {
        writeln!(source, "f({}1{});", "[".repeat(i), "]".repeat(i)).expect("a text");
    }
    let said = told(&(source + "}\n"));
    assert!(said.contains("it is too much"), "{said}");
    let cases: Vec<String> = (0..1000).map(|i| format!("C{i}")).collect();
    let mut source = format!(
        "variant V<T> {{ {} }}\nexport fn main() {{\n",
        cases.join(", ")
    );
    for i in 0..58 {
        let (open, close) = ("[".repeat(i), "]".repeat(i));
        writeln!(source, "let v{i} = C0::<{open}int{close}>;").expect("a text");
    }
    for i in 0..3 {
        writeln!(
            source,
            "let w{i} = C0::<fn(): {}int{}>;",
            "[".repeat(i),
            "]".repeat(i)
        )
        .expect("a text");
    }
    let said = told(&(source + "}\n"));
    assert!(said.contains("more types than a module has"), "{said}");
    let lets: String = (0..2000)
        .map(|i| format!("let a{} = [a{i}];\n", i + 1))
        .collect();
    let said = told(&format!("export fn main() {{\nlet a0 = 1;\n{lets}}}"));
    assert!(said.contains("too many arrays"), "{said}");
}

#[test]
fn a_module_has_the_instances_that_are_needed_and_each_once() {
    let source = in_main("let a = same(1) + same(2); let b = same(\"x\"); let f = same::<int>;");
    let options = Options {
        lines: false,
        ..Options::default()
    };
    let made = assembly("t.tl", &source, options).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = made.functions.iter().map(|it| it.name.as_str()).collect();
    let count = |name: &str| names.iter().filter(|it| **it == name).count();
    assert_eq!(
        (count("same"), count("map"), count("last")),
        (2, 0, 0),
        "{names:?}"
    );
}

#[test]
fn angles_around_types_are_laid_out_close_and_those_that_compare_are_not() {
    let source = "record P < A,B >{a:A , b :[ P<A , P< B,A>> ]}\nfn f < T >( x:P<T,fn( T ):P<T,T>> ):bool{\nlet y:P<int,P<int,int>>= g :: < int , [P<T,T> ] > ( 1<2, 3>2 );let none=None :: <int> ;\nreturn a<b&&c>d>>1||P::<int,T>{a:1,b:[]}.a>= -1;\n}\n";
    let expected = "record P<A, B> { a: A, b: [P<A, P<B, A>>] }\nfn f<T>(x: P<T, fn(T): P<T, T>>): bool {\n    let y: P<int, P<int, int>> = g::<int, [P<T, T>]>(1 < 2, 3 > 2); let none = None::<int>;\n    return a < b && c > d >> 1 || P::<int, T> { a: 1, b: [] }.a >= -1;\n}\n";
    let laid_out = format("t.tl", source).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(laid_out, expected);
    assert_eq!(format("t.tl", &laid_out), Ok(laid_out.clone()));
    let program = include_str!("programs/generic.tl");
    assert_eq!(format("t.tl", program).as_deref(), Ok(program));
}
