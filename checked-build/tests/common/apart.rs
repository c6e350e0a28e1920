//! Modules that were changed at random, each in a process of its own that may make no system
//! call, among bytes that must stay.

use crate::watch::{work, SEED};
use tane_checked::Module;
use tane_checked_run::Instance;

const HEAP: u64 = 1 << 16;
const CANARY: u8 = 0xa5;
/// Of processor time, for one that does not end.
const MICROSECONDS: i64 = 20_000;

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Numbers by xorshift.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// Runs as many of these modules, each changed up to `most` times, as `TANE_MUTANTS` says.
/// `prepare` sees one that was accepted, and the module that it was made of; `looks_right` what it
/// made of them, and the instance afterwards. It makes no system call.
pub fn run_mutants<T>(
    modules: &[Vec<u8>],
    most: usize,
    mutate: impl Fn(&mut [u8], &mut Random),
    mut prepare: impl FnMut(&Module<'_>, &[u8]) -> T,
    looks_right: impl Fn(&Module<'_>, &T, &Instance) -> bool,
) {
    let (count, seed) = (number("TANE_MUTANTS", 4000), number("TANE_SEED", SEED));
    let mut random = Random(seed | 1);
    let (mut refused, mut well, mut late) = (0, 0, 0);
    for i in 0..count {
        let before = &modules[random.below(modules.len())];
        let mut file = before.clone();
        for _ in 0..=random.below(most) {
            mutate(&mut file, &mut random);
        }
        let Ok(module) = tane_checked::check(&file) else {
            refused += 1;
            continue;
        };
        if file == *before || work(&module).is_none() {
            continue;
        }
        let prepared = prepare(&module, before);
        match run_apart(&file, &|instance| looks_right(&module, &prepared, instance)) {
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

/// How a process ended that ran the module.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Well,
    OutOfTime,
    Escaped(i32),
}

/// Runs its export `work`, in a process of its own. `looks_right` sees the instance afterwards;
/// it makes no system call.
fn run_apart(module: &[u8], looks_right: &dyn Fn(&Instance) -> bool) -> End {
    // SAFETY: the child is alone with its memory, and ends by a system call.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork");
        if child == 0 {
            let code = run_jailed(module, looks_right);
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
unsafe fn run_jailed(module: &[u8], looks_right: &dyn Fn(&Instance) -> bool) -> i32 {
    let output: tane_checked_run::Import = Box::new(|[_, _, bytes, ..], _| bytes);
    let mut instance = match Instance::new(module, HEAP, vec![("tane_output", output)]) {
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
    let right = looks_right(&instance);
    std::mem::forget((instance, canaries));
    match (called, whole, right) {
        (false, ..) => 5,
        (_, false, _) => 6,
        (_, _, false) => 7,
        _ => 0,
    }
}
