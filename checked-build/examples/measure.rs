//! Figures of docs/checked.md: the programs of the tests as modules, of C and of WebAssembly
//! that clang made, and natively, in turns; what an instance and a call cost; and how fast a
//! module is checked.
//!
//! usage: cargo run --release -p tane-checked-build --example measure

#[path = "common/native.rs"]
mod native;

use native::native;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tane_checked::{check_with, Layout, Module};
use tane_checked_build::{build, Options};
use tane_checked_run::{Calls, Checked, Instance};

const PROGRAMS: [(&str, u64); 7] = [
    ("sort", 1),
    ("crc", 2),
    ("matrix", 5),
    ("queens", 5),
    ("values", 100),
    ("bytes", 10),
    ("machine", 10),
];
const TURNS: u32 = 200;

/// The same source as WebAssembly, with numbers as wide as here.
fn wasm(source: &Path) -> Vec<u8> {
    let file = std::env::temp_dir().join(format!("tane-measure-{}.wasm", std::process::id()));
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32-wasi", "-mexec-model=reactor", "-O2"]);
    clang.args([
        "-mbulk-memory",
        "-w",
        "-Dlong=long long",
        "-Wl,--export=work",
    ]);
    // What memcpy and its kin are declared with.
    clang.args(["-U__SIZE_TYPE__", "-D__SIZE_TYPE__=unsigned int", "-o"]);
    let done = clang.arg(&file).arg(source).status();
    assert!(done.expect("clang").success());
    let module = build(&[&file], &Options::default()).expect("a module");
    let _ = std::fs::remove_file(&file);
    module
}

fn least(best: &mut Duration, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    *best = (*best).min(began.elapsed());
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let (mut sum, mut sum_of_wasm) = (0.0, 0.0);
    for (name, n) in PROGRAMS {
        let source = folder.join(format!("{name}.c"));
        let module = build(&[&source], &Options::default()).expect("a module");
        let mut instance = Instance::new(&module, 1 << 20, Vec::new()).expect("an instance");
        let mut of_wasm = Instance::new(&wasm(&source), 4 << 20, Vec::new()).expect("an instance");
        let work = native(&source, &["-fno-math-errno"]);
        let call = |instance: &mut Instance| {
            let result = instance.call("work", &[n]).expect("exported");
            black_box(result.expect("no trap"))
        };
        // SAFETY: it only computes.
        let expected = unsafe { work(n) };
        assert_eq!([call(&mut instance), call(&mut of_wasm)], [expected; 2]);
        let mut best = [Duration::MAX; 3];
        for _ in 0..TURNS {
            least(&mut best[0], || {
                call(&mut instance);
            });
            least(&mut best[1], || {
                call(&mut of_wasm);
            });
            // SAFETY: it only computes.
            least(&mut best[2], || {
                black_box(unsafe { work(n) });
            });
        }
        let [guarded, wasm, plain] = best;
        let ratio = |of: Duration| of.as_secs_f64() / plain.as_secs_f64();
        sum += ratio(guarded).ln();
        sum_of_wasm += ratio(wasm).ln();
        println!(
            "{name:8} guarded {guarded:>10.2?}  wasm {wasm:>10.2?}  native {plain:>10.2?}  \
             ratios {:.3} {:.3}",
            ratio(guarded),
            ratio(wasm)
        );
    }
    let mean = |sum: f64| (sum / PROGRAMS.len() as f64).exp();
    println!("geometric means {:.3} {:.3}", mean(sum), mean(sum_of_wasm));
    instances();
    checking(&folder);
}

/// Making an instance and ending it, and a call of a function that does nothing much, without a
/// limit of time and with one.
fn instances() {
    const CALLS: u32 = 10_000;
    let source = std::env::temp_dir().join(format!("tane-measure-{}.c", std::process::id()));
    std::fs::write(&source, "long nothing(void) { return 0; }\n").expect("a file");
    let file = build(&[&source], &Options::default()).expect("a module");
    let _ = std::fs::remove_file(&source);
    let checked = Checked::new(file).expect("it keeps the rules");
    let make = || Instance::of(&checked, 1 << 20, Calls::default(), Vec::new());
    let (mut made, mut called) = (Duration::MAX, [Duration::MAX; 2]);
    for _ in 0..TURNS {
        least(&mut made, || drop(black_box(make())));
    }
    let mut instance = make().expect("an instance");
    let nothing = instance.function("nothing").expect("exported");
    for best in &mut called {
        for _ in 0..TURNS {
            least(best, || {
                for _ in 0..CALLS {
                    let result = instance.call_function(nothing, &[]).expect("exported");
                    black_box(result).expect("no trap");
                }
            });
        }
        instance.limit(Duration::from_secs(60)).expect("a thread");
    }
    let [free, limited] = called.map(|best| best.as_secs_f64() * 1e9 / f64::from(CALLS));
    println!("an instance {made:.2?}, a call {free:.1} ns, {limited:.1} under a limit");
}

/// A module of many copies of a program's code, which has nothing beside it.
fn checking(folder: &Path) {
    const COPIES: usize = 5000;
    let options = Options {
        gcc: vec!["-fno-jump-tables".into()],
        ..Options::default()
    };
    let file = build(&[&folder.join("machine.c")], &options).expect("a module");
    let one = Module::parse(&file).expect("a module");
    let length = one.code.len();
    let code = one.code.repeat(COPIES);
    let at = |copy: usize| (copy * length) as u32;
    let heights = |copy| {
        one.heights
            .iter()
            .map(move |(place, pushed)| (place + at(copy), *pushed))
    };
    let data = one.data.len() as u64 + u64::from(one.zeroes);
    let sizes = (
        code.len() as u64,
        one.table.len() as u64,
        one.read_only.len() as u64,
    );
    let many = Module {
        layout: Layout::new(sizes.0, sizes.1, sizes.2, data).expect("small"),
        code: &code,
        heights: (0..COPIES).flat_map(heights).collect(),
        ..one.clone()
    };
    let (mut best, mut instructions) = (Duration::MAX, 0);
    check_with(&many, |_| instructions += 1).expect("it keeps the rules");
    for _ in 0..20 {
        least(&mut best, || {
            check_with(&many, |_| {}).expect("it keeps the rules")
        });
    }
    let speed = code.len() as f64 / best.as_secs_f64() / 1e6;
    println!(
        "checking {} bytes, {instructions} instructions: {best:.2?}, {speed:.0} MB/s",
        code.len()
    );
}
