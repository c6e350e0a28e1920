//! Time and randomness in a kernel are its host's, or those it was given.

mod inside;

use inside::{builder, into, ok};
use std::time::Duration;
use tane::Kernel;

fn boot() -> Option<Kernel> {
    let kernel = builder("tiny")?.memory(64 << 20).boot();
    Some(kernel.unwrap_or_else(|e| panic!("{e}")))
}

/// A clock, in nanoseconds.
fn clock(kernel: &Kernel, id: i32) -> i128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let args = [id as u64, into(&mut time)];
    ok(kernel, libc::SYS_clock_gettime, &args);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

const MILLISECOND: i128 = 1_000_000;

/// Theirs less ours, as long as asking for both took less than a millisecond.
fn difference(kernel: &Kernel, host: &Kernel, id: i32) -> i128 {
    for _ in 0..1000 {
        let before = clock(host, id);
        let inside = clock(kernel, id);
        let after = clock(host, id);
        if after - before < MILLISECOND {
            return inside - before;
        }
    }
    panic!("this machine is too busy to compare clocks");
}

#[test]
fn the_time_of_day_is_the_hosts_right_after_boot() {
    let Some(kernel) = boot() else { return };
    let host = Kernel::host();
    let apart = difference(&kernel, &host, libc::CLOCK_REALTIME);
    assert!(apart.abs() < 50 * MILLISECOND, "{apart} ns apart");
}

#[test]
fn monotonic_time_runs_at_the_hosts_rate() {
    let Some(kernel) = boot() else { return };
    let host = Kernel::host();
    let clocks = [
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_MONOTONIC_RAW,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_REALTIME,
    ];
    let before = clocks.map(|id| difference(&kernel, &host, id));
    std::thread::sleep(Duration::from_secs(2));
    for (id, before) in clocks.into_iter().zip(before) {
        let gained = difference(&kernel, &host, id) - before;
        // 500 parts in a million, and what asking takes.
        assert!(gained.abs() < 2 * MILLISECOND, "clock {id}: {gained} ns");
    }
}

#[test]
fn no_clock_goes_backwards() {
    let Some(kernel) = boot() else { return };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..100_000 {
                    let now = clock(&kernel, libc::CLOCK_MONOTONIC);
                    assert!(now >= last, "{now} after {last}");
                    last = now;
                }
            });
        }
    });
}

#[test]
fn uptime_starts_near_zero() {
    let Some(kernel) = boot() else { return };
    let uptime = clock(&kernel, libc::CLOCK_BOOTTIME);
    assert!((0..5000 * MILLISECOND).contains(&uptime), "{uptime} ns");
    let proc = kernel.tree("/proc").expect("/proc");
    let text = proc.read_to_string("uptime").expect("reads");
    let seconds = text.split('.').next().expect("a number");
    assert!(seconds.parse::<u32>().expect("seconds") < 5, "{text}");
}

#[test]
fn file_times_are_of_now() {
    let Some(kernel) = boot() else { return };
    let mut options = tane::MountOptions::new();
    let tmpfs = options.fstype("tmpfs").mount(&kernel, "tmpfs");
    let tmpfs = tmpfs.expect("tmpfs");
    let host = Kernel::host();
    let before = clock(&host, libc::CLOCK_REALTIME);
    tmpfs.write("f", b"").expect("writes");
    let after = clock(&host, libc::CLOCK_REALTIME);
    // SAFETY: plain numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let file = tmpfs.open("f").expect("opens");
    let args = [file.kernel_fd() as u64, into(&mut stat)];
    ok(&kernel, libc::SYS_fstat, &args);
    let written = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    // A file's time is that of the last tick.
    let wrong = (before - 50 * MILLISECOND - written).max(written - after);
    assert!(wrong <= 0, "{wrong} ns off");
}

#[test]
fn randomness_is_there_at_once_and_each_kernels_own() {
    const GRND_NONBLOCK: u64 = 1;
    let draw = || {
        let kernel = boot()?;
        let mut bytes = [0u8; 32];
        let args = [into(&mut bytes), 32, GRND_NONBLOCK];
        assert_eq!(ok(&kernel, libc::SYS_getrandom, &args), 32);
        Some(bytes)
    };
    let (Some(one), Some(two)) = (draw(), draw()) else {
        return;
    };
    assert_ne!(one, two);
    assert!(one != [0; 32] && two != [0; 32]);
}

const TIME: u64 = 1_000_000_000;

fn boot_still(seed: u64) -> Option<Kernel> {
    let builder = builder("tiny")?.memory(64 << 20);
    let kernel = builder.deterministic(TIME, seed).boot();
    Some(kernel.unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn time_that_stands_still_passes_only_for_who_sleeps_and_as_far_as_asked() {
    let Some(kernel) = boot_still(1) else { return };
    let now = |id| clock(&kernel, id);
    let (wall, uptime) = (now(libc::CLOCK_REALTIME), now(libc::CLOCK_BOOTTIME));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(now(libc::CLOCK_REALTIME), wall);
    assert_eq!(wall / 1_000_000_000, i128::from(TIME));
    let hour = libc::timespec {
        tv_sec: 3600,
        tv_nsec: 0,
    };
    let args = [std::ptr::from_ref(&hour) as u64, 0];
    ok(&kernel, libc::SYS_nanosleep, &args);
    for (id, before) in [(libc::CLOCK_REALTIME, wall), (libc::CLOCK_BOOTTIME, uptime)] {
        let passed = now(id) - before;
        let hour = 3_600_000 * MILLISECOND;
        assert!(
            (hour..hour + 100 * MILLISECOND).contains(&passed),
            "{passed}"
        );
    }
}

#[test]
fn who_polls_a_clock_that_stands_still_sees_it_go_in_the_end() {
    let Some(kernel) = boot_still(1) else { return };
    let start = clock(&kernel, libc::CLOCK_MONOTONIC);
    while clock(&kernel, libc::CLOCK_MONOTONIC) < start + 10 * MILLISECOND {}
}

#[test]
fn randomness_from_a_seed_is_the_same_in_every_run() {
    let draw = |seed| {
        let kernel = boot_still(seed)?;
        let mut bytes = [0u8; 32];
        let args = [into(&mut bytes), 32, 0];
        assert_eq!(ok(&kernel, libc::SYS_getrandom, &args), 32);
        Some(bytes)
    };
    let (Some(one), Some(again), Some(other)) = (draw(1), draw(1), draw(2)) else {
        return;
    };
    assert_eq!(one, again);
    assert_ne!(one, other);
}
