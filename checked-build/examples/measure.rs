//! Figures of docs/checked.md: the programs of the tests as modules and natively, in
//! turns, and how fast a module is checked.
//!
//! usage: cargo run --release -p tane-checked-build --example measure

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tane_checked::{check_with, Layout, Module};
use tane_checked_build::{build, Options};
use tane_checked_run::Instance;

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

type Work = unsafe extern "C" fn(u64) -> u64;

/// The same source as a library of this process.
fn native(source: &Path) -> Work {
    // dlopen knows libraries by their names.
    let name = source.file_stem().expect("a name").to_string_lossy();
    let name = format!("tane-measure-{}-{name}.so", std::process::id());
    let library = std::env::temp_dir().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-O2",
        "-fno-math-errno",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ]);
    gcc.args(["-Dwork=__attribute__((visibility(\"default\")))work", "-o"]);
    let done = gcc.arg(&library).arg(source).arg("-lm").status();
    assert!(done.expect("gcc").success());
    let name = std::ffi::CString::new(library.to_str().expect("UTF-8")).expect("no zero");
    // SAFETY: a library of our own, which stays.
    let work = unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        libc::dlsym(library, c"work".as_ptr())
    };
    let _ = std::fs::remove_file(&library);
    assert!(!work.is_null());
    // SAFETY: the function has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, Work>(work) }
}

fn least(best: &mut Duration, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    *best = (*best).min(began.elapsed());
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut sum = 0.0;
    for (name, n) in PROGRAMS {
        let source = folder.join(format!("{name}.c"));
        let module = build(&[&source], &Options::default()).expect("a module");
        let mut instance = Instance::new(&module, 1 << 20, Vec::new()).expect("an instance");
        let work = native(&source);
        let (mut guarded, mut plain) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            least(&mut guarded, || {
                black_box(instance.call("work", &[n]))
                    .expect("exported")
                    .expect("no trap");
            });
            // SAFETY: it only computes.
            least(&mut plain, || {
                black_box(unsafe { work(n) });
            });
        }
        let ratio = guarded.as_secs_f64() / plain.as_secs_f64();
        sum += ratio.ln();
        println!("{name:8} guarded {guarded:>10.2?}  native {plain:>10.2?}  ratio {ratio:.3}");
    }
    println!("geometric mean {:.3}", (sum / PROGRAMS.len() as f64).exp());
    checking(&folder);
}

/// A module of many copies of a program's code, which has nothing beside it.
fn checking(folder: &Path) {
    const COPIES: usize = 5000;
    let file = build(&[&folder.join("machine.c")], &Options::default()).expect("a module");
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
