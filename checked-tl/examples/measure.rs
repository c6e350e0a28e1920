//! Figures of docs/checked.md: programs of TL as modules beside the same in C by gcc -O2, in
//! turns; how large types are, and how fast a typed module is checked.
//!
//! usage: cargo run --release -p tane-checked-tl --example measure

#[path = "../../checked-build/examples/common/native.rs"]
mod native;

use native::native;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use tane_checked::{check_with, imported, runtime, Module};
use tane_checked_run::Instance;
use tane_checked_tl::tl::{build, Options};

const PROGRAMS: [&str; 6] = ["sieve", "sort", "crc", "queens", "matrix", "tree"];
const TURNS: u32 = 200;

fn least<T>(best: &mut Duration, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = black_box(work());
    *best = (*best).min(began.elapsed());
    result
}

/// Bytes of code behind the routines, and of types.
fn sizes(module: &Module<'_>) -> (usize, usize) {
    let signatures: Vec<_> = module.imports.iter().filter_map(|n| imported(n)).collect();
    let routines = runtime(&module.layout, module.zeroes, &signatures);
    let types = module.types.map_or(0, <[u8]>::len);
    (module.code.len() - routines.code.len(), types)
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/measure");
    let (mut sum, mut code, mut types) = (0.0, 0, 0);
    let options = Options {
        heap: 4 << 20,
        lines: false,
    };
    for name in PROGRAMS {
        let source = std::fs::read_to_string(folder.join(format!("{name}.tl"))).expect("a program");
        let file = build(name, &source, options).unwrap_or_else(|e| panic!("{e}"));
        let mut instance = Instance::new(&file, 4096, Vec::new()).expect("an instance");
        let work = native(&folder.join(format!("{name}.c")), &[]);
        let (mut typed, mut plain) = (Duration::MAX, Duration::MAX);
        for n in 0..TURNS {
            let n = u64::from(n);
            let a = least(&mut typed, || {
                let result = instance.call("work", &[n]);
                result.expect("exported").expect("no trap")
            });
            // SAFETY: it only computes.
            let b = least(&mut plain, || unsafe { work(n) });
            assert_eq!(a, b, "{name} {n}");
        }
        let module = Module::parse(&file).expect("a module");
        let size = sizes(&module);
        (code, types) = (code + size.0, types + size.1);
        let ratio = typed.as_secs_f64() / plain.as_secs_f64();
        sum += ratio.ln();
        println!(
            "{name:8} TL {typed:>10.2?}  gcc -O2 {plain:>10.2?}  ratio {ratio:.2}  code {} types {}",
            size.0, size.1
        );
    }
    let mean = (sum / PROGRAMS.len() as f64).exp();
    let share = 100.0 * types as f64 / code as f64;
    println!("geometric mean {mean:.2}; {types} bytes of types for {code} of code, {share:.0} %");
    checking(&folder);
}

/// A program of many functions, which are the same.
fn checking(folder: &Path) {
    const COPIES: usize = 2000;
    let source = std::fs::read_to_string(folder.join("tree.tl")).expect("a program");
    let (head, rest) = source.split_once("fn insert").expect("functions");
    let (functions, _) = rest.split_once("export").expect("functions");
    let mut all = head.to_owned();
    let mut calls = String::new();
    for i in 0..COPIES {
        let copy = format!("fn insert{functions}");
        let copy = copy.replace("insert(", &format!("insert{i}("));
        all.push_str(&copy.replace("sum(", &format!("sum{i}(")));
        calls.push_str(&format!("    s = s + sum{i}(insert{i}(e, s, e));\n"));
    }
    let main = calls.lines().collect::<Vec<_>>();
    for (i, part) in main.chunks(100).enumerate() {
        let part = part.join("\n");
        all.push_str(&format!(
            "export fn m{i}(n: int): int {{\n    let e = Leaf;\n    var s = n;\n{part}\n    return s;\n}}\n"
        ));
    }
    let options = Options {
        heap: 4 << 20,
        lines: false,
    };
    let file = build("many", &all, options).unwrap_or_else(|e| panic!("{e}"));
    let module = Module::parse(&file).expect("a module");
    let (mut best, mut instructions) = (Duration::MAX, 0);
    check_with(&module, |_| instructions += 1).expect("it keeps the rules");
    for _ in 0..20 {
        least(&mut best, || {
            check_with(&module, |_| {}).expect("it keeps the rules")
        });
    }
    let (code, types) = (module.code.len(), module.types.map_or(0, <[u8]>::len));
    let speed = code as f64 / best.as_secs_f64() / 1e6;
    println!("checking {code} bytes, {types} of types, {instructions} instructions: {best:.2?}, {speed:.0} MB/s");
}
