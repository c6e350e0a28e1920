//! C becomes a module that computes what the same C computes natively, and whose faults
//! are traps.

mod common;

use common::can_run;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tane_checked_build::{build, Options};
use tane_checked_run::{Error, Import, Instance, Trap};

const HEAP: u64 = 1 << 20;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// What gcc -O2 and the processor make of it.
fn native(source: &Path, n: u64) -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("native-{}-{next}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let main = program.with_extension("c");
    let text = format!(
        "#include <stdio.h>\nunsigned long work(unsigned long);\n\
         int main(void) {{ printf(\"%lu\\n\", work({n})); return 0; }}\n"
    );
    std::fs::write(&main, text).expect("a source");
    let gcc = Command::new("gcc")
        .args(["-O2", "-fno-math-errno"])
        .arg("-o")
        .args([&program, &main])
        .arg(source)
        .status();
    assert!(gcc.expect("gcc").success());
    let output = Command::new(&program).output().expect("the program");
    let _ = (std::fs::remove_file(&main), std::fs::remove_file(&program));
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number")
}

/// The module of a program and the program itself compute the same.
fn computes_the_same(name: &str, n: u64, gcc: &[&str]) {
    let source = source(&format!("programs/{name}.c"));
    let options = Options {
        gcc: gcc.iter().map(|word| (*word).into()).collect(),
        ..Options::default()
    };
    let module = build(&[&source], &options).unwrap_or_else(|e| panic!("{name} {gcc:?}: {e}"));
    let mut instance = Instance::new(&module, HEAP, Vec::new()).expect("an instance");
    let result = instance.call("work", &[n]).expect("it is exported");
    assert_eq!(result, Ok(native(&source, n)), "{name} {gcc:?}");
}

#[test]
fn programs_compute_what_they_compute_natively() {
    if !can_run() {
        return;
    }
    for name in [
        "sort", "crc", "matrix", "queens", "values", "bytes", "moves", "machine", "ways", "bits",
        "frames",
    ] {
        computes_the_same(name, 3, &[]);
    }
}

#[test]
fn a_module_of_c_plus_plus_computes_what_it_says() {
    if !can_run() {
        return;
    }
    for level in ["-O0", "-O2", "-Os", "-O3"] {
        let options = Options {
            gcc: vec![level.into()],
            ..Options::default()
        };
        let module = build(&[&source("programs/shapes.cpp")], &options);
        let module = module.unwrap_or_else(|e| panic!("{level}: {e}"));
        let mut instance = Instance::new(&module, HEAP, Vec::new()).expect("an instance");
        let result = instance.call("work", &[5]).expect("it is exported");
        // 5 * 5, 3 * 2 * 2, and what was counted.
        assert_eq!(result, Ok(25 + 12 + 11), "{level}");
    }
}

#[test]
fn whatever_gcc_takes_for_c_plus_plus_by_its_name_is_built_as_such() {
    let shapes = source("programs/shapes.cpp");
    for ending in ["C", "cc", "cp", "CPP", "cxx", "c++"] {
        let name = format!("shapes-{}.{ending}", std::process::id());
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::copy(&shapes, &copy).expect("a copy");
        let module = build(&[&copy], &Options::default());
        let _ = std::fs::remove_file(&copy);
        assert!(module.is_ok(), "{ending}: {:?}", module.err());
    }
}

#[test]
fn they_do_so_however_gcc_optimises() {
    if !can_run() {
        return;
    }
    for name in [
        "sort", "matrix", "queens", "values", "bytes", "moves", "machine", "ways", "bits",
    ] {
        for level in ["-O0", "-O1", "-Os", "-Oz", "-O3"] {
            computes_the_same(name, 2, &[level]);
        }
    }
    for level in ["-O1", "-O2", "-Os", "-Oz"] {
        for name in ["ways", "bits"] {
            computes_the_same(name, 2, &[level, "-fno-omit-frame-pointer"]);
        }
    }
}

fn traps() -> Instance {
    let imports = ["twice", "sum"].map(str::to_owned).into();
    let options = Options {
        imports,
        ..Options::default()
    };
    let module = build(&[&source("traps.c")], &options).expect("a module");
    let twice: Import = Box::new(|arguments, _| arguments[0] * 2);
    let sum: Import = Box::new(|arguments, memory| {
        let bytes = memory.read(arguments[0], arguments[1] as usize);
        bytes.map_or(0, |bytes| bytes.iter().map(|b| u64::from(*b)).sum())
    });
    Instance::new(&module, HEAP, vec![("twice", twice), ("sum", sum)]).expect("an instance")
}

#[test]
fn every_fault_is_a_trap_and_the_next_call_goes_well() {
    if !can_run() {
        return;
    }
    let mut instance = traps();
    let end = instance.heap() + HEAP;
    for (name, arguments, trap) in [
        ("memory", &[0][..], Trap::Memory),
        ("memory", &[0xffff], Trap::Memory),
        ("memory", &[end], Trap::Memory),
        ("memory", &[0xffff_ffff], Trap::Memory),
        ("store", &[0x1_0000], Trap::Memory),
        ("constants", &[], Trap::Memory),
        ("deep", &[1], Trap::Stack),
        ("wide", &[1], Trap::Stack),
        ("divide", &[1, 0], Trap::Divide),
        ("divide", &[1 << 63, u64::MAX], Trap::Divide),
        ("unreachable", &[], Trap::Unreachable),
        ("call", &[0], Trap::Call),
    ] {
        let ended = instance.call(name, arguments).expect("it is exported");
        assert_eq!(ended, Err(trap), "{name} {arguments:x?}");
        let well = instance.call("well", &[5]).expect("it is exported");
        assert_eq!(well, Ok(5), "after {name}");
    }
}

#[test]
fn an_address_is_one_of_the_window_whatever_its_upper_half_says() {
    if !can_run() {
        return;
    }
    let mut instance = traps();
    let heap = instance.heap();
    assert_eq!(
        instance.call("store", &[heap | 7 << 32]).expect("exported"),
        Ok(heap | 7 << 32)
    );
    assert_eq!(
        instance.memory().read(heap, 8),
        Some(vec![1, 0, 0, 0, 0, 0, 0, 0])
    );
}

#[test]
fn imports_are_called_directly_and_by_pointer_and_see_memory() {
    if !can_run() {
        return;
    }
    let mut instance = traps();
    let sum: u64 = b"abc".iter().map(|b| u64::from(*b)).sum();
    assert_eq!(
        instance.call("imports", &[20]).expect("exported"),
        Ok(42 + sum)
    );
}

#[test]
fn what_was_not_given_or_is_not_there_is_an_error_with_its_name() {
    if !can_run() {
        return;
    }
    let options = Options {
        imports: vec!["twice".into(), "sum".into()],
        ..Options::default()
    };
    let module = build(&[&source("traps.c")], &options).expect("a module");
    let without = Instance::new(&module, HEAP, Vec::new());
    assert!(matches!(without, Err(Error::Import(name)) if name == "twice"));
    assert!(matches!(traps().call("none", &[]), Err(Error::Export(name)) if name == "none"));
    let error = build(&[&source("traps.c")], &Options::default()).expect_err("imports");
    assert!(error.to_string().contains("--import"), "{error}");
}

#[test]
fn what_cannot_be_guarded_is_an_error_at_its_line() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd.c");
    for (text, line, says) in [
        (
            "int a;\nlong double f(long double x)\n{\n\treturn x * 2;\n}\n",
            3,
            "x87",
        ),
        (
            "__thread int t;\nint f(void) { return t; }\n",
            0,
            "thread-local",
        ),
        (
            "void g(void *);\nvoid f(void)\n{\n\t_Alignas(64) char b[64];\n\tg(b);\n}\n",
            3,
            "aligned",
        ),
        (
            "void f(void)\n{\n\tasm volatile(\"syscall\");\n}\n",
            3,
            "syscall",
        ),
        ("void f(void)\n{\n\tasm volatile(\"cli\");\n}\n", 0, "R2"),
    ] {
        std::fs::write(&scratch, text).expect("a source");
        let options = Options {
            imports: vec!["g".into()],
            ..Options::default()
        };
        let error = build(&[&scratch], &options).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
        if line > 0 {
            assert!(error.contains(&format!("odd.c:{line}:")), "{error}");
        }
    }
}
