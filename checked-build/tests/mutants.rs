//! Modules that were changed at random are refused, or run without touching anything but
//! their window: each in a process of its own that may make no system call, among bytes
//! that must stay. `TANE_MUTANTS` says how many, `TANE_SEED` which.

mod common;

use common::can_run;
use std::path::Path;
use tane_checked_build::{build, Options};
use tane_checked_run::Instance;

const HEAP: u64 = 1 << 16;
const CANARY: u8 = 0xa5;
/// Of processor time, for one that does not end.
const MICROSECONDS: i64 = 20_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Numbers by xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

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

/// How a process ended that ran the module.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Well,
    OutOfTime,
    Escaped(i32),
}

fn run_apart(module: &[u8]) -> End {
    // SAFETY: the child is alone with its memory, and ends by a system call.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork");
        if child == 0 {
            let code = run_jailed(module);
            libc::syscall(libc::SYS_exit, code);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        match status {
            0 => End::Well,
            _ if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGPROF => {
                End::OutOfTime
            }
            other => End::Escaped(other),
        }
    }
}

/// 0 if nothing was touched.
unsafe fn run_jailed(module: &[u8]) -> i32 {
    let mut instance = match Instance::new(module, HEAP, Vec::new()) {
        Ok(instance) => instance,
        Err(_) => return 3,
    };
    let canaries = vec![CANARY; 1 << 18];
    let limit = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: MICROSECONDS,
        },
    };
    // SAFETY: from here on this process computes, faults, and ends.
    unsafe {
        libc::setitimer(libc::ITIMER_PROF, &raw const limit, std::ptr::null_mut());
        if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) != 0 {
            return 4;
        }
    }
    let called = instance.call("work", &[1]).is_ok();
    let whole = std::hint::black_box(&canaries)
        .iter()
        .all(|byte| *byte == CANARY);
    std::mem::forget((instance, canaries));
    match (called, whole) {
        (false, _) => 5,
        (_, false) => 6,
        _ => 0,
    }
}

#[test]
fn changed_modules_are_refused_or_touch_nothing_but_their_window() {
    if !can_run() {
        return;
    }
    let (count, seed) = (
        number("TANE_MUTANTS", 4000),
        number("TANE_SEED", 0x9e37_79b9_7f4a_7c15),
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let modules = ["sort", "values", "machine"].map(|name| {
        build(&[&folder.join(format!("{name}.c"))], &Options::default()).expect("a module")
    });
    let mut random = Random(seed | 1);
    let (mut refused, mut well, mut late) = (0, 0, 0);
    for i in 0..count {
        let mut file = modules[random.below(modules.len())].clone();
        let before = file.clone();
        for _ in 0..=random.below(3) {
            mutate(&mut file, &mut random);
        }
        let Ok(module) = tane_checked::check(&file) else {
            refused += 1;
            continue;
        };
        if file == before || !module.exports.iter().any(|export| export.name == "work") {
            continue;
        }
        match run_apart(&file) {
            End::Well => well += 1,
            End::OutOfTime => late += 1,
            escaped => panic!("mutant {i} of seed {seed:#x}: {escaped:?}"),
        }
    }
    println!("{refused} refused, {well} ran, {late} did not end");
    assert!(
        refused > 0 && well > 0,
        "{refused} {well}: nothing was tried"
    );
}
