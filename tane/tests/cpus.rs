//! Which CPU a thread of the program uses, and what it is to others while the thread
//! computes outside.

mod inside;

use inside::{builder, complaints, into, ok};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tane::Kernel;
use tane_test_support::{eventually, PATIENCE};

fn cpu_of_this_thread(kernel: &Kernel) -> u32 {
    let mut cpu = u32::MAX;
    ok(kernel, libc::SYS_getcpu, &[into(&mut cpu), 0, 0]);
    cpu
}

#[test]
fn as_many_threads_as_there_are_cpus_work_on_one_each() {
    const CPUS: usize = 4;
    let Some(builder) = builder("smp") else {
        return;
    };
    let kernel = builder.cpus(CPUS as u32).boot().expect("boots");
    let stop = AtomicBool::new(false);
    let on: [AtomicU32; CPUS] = [const { AtomicU32::new(u32::MAX) }; CPUS];
    std::thread::scope(|scope| {
        for mine in &on {
            let (kernel, stop) = (&kernel, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    mine.store(cpu_of_this_thread(kernel), Ordering::Relaxed);
                }
            });
        }
        eventually("each thread has a CPU of its own", || {
            let now: BTreeSet<_> = on.iter().map(|cpu| cpu.load(Ordering::Relaxed)).collect();
            now == (0..CPUS as u32).collect()
        });
        // None of them has to move any more.
        let settled = || on.each_ref().map(|cpu| cpu.load(Ordering::Relaxed));
        eventually("the threads stay where they are", || {
            let before = settled();
            std::thread::sleep(Duration::from_millis(200));
            let distinct: BTreeSet<_> = before.iter().collect();
            distinct.len() == CPUS && before == settled()
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

/// A thread that does nothing but call keeps its CPU when it goes to compute, and no
/// tick finds it inside: RCU has to see that it is no reader.
#[test]
fn a_grace_period_waits_for_no_thread_that_computes_outside() {
    const GLOBAL: u64 = libc::MEMBARRIER_CMD_GLOBAL as u64;
    let Some(builder) = builder("smp") else {
        return;
    };
    let kernel = builder.cpus(2).boot().expect("boots");
    let (computing, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let (done, wait) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    cpu_of_this_thread(&kernel);
                }
                computing.fetch_add(1, Ordering::SeqCst);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        while computing.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            for _ in 0..20 {
                // Linux waits for a grace period in it.
                ok(&kernel, libc::SYS_membarrier, &[GLOBAL, 0, 0]);
            }
            done.send(()).expect("somebody waits");
        });
        let start = Instant::now();
        if wait.recv_timeout(PATIENCE).is_err() {
            // A thread inside the kernel cannot be ended.
            eprintln!("no grace period ends:\n{}", kernel.dmesg());
            std::process::abort();
        }
        println!("20 grace periods took {:?}", start.elapsed());
        stop.store(true, Ordering::Relaxed);
    });
    // Nor was it a stall that ended one.
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}
