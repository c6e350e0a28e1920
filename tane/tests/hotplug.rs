//! Virtual CPUs come and go, and threads that call meanwhile notice nothing.

mod inside;

use inside::{at, builder, complaints, into, ok};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tane::{Kernel, MountOptions};

const CPUS: u32 = 4;
const ROUNDS: u32 = 25;
const THREADS: u64 = 6;
/// A thread inside the kernel cannot be ended, so a stall ends the process.
const STALL: Duration = Duration::from_secs(120);

fn switch(kernel: &Kernel, cpu: u32, on: bool) {
    let sys = kernel.tree("/sys").expect("/sys");
    let path = format!("devices/system/cpu/cpu{cpu}/online");
    let value: &[u8] = if on { b"1" } else { b"0" };
    sys.write(&path, value)
        .unwrap_or_else(|e| panic!("{path}: {e}\n{}", kernel.dmesg()));
}

fn online(kernel: &Kernel) -> String {
    let sys = kernel.tree("/sys").expect("/sys");
    let list = sys.read_to_string("devices/system/cpu/online");
    list.expect("reads").trim().to_owned()
}

fn watch(done: &AtomicBool) {
    let start = std::time::Instant::now();
    while !done.load(Ordering::Relaxed) {
        if start.elapsed() > STALL {
            eprintln!("stalled");
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn threads_go_on_while_cpus_come_and_go() {
    let Some(builder) = builder("smp") else {
        return;
    };
    let kernel = builder.cpus(CPUS).boot().expect("boots");
    let mut options = MountOptions::new();
    let mount = options.fstype("tmpfs").mount(&kernel, "tmpfs");
    let mount = mount.expect("tmpfs");
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let counts: Vec<AtomicU32> = (0..THREADS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        let (kernel, mount, stop) = (&kernel, &mount, &stop);
        scope.spawn(|| watch(&done));
        let workers: Vec<_> = counts
            .iter()
            .enumerate()
            .map(|(me, count)| {
                scope.spawn(move || {
                    let name = format!("file-{me}");
                    while !stop.load(Ordering::Relaxed) {
                        let n = count.fetch_add(1, Ordering::Relaxed);
                        let content = n.to_ne_bytes().repeat(500);
                        mount.write(&name, &content).expect("writes");
                        assert!(mount.read(&name).expect("reads") == content);
                        if n % 8 == 0 {
                            let nap = libc::timespec {
                                tv_sec: 0,
                                tv_nsec: 100_000,
                            };
                            ok(kernel, libc::SYS_nanosleep, &[at(&nap), 0]);
                        }
                    }
                })
            })
            .collect();
        for round in 0..ROUNDS {
            let before: u32 = counts.iter().map(|c| c.load(Ordering::Relaxed)).sum();
            for cpu in 1..CPUS {
                switch(kernel, cpu, false);
            }
            assert_eq!(online(kernel), "0", "round {round}");
            // Some work is done by the one that stays.
            while counts
                .iter()
                .map(|c| c.load(Ordering::Relaxed))
                .sum::<u32>()
                <= before
            {
                std::thread::yield_now();
            }
            for cpu in (1..CPUS).rev() {
                switch(kernel, cpu, true);
            }
            assert_eq!(online(kernel), format!("0-{}", CPUS - 1), "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().expect("did its work");
        }
        done.store(true, Ordering::Relaxed);
    });
    for (me, count) in counts.iter().enumerate() {
        assert!(count.load(Ordering::Relaxed) > 0, "thread {me}");
    }
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

#[test]
fn a_kernel_that_started_with_one_cpu_gets_more() {
    let Some(builder) = builder("smp") else {
        return;
    };
    let builder = builder.cpus(2).cmdline("maxcpus=1");
    let kernel = builder.boot().expect("boots");
    assert_eq!(online(&kernel), "0");
    switch(&kernel, 1, true);
    assert_eq!(online(&kernel), "0-1");
    // A thread can be made to run there, and says so.
    let cpus = 2u64;
    ok(&kernel, libc::SYS_sched_setaffinity, &[0, 8, at(&cpus)]);
    let mut cpu = 7u32;
    ok(&kernel, libc::SYS_getcpu, &[into(&mut cpu), 0, 0]);
    assert_eq!(cpu, 1);
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

/// What Linux says of it: `tasks` are named, of `total`.
fn left_behind(total: usize, tasks: &[&str]) -> String {
    let named = tasks.iter().enumerate();
    let named = named.map(|(n, name)| format!("[    5.1] \tpid: {n}, name: {name}\n"));
    format!(
        "[    5.0] Dying CPU not properly vacated!\n\
         [    5.0] WARNING: CPU: 1 PID: 20 at kernel/sched/core.c:8365 sched_cpu_dying+0x9d/0xf0\n\
         [    5.1] CPU1 enqueued tasks ({total} total):\n{}\
         [    5.2] crash hp: something else\n",
        named.collect::<String>()
    )
}

#[test]
fn a_cpu_may_go_with_its_deadline_server_and_with_nothing_else_left_on_it() {
    let server = left_behind(2, &["migration/1"]);
    assert_eq!(complaints(&server), [""; 0]);
    for task in [
        left_behind(2, &["migration/1", "kworker/1:0"]),
        left_behind(3, &["migration/1"]),
        left_behind(1, &["migration/1"]),
    ] {
        assert_eq!(complaints(&task).len(), 1, "{task}");
        assert_eq!(complaints(&(server.clone() + &task)).len(), 1, "{task}");
    }
}
