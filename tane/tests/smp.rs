//! Several virtual CPUs: threads that work alone and together for some seconds
//! get right results, on one CPU of the host and on two, and nothing stalls.

mod inside;

use inside::{at, builder, call, complaints, into, ok};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tane::{Kernel, Mount, MountOptions};
use tane_test_support::{eventually, PATIENCE};

const THREADS: u64 = 6;
const WORK: Duration = Duration::from_secs(5);
/// How long an answer may take before it is a stall: no thread can be made to
/// end, so the process is.
const STALL: Duration = PATIENCE;

fn boot(cpus: u32) -> Option<Kernel> {
    let kernel = builder("smp")?.cpus(cpus).boot();
    Some(kernel.unwrap_or_else(|e| panic!("{cpus} CPUs: {e}")))
}

fn tmpfs(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    let mount = options.fstype("tmpfs").mount(kernel, "tmpfs");
    mount.expect("tmpfs")
}

/// Let this thread, and those it starts, run on this many CPUs of the host.
fn use_host_cpus(count: usize) {
    // SAFETY: the sets are ours.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        let mut some: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &raw mut all);
        let allowed = (0..1024).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
        for cpu in allowed.take(count) {
            libc::CPU_SET(cpu, &mut some);
        }
        assert_eq!(libc::sched_setaffinity(0, size, &raw const some), 0);
    }
}

/// Files of a thread's own, whose content nobody else writes.
fn alone(mount: &Mount, me: u64, round: u64) {
    let name = format!("own-{me}-{}", round % 8);
    let moved = format!("moved-{me}");
    let content = (me << 32 | round).to_ne_bytes().repeat(1000);
    mount.write(&name, &content).expect("writes");
    mount.rename(&name, &moved).expect("renames");
    assert!(mount.read(&moved).expect("reads") == content);
    mount.remove_file(&moved).expect("removes");
}

/// One name that all write, rename and remove: whoever sees it sees one whole
/// content, since it is renamed into place.
fn together(mount: &Mount, me: u64, round: u64) {
    let draft = format!("draft-{me}");
    let content = [me as u8; 5000];
    mount.write(&draft, content).expect("writes");
    mount.rename(&draft, "shared").expect("renames");
    match mount.read("shared") {
        Ok(seen) => assert!(seen.len() == 5000 && seen.iter().all(|&b| b == seen[0])),
        Err(error) => assert_eq!(error.errno(), libc::ENOENT),
    }
    if round.is_multiple_of(4) {
        match mount.remove_file("shared") {
            Ok(()) => {}
            Err(error) => assert_eq!(error.errno(), libc::ENOENT),
        }
    }
}

fn pipe(kernel: &Kernel) -> [u64; 2] {
    let mut fds = [0u32; 2];
    ok(kernel, libc::SYS_pipe, &[into(&mut fds)]);
    fds.map(u64::from)
}

/// Numbers go around a ring of pipes, each thread adding one.
fn pass_on(kernel: &Kernel, from: u64, to: u64, stop: &AtomicBool) -> u64 {
    let mut passed = 0;
    loop {
        let mut number = 0u64;
        let read = ok(kernel, libc::SYS_read, &[from, into(&mut number), 8]);
        if read == 0 {
            return passed; // the thread before us is done
        }
        assert_eq!(read, 8);
        passed += 1;
        number += 1;
        if stop.load(Ordering::Relaxed) {
            return passed;
        }
        ok(kernel, libc::SYS_write, &[to, at(&number), 8]);
    }
}

/// A lock made of a futex, and what it protects.
#[derive(Default)]
struct Locked {
    /// 0 free, 1 taken, 2 taken with waiters.
    word: AtomicU32,
    plain: std::cell::UnsafeCell<u64>,
}

// SAFETY: `plain` is touched under the lock only, which the test tries.
unsafe impl Sync for Locked {}

impl Locked {
    fn add_one(&self, kernel: &Kernel) {
        let word = at(&self.word);
        let mut seen = match self
            .word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => 0,
            Err(_) => self.word.swap(2, Ordering::Acquire),
        };
        while seen != 0 {
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
            match call(kernel, libc::SYS_futex, &[word, wait, 2, 0]) {
                Ok(_) | Err(libc::EAGAIN) => {}
                Err(errno) => panic!("futex: {errno}"),
            }
            seen = self.word.swap(2, Ordering::Acquire);
        }
        // SAFETY: we hold the lock.
        unsafe { *self.plain.get() += 1 };
        if self.word.swap(0, Ordering::Release) == 2 {
            let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
            ok(kernel, libc::SYS_futex, &[word, wake, 1]);
        }
    }
}

fn nap(kernel: &Kernel, time: Duration) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    ok(kernel, libc::SYS_nanosleep, &[at(&time), 0]);
}

/// Everything at once for five seconds.
fn works(cpus: u32, host_cpus: usize) {
    use_host_cpus(host_cpus);
    let Some(kernel) = boot(cpus) else { return };
    let mount = tmpfs(&kernel);
    let stop = AtomicBool::new(false);
    let locked = Locked::default();
    let counts: Vec<[AtomicU32; 3]> = (0..THREADS).map(|_| Default::default()).collect();
    let ring: Vec<_> = (0..THREADS).map(|_| pipe(&kernel)).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let (kernel, mount, stop, locked) = (&kernel, &mount, &stop, &locked);
        for me in 0..THREADS {
            let [files, locks, naps] = &counts[me as usize];
            scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    alone(mount, me, round);
                    together(mount, me, round);
                    files.fetch_add(1, Ordering::Relaxed);
                    round += 1;
                }
            });
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..50 {
                        locked.add_one(kernel);
                    }
                    locks.fetch_add(50, Ordering::Relaxed);
                }
            });
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let before = Instant::now();
                    nap(kernel, Duration::from_millis(2));
                    assert!(before.elapsed() >= Duration::from_millis(2));
                    naps.fetch_add(1, Ordering::Relaxed);
                }
            });
            let (from, to) = (
                ring[me as usize][0],
                ring[(me + 1) as usize % ring.len()][1],
            );
            scope.spawn(move || {
                let passed = pass_on(kernel, from, to, stop);
                assert!(passed > 0, "nothing came through pipe {me}");
                // Let the next one see the end as well.
                ok(kernel, libc::SYS_close, &[to]);
            });
        }
        ok(kernel, libc::SYS_write, &[ring[0][1], at(&0u64), 8]);
        scope.spawn(|| {
            std::thread::sleep(WORK);
            stop.store(true, Ordering::Relaxed);
        });
    });
    let took = start.elapsed();
    let sum = |what: usize| -> u64 {
        let all = counts
            .iter()
            .map(|c| u64::from(c[what].load(Ordering::Relaxed)));
        all.sum()
    };
    println!(
        "{cpus} CPUs on {host_cpus}: {} file rounds, {} locks, {} naps in {took:?}",
        sum(0),
        sum(1),
        sum(2)
    );
    for (me, counts) in counts.iter().enumerate() {
        for (what, count) in counts.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            assert!(count > 0, "thread {me} got nowhere with work {what}");
        }
    }
    // SAFETY: everyone who locked it is done.
    assert_eq!(unsafe { *locked.plain.get() }, sum(1));
    assert!(took < WORK + STALL / 2, "{took:?}");
    let proc = kernel.tree("/proc").expect("/proc");
    let info = proc.read_to_string("cpuinfo").expect("reads");
    assert_eq!(info.matches("processor").count(), cpus as usize);
    healthy(&kernel);
    drop(proc);
    mount.unmount().expect("unmounts");
    kernel.halt();
    assert!(!kernel.is_alive());
    assert_eq!(call(&kernel, libc::SYS_getpid, &[]), Err(libc::ESHUTDOWN));
}

fn healthy(kernel: &Kernel) {
    assert!(kernel.is_alive(), "{}", kernel.last_words());
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

/// The tests share the process, whose affinity they set, so they are one. A
/// stall ends the process: a thread inside the kernel cannot be ended.
#[test]
fn threads_on_several_cpus() {
    for (cpus, host_cpus) in [(2, 2), (4, 2), (2, 1), (4, 1)] {
        let watchdog = Watchdog::new(WORK + STALL, format!("{cpus} CPUs on {host_cpus}"));
        works(cpus, host_cpus);
        drop(watchdog);
    }
    use_host_cpus(2);
    let watchdog = Watchdog::new(2 * STALL, String::from("kernels that come and go"));
    nothing_is_left();
    drop(watchdog);
}

/// Of this process: its threads, descriptors and mappings.
fn held() -> [usize; 3] {
    let count = |path: &str| std::fs::read_dir(path).expect("lists").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("reads");
    [
        count("/proc/self/task"),
        count("/proc/self/fd"),
        maps.lines().count(),
    ]
}

fn nothing_is_left() {
    let round = |cpus| -> Option<()> {
        let kernel = boot(cpus)?;
        let mount = tmpfs(&kernel);
        std::thread::scope(|scope| {
            for me in 0..4 {
                let mount = &mount;
                scope.spawn(move || alone(mount, me, 0));
            }
        });
        healthy(&kernel);
        kernel.halt();
        Some(())
    };
    for cpus in [2, 4, 2, 4] {
        if round(cpus).is_none() {
            return;
        }
    }
    let before = held();
    for cpus in [2, 4].repeat(10) {
        round(cpus);
    }
    // A thread that was joined is listed for a moment more.
    eventually("threads, descriptors and mappings are given back", || {
        let now = held();
        now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] + 8
    });
}

/// Ends the process, loudly, unless it is dropped in time.
struct Watchdog(
    std::sync::Arc<AtomicBool>,
    Option<std::thread::JoinHandle<()>>,
);

impl Watchdog {
    fn new(limit: Duration, what: String) -> Watchdog {
        let stopped = std::sync::Arc::new(AtomicBool::new(false));
        let seen = stopped.clone();
        let thread = std::thread::spawn(move || {
            let end = Instant::now() + limit;
            while !seen.load(Ordering::Relaxed) {
                if Instant::now() > end {
                    eprintln!("stalled: {what}");
                    std::process::abort();
                }
                std::thread::park_timeout(Duration::from_millis(200));
            }
        });
        Watchdog(stopped, Some(thread))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
