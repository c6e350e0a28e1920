//! Modules that were changed at random are refused, or run without touching anything but
//! their window. Some run on the processor, each in a process of its own that may make no
//! system call, among bytes that must stay: `TANE_MUTANTS` says how many. More run in an
//! emulator that holds each instruction against what the checker has said of it:
//! `TANE_WATCHED` says how many. `TANE_SEED` says which.

#[path = "common/apart.rs"]
mod apart;
mod common;
#[path = "common/watch/mod.rs"]
mod watch;

use apart::{run_mutants, Random};
use common::can_run;
use std::path::Path;
use tane_checked::{Export, Layout, Module};
use tane_checked_build::{build, Options};
use watch::emulator::{skip_without, End, Watched};
use watch::watch;

/// Bits, bytes of elsewhere, or words that name places in the code.
fn mutate(file: &mut [u8], random: &mut Random) {
    let length = file.len();
    match random.below(4) {
        0 | 1 => file[44 + random.below(length - 44)] ^= 1 << random.below(8),
        2 => {
            let bytes = 1 + random.below(8);
            let from = 44 + random.below(length - 44 - bytes);
            let to = 44 + random.below(length - 44 - bytes);
            file.copy_within(from..from + bytes, to);
        }
        _ => {
            // Annotations are behind the code.
            let word = (length - 44) / 4;
            let (a, b) = (random.below(word), random.below(word));
            for i in 0..4 {
                file.swap(44 + a * 4 + i, 44 + b * 4 + i);
            }
        }
    }
}

fn module(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    build(&[&folder.join(format!("{name}.c"))], &Options::default()).expect("a module")
}

#[test]
fn changed_modules_are_refused_or_touch_nothing_but_their_window() {
    if !can_run() {
        return;
    }
    let modules = ["sort", "values", "machine"].map(module);
    run_mutants(&modules, 3, mutate, |_, _| (), |_, (), _| true);
}

const HEAP: u32 = 1 << 16;

#[test]
fn changed_modules_do_nothing_but_what_the_checker_says_of_their_instructions() {
    let names = [
        "sort", "values", "machine", "crc", "matrix", "queens", "bytes", "ways",
    ];
    watch(&names.map(module), HEAP, 3, mutate, |_, _| true);
}

/// A module of code alone, and where its data begins behind the code's first byte.
fn of_code(code: &[u8]) -> Module<'_> {
    Module {
        code,
        table: vec![0],
        read_only: &[0; 16],
        data: &[],
        zeroes: 4096,
        imports: Vec::new(),
        exports: vec![Export {
            name: "work",
            at: 0,
        }],
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 1, 16, 4096).expect("small"),
    }
}

#[test]
fn the_emulator_sees_what_the_checker_has_not_said() {
    let read_only = of_code(&[0; 16]).layout.read_only - of_code(&[0; 16]).layout.code;
    let beside = |distance: u32| [&[0x8b, 0x05], &distance.to_le_bytes()[..]].concat();
    // What the checker is asked about, and what runs in its place.
    let pairs: [(&str, &[u8], &[u8]); 10] = [
        (
            "64 bits of address",
            &[0x65, 0x67, 0x8b, 0x07],
            &[0x3e, 0x65, 0x8b, 0x07],
        ),
        (
            "no segment",
            &[0x65, 0x67, 0x8b, 0x07],
            &[0x3e, 0x67, 0x8b, 0x07],
        ),
        (
            "memory of another's",
            &[0x48, 0x89, 0xf8],
            &[0x48, 0x8b, 0x07],
        ),
        (
            "data of the table",
            &beside(read_only - 6),
            &beside(read_only - 10),
        ),
        ("another stack", &[0x48, 0x89, 0xfd], &[0x48, 0x89, 0xfc]),
        ("a return address taken", &[0x50, 0x58], &[0x58, 0x50]),
        ("a word left pushed", &[0x50, 0x58], &[0x50, 0x90]),
        ("a word of the caller's", &[0x50, 0x58], &[0x58, 0x58]),
        (
            "a jump into an instruction",
            &[0xeb, 0, 0xb8, 0, 0, 0, 0],
            &[0xeb, 2, 0xb8, 0, 0, 0, 0],
        ),
        ("other lengths", &[0x90, 0x90, 0x90], &[0x48, 0x89, 0xf8]),
    ];
    for (what, good, bad) in pairs {
        let [good, bad] = [good, bad].map(|code| {
            let mut code = [code, &[0xc3]].concat();
            code.resize(16, 0x90);
            code[15] = 0xc3;
            code
        });
        let (good, bad) = (of_code(&good), of_code(&bad));
        let Some(mut it) = Watched::new(&good, HEAP, 100) else {
            return skip_without();
        };
        it.believe(&good).expect("it keeps the rules");
        let far = 1 << 35;
        let arguments = [far, far];
        let end = it.run(&good, 0, arguments);
        assert!(
            matches!(end, Ok(End::Returned | End::Trapped)),
            "{what}: {end:?}"
        );
        let end = it.run(&bad, 0, arguments);
        assert!(end.is_err(), "{what}: {end:?}");
    }
}
