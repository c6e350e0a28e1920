//! A kernel ends while its CPUs wait for one another: nobody answers any more, and
//! all who wait inside come out nevertheless.

mod inside;

use inside::{builder, call};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tane::Kernel;
use tane_test_support::{eventually, PATIENCE};

const CPUS: u32 = 4;
const ROUNDS: u64 = 15;
const GLOBAL_EXPEDITED: u64 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: u64 = 1 << 2;

/// A thread inside the kernel cannot be ended, so a stall ends the process.
fn watch(done: &AtomicBool) {
    let start = std::time::Instant::now();
    while !done.load(Ordering::Relaxed) {
        if start.elapsed() > PATIENCE {
            eprintln!("stalled");
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// membarrier(2) waits until all other CPUs have answered.
fn ask_all_cpus(kernel: &Kernel, asked: &AtomicU32) {
    let membarrier = |command| call(kernel, libc::SYS_membarrier, &[command, 0, 0]);
    let mut answer = membarrier(REGISTER_GLOBAL_EXPEDITED);
    while answer.is_ok() {
        answer = membarrier(GLOBAL_EXPEDITED);
        asked.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(answer, Err(libc::ESHUTDOWN));
}

/// One CPU stops all others each time it goes, with interrupts off.
fn switch_cpus(kernel: &Kernel) {
    let switch = |value: &[u8]| -> tane::Result<()> {
        let sys = kernel.tree("/sys")?;
        for cpu in 1..CPUS {
            sys.write(format!("devices/system/cpu/cpu{cpu}/online"), value)?;
        }
        Ok(())
    };
    loop {
        match switch(b"0").and_then(|()| switch(b"1")) {
            Ok(()) => {}
            Err(error) => return assert_eq!(error.errno(), libc::ESHUTDOWN, "{error}"),
        }
    }
}

/// Whoever watches is told when it goes, be it because a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ends(end: impl Fn(&Kernel)) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&done));
        let _done = Done(&done);
        for round in 0..ROUNDS {
            let Some(builder) = builder("smp") else { break };
            let kernel = builder.cpus(CPUS).boot().expect("boots");
            let asked = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..CPUS {
                    scope.spawn(|| ask_all_cpus(&kernel, &asked));
                }
                if round % 2 == 0 {
                    scope.spawn(|| switch_cpus(&kernel));
                }
                eventually("they are at work", || asked.load(Ordering::Relaxed) > 100);
                std::thread::sleep(Duration::from_micros(round * 100));
                end(&kernel);
            });
            assert!(!kernel.is_alive());
        }
    });
}

#[test]
fn a_halt_ends_calls_whose_cpus_wait_for_each_other() {
    ends(Kernel::halt);
}

#[test]
fn a_panic_ends_calls_that_wait_for_the_cpu_that_panicked() {
    ends(|kernel| {
        let proc = kernel.tree("/proc").expect("/proc");
        let written = proc.write("sysrq-trigger", "c");
        assert_eq!(written.map_err(|e| e.errno()), Err(libc::ESHUTDOWN));
    });
}
