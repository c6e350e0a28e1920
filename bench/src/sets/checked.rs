//! Checked code: what a call into a module, an instance and the check cost, its system calls
//! beside the library's and the host's, and programs beside the same ones of gcc -O2.

use crate::kernel::{boot, Host, Kernel, Ours, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{batches, race, Contestant, BATCHES};
use crate::report::{Report, HOST, TANE};
use crate::target::Target::{self, AtMost};
use crate::tool;
use std::ffi::CString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tane_checked::check_with;
use tane_checked_build::{build, Options};
use tane_checked_run::{Calls, Checked, Function, Instance, Linux};

const NATIVE: &str = "gcc -O2";
const LIBRARY: &str = "library";
const HEAP: u64 = 1 << 20;
/// Of code that is checked, one module after the other.
const MEGABYTE: usize = 1_000_000;

const SMALL: &str = "\
#include <tane/module.h>
long nothing(void) { return 0; }
long parents(long n) { long sum = 0; while (n--) sum += getppid(); return sum; }
";
/// Name, what it is, its source, and what its function is given.
const PROGRAMS: [(&str, &str, &str, u64); 3] = [
    (
        "checked-sort",
        "sorting by function pointers",
        include_str!("../../../checked-build/tests/programs/sort.c"),
        1,
    ),
    (
        "checked-crc",
        "a table look-up for each byte",
        include_str!("../../../checked-build/tests/programs/crc.c"),
        2,
    ),
    (
        "checked-machine",
        "an interpreter",
        include_str!("../../../checked-build/tests/programs/machine.c"),
        10,
    ),
];

pub fn promises() -> Vec<Promise> {
    let row =
        |name: &str, what: &str, unit, target| Promise::new(name, Set::Checked, what, unit, target);
    let mut rows = vec![
        row("checked-call", "a call into a module", "ns", AtMost(10.0)),
        row(
            "checked-instance",
            "an instance, made and ended",
            "µs",
            AtMost(50.0),
        ),
        row(
            "checked-getppid",
            "getppid from a module",
            "ns",
            Target::Faster(5.0),
        ),
        row("checked-check", "checking 1 MB of code", "ms", AtMost(20.0)),
    ];
    // The worst is to be 1.25 times as slow.
    let target = || Target::than(NATIVE, 0.8);
    rows.extend(PROGRAMS.map(|(name, what, ..)| row(name, what, "µs", target())));
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    if let Some(what) = tane_checked_run::lacks() {
        return Err(what.into());
    }
    match promise.name.as_str() {
        "checked-call" => calls(promise, paths, report),
        "checked-instance" => instances(promise, paths, report),
        "checked-getppid" => parents(promise, paths, report),
        "checked-check" => checking(promise, paths, report),
        name => {
            let found = PROGRAMS.iter().find(|program| program.0 == name);
            let (_, _, source, n) = found.ok_or("no such program")?;
            program(promise, paths, report, source, *n)
        }
    }
}

fn source(paths: &Paths, text: &str) -> Result<PathBuf, String> {
    let path = paths.scratch.join("module.c");
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn module(paths: &Paths, text: &str) -> Result<Checked, String> {
    let options = Options {
        imports: vec!["getppid".into()],
        ..Options::default()
    };
    let file = build(&[&source(paths, text)?], &options).map_err(|e| e.to_string())?;
    Checked::new(file).map_err(|e| e.to_string())
}

fn instance(module: &Checked, kernel: Option<&Ours>) -> Result<Instance, String> {
    let told = |e| format!("{e:?}");
    let of = Instance::of(module, HEAP, Calls::without_files(), Vec::new());
    let mut instance = of.map_err(told)?;
    if let Some(Ours(kernel)) = kernel {
        let linux = Linux {
            kernel,
            directory: None,
            descriptors: 1,
        };
        instance.connect(linux).map_err(told)?;
    }
    Ok(instance)
}

pub fn function(instance: &Instance, name: &str) -> Result<Function, String> {
    instance
        .function(name)
        .ok_or_else(|| format!("no function {name}"))
}

/// What it gave; -1 for a trap.
fn call(instance: &mut Instance, function: Function, argument: u64) -> i64 {
    match instance.call_function(function, &[argument]) {
        Ok(Ok(value)) => black_box(value) as i64,
        _ => -1,
    }
}

/// Without system calls, so that no kernel has a say.
const NOTHING: &str = "long nothing(void) { return 0; }\n";

fn calls(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let mut instance = instance(&module(paths, NOTHING)?, None)?;
    let nothing = function(&instance, "nothing")?;
    let contestants = vec![Contestant::new(
        TANE,
        batches(move || call(&mut instance, nothing, 0)),
    )];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

fn instances(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let module = module(paths, NOTHING)?;
    let micro = |mut each: Box<dyn FnMut() -> Result<f64, String>>| move || Ok(each()? / 1e3);
    let make = move || instance(&module, None).map_or(-1, |made| drop_it(black_box(made)));
    // SAFETY: the child does nothing but end.
    let fork = || unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => i64::from(libc::waitpid(child, std::ptr::null_mut(), 0)),
        }
    };
    let contestants = vec![
        Contestant::new(TANE, micro(Box::new(batches(make)))),
        Contestant::new(
            "a process, forked and waited for",
            micro(Box::new(batches(fork))),
        ),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

fn drop_it(made: Instance) -> i64 {
    drop(made);
    0
}

fn parents(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    const CALLS: u64 = 100_000;
    let kernel = boot(paths, "default", 1, RAM)?;
    let module = module(paths, SMALL)?;
    let mut of = instance(&module, Some(&kernel))?;
    let parents = function(&of, "parents")?;
    let each = |start: Instant| start.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
    let from_module = || {
        let start = Instant::now();
        match call(&mut of, parents, CALLS) {
            0 => Ok(each(start)),
            _ => Err("it failed".into()),
        }
    };
    // SAFETY: no pointers.
    let library = || unsafe { kernel.call(libc::SYS_getppid, [0; 6]) };
    // SAFETY: as above.
    let host = || unsafe { Host.call(libc::SYS_getppid, [0; 6]) };
    let contestants = vec![
        Contestant::new(TANE, from_module),
        Contestant::new(LIBRARY, batches(library)),
        Contestant::new(HOST, batches(host)),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

/// Copies of a program's code, one behind the other, which have nothing beside them.
fn checking(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let (_, _, text, _) = PROGRAMS[2];
    let checked = module(paths, text)?;
    let one = checked.module();
    let copies = MEGABYTE / one.code.len();
    let check = || {
        let start = Instant::now();
        for _ in 0..copies {
            check_with(&one, |_| {}).map_err(|e| e.to_string())?;
        }
        Ok(tool::ms(start))
    };
    race(
        promise,
        report.runs * BATCHES,
        vec![Contestant::new(TANE, check)],
        report,
    );
    Ok(())
}

pub type Work = unsafe extern "C" fn(u64) -> u64;

/// The same source as a library of this process, which knows those that it has by their names.
pub fn native(paths: &Paths, name: &str, text: &str, more: &[&str]) -> Result<Work, String> {
    let library = paths.scratch.join(format!("{name}.so"));
    let source = source(paths, text)?;
    let words = [
        "-O2",
        "-fno-math-errno",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ];
    let mut gcc = tool::command(&tool::need("gcc", "gcc")?, words);
    gcc.args(more)
        .arg("-Dwork=__attribute__((visibility(\"default\")))work");
    tool::output(gcc.arg("-o").args([&library, &source]).arg("-lm"))?;
    let work = loaded(&library);
    let _ = std::fs::remove_file(&library);
    work
}

fn loaded(library: &Path) -> Result<Work, String> {
    let name = CString::new(library.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a library of our own, which stays, and a function of that type.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return Err("gcc's library cannot be loaded".into());
        }
        let work = libc::dlsym(library, c"work".as_ptr());
        match work.is_null() {
            true => Err("gcc's library has no function".into()),
            false => Ok(std::mem::transmute::<*mut libc::c_void, Work>(work)),
        }
    }
}

fn program(
    promise: &Promise,
    paths: &Paths,
    report: &mut Report,
    text: &str,
    n: u64,
) -> Result<(), String> {
    let mut of = instance(&module(paths, text)?, None)?;
    let (guarded, work) = (
        function(&of, "work")?,
        native(paths, &promise.name, text, &[])?,
    );
    let micro = |start: Instant| start.elapsed().as_secs_f64() * 1e6;
    // SAFETY: it only computes.
    let expected = unsafe { work(n) };
    let checked = || {
        let start = Instant::now();
        match call(&mut of, guarded, n) as u64 == expected {
            true => Ok(micro(start)),
            false => Err("another result than gcc's".into()),
        }
    };
    let plain = || {
        let start = Instant::now();
        // SAFETY: as above.
        black_box(unsafe { work(n) });
        Ok(micro(start))
    };
    let contestants = vec![
        Contestant::new(TANE, checked),
        Contestant::new(NATIVE, plain),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}
