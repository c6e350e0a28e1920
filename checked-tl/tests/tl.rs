//! Programs of TL compute as modules what they compute as they are written.

mod common;

use common::run;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tane_checked::check_with;
use tane_checked::Module;
use tane_checked_run::{Import, Instance, Trap};
use tane_checked_tl::asm;
use tane_checked_tl::tl::{assembly, build, interpret, Ended, Options};

fn can_run() -> bool {
    match tane_checked_run::lacks() {
        Some(what) => tane_test_support::skip(what),
        None => return true,
    }
    false
}

fn options() -> Options {
    Options {
        heap: 1 << 20,
        lines: true,
    }
}

fn source(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    std::fs::read_to_string(folder.join(format!("{name}.tl"))).expect("a program")
}

#[test]
fn programs_compute_as_modules_what_they_compute_as_they_are_written() {
    if !can_run() {
        return;
    }
    for name in ["sort", "tree", "sieve", "words", "closures", "generic"] {
        let source = source(name);
        let module = build(name, &source, options()).unwrap_or_else(|e| panic!("{e}"));
        for n in [0, 1, 7, 40] {
            let written = interpret(name, &source, "work", &[n], 10_000_000).expect("it is right");
            let (result, printed) = run(&module, "work", &[n as u64]);
            let result = result.map(|n| n as i64);
            assert_eq!(Ok(result.expect("no trap")), written.0, "{name} {n}");
            assert_eq!(printed, written.1, "{name} {n}");
        }
    }
}

#[test]
fn a_program_printed_as_assembly_and_assembled_is_the_same_module() {
    for name in ["sort", "tree", "sieve", "words", "closures", "generic"] {
        let options = Options {
            lines: false,
            ..options()
        };
        let program = assembly(name, &source(name), options).unwrap_or_else(|e| panic!("{e}"));
        let file = asm::link(&program).expect("it is linked");
        let module = Module::parse(&file).expect("a module");
        let text = asm::print(&module).expect("it has text");
        let again = asm::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(asm::link(&again).expect("it is linked"), file, "{text}");
    }
}

#[test]
fn types_are_told_of_every_instruction_behind_the_routines() {
    let file = build("tree", &source("tree"), options()).unwrap_or_else(|e| panic!("{e}"));
    let module = Module::parse(&file).expect("a module");
    let (mut told, mut all) = (0, 0);
    check_with(&module, |step| {
        all += 1;
        told += usize::from(step.types.is_some());
    })
    .expect("it keeps the rules");
    assert!(told > 100 && all - told < 100, "{told} of {all}");
}

#[test]
fn every_failure_is_a_trap_at_its_line() {
    if !can_run() {
        return;
    }
    let source = "export fn work(n: int): int {
    let all = [1, 2, 3];
    let some = bytes(3);
    if n == 0 {
        return all[3];
    }
    if n == 1 {
        return all[-1];
    }
    if n == 2 {
        return 9223372036854775807 + n;
    }
    if n == 3 {
        return 9 / (n - 3);
    }
    if n == 4 {
        return -9223372036854775808 / (3 - n);
    }
    if n == 5 {
        some[1] = 256;
    }
    if n == 6 {
        return 1 << (n + 58);
    }
    if n == 7 {
        return len(bytes(1000000000));
    }
    if n == 8 {
        return -(-9223372036854775808 + n - 8);
    }
    if n == 9 {
        return 4611686018427387904 * (n - 7);
    }
    some[2] = 255;
    return some[2];
}
";
    let module = build("t.tl", source, options()).unwrap_or_else(|e| panic!("{e}"));
    for (n, trap, ended, line) in [
        (0, Trap::Unreachable, Ended::Failed, 5),
        (1, Trap::Unreachable, Ended::Failed, 8),
        (2, Trap::Unreachable, Ended::Failed, 11),
        (3, Trap::Divide, Ended::Divided, 14),
        (4, Trap::Divide, Ended::Divided, 17),
        (5, Trap::Unreachable, Ended::Failed, 20),
        (6, Trap::Unreachable, Ended::Failed, 23),
        (7, Trap::Memory, Ended::Memory, 0),
        (8, Trap::Unreachable, Ended::Failed, 29),
        (9, Trap::Unreachable, Ended::Failed, 32),
    ] {
        let mut instance = Instance::new(&module, 4096, Vec::new()).expect("an instance");
        assert_eq!(
            instance.call("work", &[n]).expect("exported"),
            Err(trap),
            "{n}"
        );
        let place = instance.place().expect("a place");
        if line > 0 {
            assert_eq!(place.line, Some(("t.tl".to_owned(), line)), "{n}");
        }
        let (written, _) = interpret("t.tl", source, "work", &[n as i64], 1000).expect("right");
        assert_eq!(written, Err(ended), "{n}");
        assert_eq!(
            instance.call("work", &[10]).expect("exported"),
            Ok(255),
            "after {n}"
        );
    }
}

#[test]
fn each_call_begins_with_a_heap_that_is_free_and_zero() {
    if !can_run() {
        return;
    }
    let source = "export fn work(n: int): int {
    let some = bytes(600000);
    var sum = 0;
    for i in 0..len(some) {
        sum = sum + some[i];
        some[i] = n;
    }
    return sum;
}
";
    let module = build("t.tl", source, options()).unwrap_or_else(|e| panic!("{e}"));
    let mut instance = Instance::new(&module, 4096, Vec::new()).expect("an instance");
    for n in [7, 255, 256, 1] {
        let expected = if n > 255 {
            Err(Trap::Unreachable)
        } else {
            Ok(0)
        };
        assert_eq!(instance.call("work", &[n]).expect("exported"), expected);
    }
}

/// What `openat` and its kin were given.
type Given = Arc<Mutex<Vec<[u64; 6]>>>;

fn with_imports(source: &str, names: &[&'static str]) -> (Instance, Given) {
    let module = build("t.tl", source, options()).unwrap_or_else(|e| panic!("{e}"));
    let given: Given = Arc::default();
    let import = |name: &'static str| {
        let given = Arc::clone(&given);
        let import: Import = Box::new(move |arguments, _| {
            given.lock().expect("no panic").push(arguments);
            // What openat gives; an error after the first.
            if given.lock().expect("no panic").len() == 1 {
                7
            } else {
                -2_i64 as u64
            }
        });
        (name, import)
    };
    let imports = names.iter().map(|name| import(name)).collect();
    let instance = Instance::new(&module, 4096, imports).expect("an instance");
    (instance, given)
}

#[test]
fn imports_get_ranges_that_are_within_their_arrays() {
    if !can_run() {
        return;
    }
    let source = "export fn work(start: int, length: int): int {
    let all = bytes(8);
    all[0] = 'x';
    return tane_input(all, start, length);
}
export fn path(end: int, length: int): int {
    let all = bytes(8);
    for i in 0..8 {
        all[i] = 'x';
    }
    if end >= 0 {
        all[end] = 0;
    }
    return number(openat(all, 0, length, 0, 0));
}
";
    let (mut instance, given) = with_imports(source, &["tane_input", "openat"]);
    let start = u64::from(instance_data(&instance));
    for (at, length, fits) in [
        (0, 8, true),
        (3, 5, true),
        (8, 0, true),
        (0, 0, true),
        (0, 9, false),
        (8, 1, false),
        (9, 0, false),
        (-1, 1, false),
        (1, -1, false),
        (i64::MAX, i64::MAX, false),
        (i64::MIN, i64::MIN, false),
        (-8, 16, false),
        (4, i64::MIN, false),
    ] {
        given.lock().expect("no panic").clear();
        let result = instance
            .call("work", &[at as u64, length as u64])
            .expect("exported");
        let given = given.lock().expect("no panic").clone();
        if fits {
            assert_eq!(result, Ok(7), "{at} {length}");
            // Behind the heap's word, a class and a length.
            assert_eq!(given[0][..2], [start + 24 + at as u64, length as u64]);
        } else {
            assert_eq!(result, Err(Trap::Memory), "{at} {length}");
            assert!(given.is_empty(), "{at} {length}");
        }
    }
    for (end, length, fits) in [
        (7, 8, true),
        (3, 4, true),
        (0, 1, true),
        (-1, 8, false),
        (3, 8, false),
        (7, 7, false),
        (0, 0, false),
        (-1, 0, false),
        (7, 9, false),
    ] {
        given.lock().expect("no panic").clear();
        let result = instance
            .call("path", &[end as u64, length as u64])
            .expect("exported");
        let given = given.lock().expect("no panic").clone();
        assert_eq!(result.is_ok(), fits, "{end} {length}");
        assert_eq!(given.len(), usize::from(fits), "{end} {length}");
        if fits {
            assert_eq!((given[0][0] as i64, given[0][1]), (-100, start + 24));
        }
    }
}

/// Where its heap begins.
fn instance_data(instance: &Instance) -> u32 {
    // Behind the data there is nothing but the rest of the last page.
    (instance.heap() - (1 << 20)) as u32 & !4095
}

#[test]
fn a_descriptor_is_what_the_kernel_gave_and_nothing_is_no_descriptor() {
    if !can_run() {
        return;
    }
    let source = "record Open { file: file, all: [file] }
export fn work(n: int): int {
    let first = openat(\"a\\0\", 0, 2, 0, 0);
    let kept = Open { file: first, all: [first; 3] };
    let second = openat(\"a\\0\", 0, 2, 0, 0);
    read(kept.all[2], bytes(3), 0, 3);
    close(kept.file);
    close(second);
    return number(first) * 100 + number(second);
}
";
    let (mut instance, given) = with_imports(source, &["openat", "read", "close"]);
    assert_eq!(instance.call("work", &[0]).expect("exported"), Ok(698));
    let given = given.lock().expect("no panic").clone();
    let first: Vec<i64> = given.iter().map(|all| all[0] as i64).collect();
    assert_eq!(first, [-100, -100, 7, 7, -2]);
}
