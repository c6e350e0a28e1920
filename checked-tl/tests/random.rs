//! Random programs of TL compute as modules what they compute as they are written, and fail
//! where those fail. `TANE_PROGRAMS` says how many, `TANE_SEED` which.

use std::fmt::Write;
use tane_checked_run::{Instance, Trap};
use tane_checked_tl::tl::{build, format, interpret, Ended, Options};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ty {
    Int,
    Bool,
    Array,
    Bytes,
    Text,
    Record,
    Variant,
    Function,
}

const HEAD: &str = "record R { n: int, all: [int], shape: V, is: bool }
variant V { Empty, One(n: int), Two(left: V, right: V, is: bool), Rec(r: R) }
record Pair<A, B> { first: A, second: B }
variant Option<T> { None, Some(value: T) }
fn itself<T>(value: T): T { return value; }
fn swapped<A, B>(it: Pair<A, B>): Pair<B, A> { return Pair { second: it.first, first: it.second }; }
fn or<T>(value: Option<T>, otherwise: T): T {
    match value { Some(value) => { return value; } None => { return otherwise; } }
}
fn given<T>(f: fn(T): T, value: T): T { return f(value); }
fn last<T>(all: [T]): T { return all[len(all) - 1]; }
";

/// A program that is being thought up.
struct Maker {
    random: Random,
    text: String,
    /// Variables in scope, and whether they change.
    variables: Vec<(String, Ty, bool)>,
    names: usize,
    /// Functions that may be called: those before.
    functions: usize,
    deep: usize,
    loops: usize,
    /// In a function without a name: what changes is not to be had.
    nameless: bool,
}

impl Maker {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn variable(&mut self, ty: Ty, changes: bool) -> Option<String> {
        let all: Vec<&String> = self
            .variables
            .iter()
            .filter(|(_, t, c)| *t == ty && (*c || !changes) && !(*c && self.nameless))
            .map(|(name, ..)| name)
            .collect();
        match all.len() {
            0 => None,
            n => Some(all[self.random.below(n)].clone()),
        }
    }

    fn expr(&mut self, ty: Ty) -> String {
        self.deep += 1;
        let small = self.deep > 4;
        let made = self.made(ty, small);
        self.deep -= 1;
        made
    }

    fn made(&mut self, ty: Ty, small: bool) -> String {
        if self.random.below(3) == 0 {
            if let Some(name) = self.variable(ty, false) {
                return name;
            }
        }
        if !small && self.random.below(8) == 0 {
            return self.generic(ty);
        }
        match ty {
            Ty::Int => self.int(small),
            Ty::Bool => self.bool(small),
            Ty::Array if small => "[1, 2]".into(),
            Ty::Array => match self.random.below(3) {
                0 => {
                    let (a, b) = (self.expr(Ty::Int), self.expr(Ty::Int));
                    format!("[{a}, {b}, 3]")
                }
                1 => {
                    let (a, n) = (self.expr(Ty::Int), self.random.below(6));
                    format!("[{a}; {n}]")
                }
                _ => format!("{}.all", self.expr(Ty::Record)),
            },
            Ty::Bytes => format!("bytes({})", self.random.below(9)),
            Ty::Text => ["\"\"", "\"a b\"", "\"text\\0\\n\""][self.random.below(3)].into(),
            Ty::Record if small => "R { n: 1, all: [0; 2], shape: Empty, is: true }".into(),
            Ty::Record => {
                let (n, is) = (self.expr(Ty::Int), self.expr(Ty::Bool));
                let (all, shape) = (self.expr(Ty::Array), self.expr(Ty::Variant));
                format!("R {{ all: {all}, n: {n}, is: {is}, shape: {shape} }}")
            }
            Ty::Variant if small => "Empty".into(),
            Ty::Variant => match self.random.below(4) {
                0 => format!("One({})", self.expr(Ty::Int)),
                1 => {
                    let (a, b) = (self.expr(Ty::Variant), self.expr(Ty::Variant));
                    format!("Two({a}, {b}, {})", self.expr(Ty::Bool))
                }
                2 => format!("Rec({})", self.expr(Ty::Record)),
                _ => format!("{}.shape", self.expr(Ty::Record)),
            },
            Ty::Function if !small && self.random.below(3) > 0 => {
                let (outer, name) = (self.nameless, self.name());
                self.nameless = true;
                self.variables.push((name.clone(), Ty::Int, false));
                let value = self.expr(Ty::Int);
                self.variables.pop();
                self.nameless = outer;
                format!("fn({name}: int): int {{ return {value}; }}")
            }
            Ty::Function => ["twice", "less"][self.random.below(2)].into(),
        }
    }

    /// What is generic, of which one part is of a type.
    fn generic(&mut self, ty: Ty) -> String {
        let it = self.expr(ty);
        let all = [
            Ty::Int,
            Ty::Bool,
            Ty::Array,
            Ty::Bytes,
            Ty::Text,
            Ty::Variant,
        ];
        let other = all[self.random.below(all.len())];
        let other = self.expr(other);
        match self.random.below(8) {
            0 => format!("itself({it})"),
            1 => format!("or(Some({it}), {})", self.expr(ty)),
            2 => format!("or(None, {it})"),
            3 => format!("swapped(Pair {{ first: {it}, second: {other} }}).second"),
            4 => format!("Pair {{ first: Some({other}), second: {it} }}.second"),
            5 => format!("given(itself, {it})"),
            6 => format!("last([{}, {it}])", self.expr(ty)),
            _ => format!("or(or(last([None, Some(Some({it}))]), None), {it})"),
        }
    }

    fn int(&mut self, small: bool) -> String {
        if small || self.random.below(4) == 0 {
            let all = [
                0,
                1,
                2,
                3,
                7,
                -1,
                -5,
                63,
                64,
                255,
                256,
                1000,
                i64::MAX,
                i64::MIN,
                1 << 40,
            ];
            return all[self.random.below(all.len())].to_string();
        }
        match self.random.below(12) {
            0..=5 => {
                let op = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];
                let op = op[self.random.below(op.len())];
                let (a, b) = (self.expr(Ty::Int), self.expr(Ty::Int));
                format!("({a} {op} {b})")
            }
            6 => format!("-({})", self.expr(Ty::Int)),
            7 => format!("!{}", self.expr(Ty::Int)),
            8 => {
                let of = [Ty::Array, Ty::Bytes, Ty::Text][self.random.below(3)];
                let (of, at) = (self.expr(of), self.expr(Ty::Int));
                match self.random.below(2) {
                    0 => format!("{of}[{}]", self.random.below(3)),
                    _ => format!("{of}[{at}]"),
                }
            }
            9 => {
                let of = [Ty::Array, Ty::Bytes, Ty::Text][self.random.below(3)];
                format!("len({})", self.expr(of))
            }
            10 => format!("{}.n", self.expr(Ty::Record)),
            _ => match (self.variable(Ty::Function, false), self.functions) {
                (Some(f), _) => format!("{f}({})", self.expr(Ty::Int)),
                (None, 0) => format!("twice({})", self.expr(Ty::Int)),
                (None, n) => {
                    let f = self.random.below(n);
                    let (a, b) = (self.expr(Ty::Int), self.expr(Ty::Variant));
                    format!("f{f}({a}, {b}, {})", self.expr(Ty::Array))
                }
            },
        }
    }

    fn bool(&mut self, small: bool) -> String {
        match self.random.below(if small { 3 } else { 7 }) {
            0 => "true".into(),
            1 => "false".into(),
            2 | 3 => {
                let op = ["==", "!=", "<", "<=", ">", ">="][self.random.below(6)];
                let (a, b) = (self.expr(Ty::Int), self.expr(Ty::Int));
                format!("({a} {op} {b})")
            }
            4 => format!("!{}", self.expr(Ty::Bool)),
            5 => format!("{}.is", self.expr(Ty::Record)),
            _ => {
                let op = ["&&", "||", "==", "!="][self.random.below(4)];
                let (a, b) = (self.expr(Ty::Bool), self.expr(Ty::Bool));
                format!("({a} {op} {b})")
            }
        }
    }

    fn block(&mut self, statements: usize) {
        let outer = self.variables.len();
        self.text.push_str("{\n");
        self.deep += 1;
        for _ in 0..statements {
            self.stmt();
        }
        self.deep -= 1;
        self.text.push_str("}\n");
        self.variables.truncate(outer);
    }

    fn stmt(&mut self) {
        let deep = self.deep;
        let choice = self.random.below(if deep > 3 { 6 } else { 11 });
        self.deep = 1;
        match choice {
            0 | 1 => {
                let all = [
                    Ty::Int,
                    Ty::Int,
                    Ty::Bool,
                    Ty::Array,
                    Ty::Bytes,
                    Ty::Text,
                    Ty::Record,
                    Ty::Variant,
                    Ty::Function,
                    Ty::Function,
                ];
                let ty = all[self.random.below(all.len())];
                let (value, name) = (self.expr(ty), self.name());
                let changes = self.random.below(2) == 0;
                let word = if changes { "var" } else { "let" };
                let _ = writeln!(self.text, "{word} {name} = {value};");
                self.variables.push((name, ty, changes));
            }
            2 | 3 => {
                let ty =
                    [Ty::Int, Ty::Int, Ty::Bool, Ty::Variant, Ty::Record][self.random.below(5)];
                if let Some(name) = self.variable(ty, true) {
                    let value = self.expr(ty);
                    let _ = writeln!(self.text, "{name} = {value};");
                }
            }
            4 => {
                let (of, value) = (self.expr(Ty::Array), self.expr(Ty::Int));
                let at = self.random.below(3);
                let _ = writeln!(self.text, "{of}[{at}] = {value};");
                if let Some(bytes) = self.variable(Ty::Bytes, false) {
                    let (at, value) = (self.expr(Ty::Int), self.expr(Ty::Int));
                    let _ = writeln!(
                        self.text,
                        "if ({at} == 1) {{ {bytes}[{at}] = {value} & 300; }}"
                    );
                }
            }
            5 => {
                let (of, value) = (self.expr(Ty::Record), self.expr(Ty::Variant));
                let _ = writeln!(self.text, "{of}.shape = {value};");
            }
            6 | 7 => {
                let condition = self.expr(Ty::Bool);
                let _ = write!(self.text, "if ({condition}) ");
                self.deep = deep;
                self.block(2);
                if self.random.below(2) == 0 {
                    self.text.push_str("else ");
                    self.block(2);
                }
            }
            8 => {
                let name = self.name();
                let (from, to) = (self.random.below(3), self.random.below(6));
                let _ = write!(self.text, "for {name} in {from}..{to} ");
                self.variables.push((name, Ty::Int, false));
                self.loops += 1;
                self.deep = deep;
                self.block(3);
                self.loops -= 1;
                self.variables.pop();
            }
            9 => {
                let value = self.expr(Ty::Variant);
                let _ = writeln!(self.text, "match ({value}) {{");
                self.deep = deep;
                let outer = self.variables.len();
                let (a, b, c) = (self.name(), self.name(), self.name());
                let _ = write!(self.text, "Two({a}, _, {b}) => ");
                self.variables.push((a, Ty::Variant, false));
                self.variables.push((b, Ty::Bool, false));
                self.block(2);
                self.variables.truncate(outer);
                let _ = write!(self.text, "One({c}) => ");
                self.variables.push((c, Ty::Int, false));
                self.block(2);
                self.variables.truncate(outer);
                match self.random.below(2) {
                    0 => {
                        self.text.push_str("_ => ");
                        self.block(1);
                    }
                    _ => {
                        let r = self.name();
                        let _ = write!(self.text, "Rec({r}) => ");
                        self.variables.push((r, Ty::Record, false));
                        self.block(2);
                        self.variables.truncate(outer);
                        self.text.push_str("Empty => {}\n");
                    }
                }
                self.text.push_str("}\n");
            }
            _ => {
                let value = self.expr(Ty::Int);
                let leave = match (self.loops, self.random.below(3)) {
                    (1.., 0) => "break;".into(),
                    (1.., 1) => "continue;".into(),
                    _ => format!("return {value};"),
                };
                let condition = self.expr(Ty::Bool);
                let _ = writeln!(self.text, "if ({condition}) {{ {leave} }}");
            }
        }
        self.deep = deep;
    }

    fn program(seed: u64) -> String {
        let mut it = Maker {
            random: Random(seed | 1),
            text: HEAD.into(),
            variables: Vec::new(),
            names: 0,
            functions: 0,
            deep: 0,
            loops: 0,
            nameless: false,
        };
        it.text
            .push_str("fn twice(n: int): int { return n + n; }\n");
        it.text.push_str("fn less(n: int): int { return n - 1; }\n");
        for f in 0..2 {
            let _ = writeln!(it.text, "fn f{f}(a: int, b: V, c: [int]): int {{");
            for (name, ty) in [("a", Ty::Int), ("b", Ty::Variant), ("c", Ty::Array)] {
                it.variables.push((name.into(), ty, false));
            }
            for _ in 0..4 {
                it.stmt();
            }
            let value = it.expr(Ty::Int);
            let _ = writeln!(it.text, "return {value};\n}}");
            it.variables.clear();
            it.functions += 1;
        }
        it.text.push_str("export fn work(n: int): int {\n");
        it.variables.push(("n".into(), Ty::Int, false));
        for _ in 0..8 {
            it.stmt();
        }
        let value = it.expr(Ty::Int);
        let _ = writeln!(it.text, "return {value};\n}}");
        it.text
    }
}

#[test]
fn random_programs_compute_as_modules_what_they_compute_as_they_are_written() {
    if let Some(what) = tane_checked_run::lacks() {
        return tane_test_support::skip(what);
    }
    let options = Options {
        heap: 1 << 20,
        lines: true,
    };
    let (count, seed) = (number("TANE_PROGRAMS", 150), number("TANE_SEED", 1));
    let (mut gave, mut failed, mut long) = (0, 0, 0);
    for i in 0..count {
        let source = Maker::program(seed.wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let module = build("r.tl", &source, options).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let laid_out = format("r.tl", &source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert_eq!(
            format("r.tl", &laid_out),
            Ok(laid_out.clone()),
            "laid out twice"
        );
        let other = build(
            "r.tl",
            &laid_out,
            Options {
                lines: false,
                ..options
            },
        );
        let plain = build(
            "r.tl",
            &source,
            Options {
                lines: false,
                ..options
            },
        );
        assert_eq!(other, plain, "what is laid out is another program");
        let mut instance = Instance::new(&module, 4096, Vec::new()).expect("an instance");
        for n in [0_i64, 1, -3] {
            let (written, _) = interpret("r.tl", &source, "work", &[n], 100_000).expect("right");
            if written == Err(Ended::Long) {
                long += 1;
                continue;
            }
            let result = instance.call("work", &[n as u64]).expect("exported");
            let expected = match written {
                Ok(n) => Ok(n as u64),
                Err(Ended::Failed) => Err(Trap::Unreachable),
                Err(Ended::Divided) => Err(Trap::Divide),
                Err(_) => Err(Trap::Memory),
            };
            assert_eq!(
                result, expected,
                "program {i} of seed {seed}, {n}:\n{source}"
            );
            match result {
                Ok(_) => gave += 1,
                Err(_) => failed += 1,
            }
        }
    }
    println!("{gave} gave a number, {failed} failed, {long} took too long");
    assert!(gave > 50 && failed > 50, "{gave} {failed}");
}
