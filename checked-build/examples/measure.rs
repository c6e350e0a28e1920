//! Figures of docs/checked.md: the programs of the tests as modules and natively, in
//! turns, and how fast a module is checked.
//!
//! usage: cargo run --release -p tane-checked-build --example measure

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tane_checked_build::{build, Options};
use tane_checked_run::Instance;

const PROGRAMS: [(&str, u64); 7] = [
    ("sort", 3),
    ("crc", 10),
    ("matrix", 5),
    ("queens", 5),
    ("values", 2000),
    ("bytes", 50),
    ("machine", 100),
];
const TURNS: u32 = 300;

type Work = unsafe extern "C" fn(u64) -> u64;

/// The same source as a library of this process.
fn native(source: &Path) -> Work {
    let library = std::env::temp_dir().join(format!("tane-measure-{}.so", std::process::id()));
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

/// A module of many copies of a program's code.
fn checking(folder: &Path) {
    let module = build(&[&folder.join("values.c")], &Options::default()).expect("a module");
    let module = tane_checked::Module::parse(&module).expect("a module");
    let own_data = |step: &tane_checked::Step| matches!(step.why, tane_checked::Why::OwnData(_));
    let mut moved = Vec::new();
    tane_checked::check_with(&module, |step| {
        moved.extend(own_data(step).then_some(step.at))
    })
    .expect("it was checked");
    // What is beside the code is farther away from each copy: copies until that ends.
    let copies = if moved.is_empty() { 2000 } else { 1 };
    let code = module.code.repeat(copies);
    let many = tane_checked::Module {
        layout: tane_checked::Layout::new(
            code.len() as u64,
            module.table.len() as u64,
            module.read_only.len() as u64,
            module.data.len() as u64 + u64::from(module.zeroes),
        )
        .expect("small"),
        code: &code,
        heights: Vec::new(),
        ..module.clone()
    };
    let mut best = Duration::MAX;
    for _ in 0..20 {
        least(&mut best, || {
            let _ = black_box(tane_checked::check_with(&many, |_| {}));
        });
    }
    println!("checking {} bytes: {best:.2?}", code.len());
}
