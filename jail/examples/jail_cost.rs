//! What the jail costs: to enter it, and each system call afterwards. Times are
//! medians; a process enters but once, so run it several times.

use std::sync::OnceLock;
use std::time::Instant;
use tane_jail::Jail;

const RUNS: usize = 31;
const CALLS: u32 = 2000;
/// Opened before the jail.
static NULL: OnceLock<i32> = OnceLock::new();

/// Nanoseconds of one call.
fn time(call: impl Fn()) -> f64 {
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn calls() -> [(&'static str, f64); 4] {
    let page = || {
        let memory = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: memory of our own, which nobody uses.
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, memory, -1, 0) }
    };
    let own = page();
    // SAFETY: a name, and a descriptor that is ours.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY) };
    let null = *NULL.get_or_init(|| null);
    // SAFETY: no memory, or that of `page`, or one byte that is read.
    unsafe {
        [
            ("getpid", time(|| _ = libc::syscall(libc::SYS_getpid))),
            (
                "mprotect",
                time(|| _ = libc::mprotect(own, 4096, libc::PROT_READ)),
            ),
            ("mmap, munmap", time(|| _ = libc::munmap(page(), 4096))),
            (
                "write to /dev/null",
                time(|| _ = libc::write(null, c"x".as_ptr().cast(), 1)),
            ),
        ]
    }
}

fn main() -> Result<(), tane_jail::Error> {
    let before = calls();
    let micros = |start: Instant| start.elapsed().as_nanos() as f64 / 1000.0;
    let start = Instant::now();
    Jail::new()
        .read("/proc/self/exe")
        .boots(true)
        .memory(4 << 30)
        .enter()?;
    println!("first jail:  {:.0} µs", micros(start));
    let start = Instant::now();
    Jail::new().enter()?;
    println!("second jail: {:.0} µs", micros(start));
    for ((name, before), (_, after)) in before.into_iter().zip(calls()) {
        println!("{name}: {before:.0} ns before, {after:.0} ns after");
    }
    Ok(())
}
