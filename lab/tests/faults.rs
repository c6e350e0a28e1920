//! Faults on demand: functions that are made to fail, and the kernel's counters.

mod common;

use common::{assert_healthy, kernel, tmp};
use std::io::Write;
use tane::{errno_of, Kernel, Mount, MountOptions, OpenOptions};

fn debugfs(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    options
        .fstype("debugfs")
        .mount(kernel, "none")
        .expect("debugfs")
}

/// These files have no position to write at.
fn put(debug: &Mount, file: &str, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .open(debug, format!("fail_function/{file}"))?;
    file.write_all(text.as_bytes())
}

/// Have a function fail from now on, always, with this errno.
fn fail(debug: &Mount, function: &str, errno: i32) {
    let value = format!("{:#x}", -i64::from(errno) as u64);
    for (file, text) in [
        ("inject", function),
        (&format!("{function}/retval"), &value),
        ("probability", "100"),
        ("interval", "0"),
        ("verbose", "0"),
        ("times", "-1"),
    ] {
        put(debug, file, text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

#[test]
fn a_call_fails_as_it_is_told_to_and_then_no_more() {
    let Some(kernel) = kernel() else { return };
    let debug = debugfs(&kernel);
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    // A call of another number is what takes it back.
    for errno in [libc::ENOSPC, libc::EIO] {
        fail(&debug, "sys_pwrite64", errno);
        let failed = file.write_at(b"text", 0).unwrap_err();
        assert_eq!(errno_of(&failed), Some(errno));
        put(&debug, "inject", "!sys_pwrite64").unwrap();
        assert_eq!(file.write_at(b"text", 0).unwrap(), 4);
    }
    assert_eq!(tmp.read("file").unwrap(), b"text");
    assert_healthy(&kernel);
}

#[test]
fn only_functions_that_may_fail_are_made_to() {
    let Some(kernel) = kernel() else { return };
    let debug = debugfs(&kernel);
    for function in ["vfs_write", "schedule", "no_such_function"] {
        let refused = put(&debug, "inject", function).unwrap_err();
        let errno = errno_of(&refused);
        assert!(
            [Some(libc::EINVAL), Some(libc::ERANGE)].contains(&errno),
            "{function}: {refused}"
        );
    }
    let may = debug.read_to_string("error_injection/list").unwrap();
    assert!(
        may.lines().any(|line| line.starts_with("sys_pwrite64")),
        "{may}"
    );
}

/// perf_event_open(2)'s structure in its first version, of which only this is not 0.
fn counter(kernel: &Kernel, config: u64) -> i64 {
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    let attributes = [SOFTWARE | SIZE << 32, config, 0, 0, 0, 0, 0, 0];
    let this_thread_anywhere = [
        attributes.as_ptr() as u64,
        0,
        -1i64 as u64,
        -1i64 as u64,
        0,
        0,
    ];
    // SAFETY: the structure is as long as it says.
    unsafe { kernel.syscall(libc::SYS_perf_event_open, this_thread_anywhere) }
}

fn count(kernel: &Kernel, fd: i64) -> u64 {
    let mut value = 0u64;
    let args = [fd as u64, &raw mut value as u64, 8, 0, 0, 0];
    // SAFETY: eight bytes of ours.
    assert_eq!(unsafe { kernel.syscall(libc::SYS_read, args) }, 8);
    value
}

#[test]
fn counters_count_without_a_counter_in_the_processor() {
    const TASK_CLOCK: u64 = 1;
    const CONTEXT_SWITCHES: u64 = 3;
    const CYCLES: u64 = 0;
    let Some(kernel) = kernel() else { return };
    let switches = counter(&kernel, CONTEXT_SWITCHES);
    let clock = counter(&kernel, TASK_CLOCK);
    assert!(switches >= 0 && clock >= 0, "{switches} {clock}");
    let before = count(&kernel, switches);
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..10 {
        let args = [&raw const time as u64, 0, 0, 0, 0, 0];
        // SAFETY: the time is ours.
        assert_eq!(unsafe { kernel.syscall(libc::SYS_nanosleep, args) }, 0);
    }
    assert!(count(&kernel, switches) >= before + 10);
    assert!(count(&kernel, clock) > 0);
    // What the processor would have to count is refused.
    let attributes = [64u64 << 32, CYCLES, 0, 0, 0, 0, 0, 0];
    let args = [
        attributes.as_ptr() as u64,
        0,
        -1i64 as u64,
        -1i64 as u64,
        0,
        0,
    ];
    // SAFETY: as above.
    let refused = unsafe { kernel.syscall(libc::SYS_perf_event_open, args) };
    assert_eq!(refused, -i64::from(libc::ENOENT));
    assert_healthy(&kernel);
}
