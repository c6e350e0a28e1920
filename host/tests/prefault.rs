//! Memory that another thread gets for a kernel. A test of its own process: it counts
//! what the process has.

mod common;

use common::{boot_with, syscall};
use std::time::{Duration, Instant};

const WORKING_SET: u64 = 64 << 20;

/// Of memory like a kernel's, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|l| l.starts_with("RssShmem"));
    let words = line.expect("a line").split_whitespace();
    words
        .skip(1)
        .find_map(|w| w.parse::<u64>().ok())
        .expect("KiB")
        << 10
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("tasks").count()
}

fn boot(working_set: u64) -> tane_host::Kernel {
    boot_with(|builder| {
        builder.ram = 2 * WORKING_SET;
        builder.working_set = working_set;
    })
}

#[test]
fn a_working_set_is_there_without_the_kernel_touching_it_and_its_thread_ends() {
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return tane_test_support::skip("one processor: nobody gets anything ahead");
    }
    let before = (threads(), resident());
    let plain = boot(0);
    assert!(
        resident() < before.1 + WORKING_SET / 2,
        "the test proves nothing"
    );
    drop(plain);

    let kernel = boot(WORKING_SET);
    let end = Instant::now() + tane_test_support::PATIENCE;
    while resident() < before.1 + WORKING_SET {
        assert!(Instant::now() < end, "{} bytes are there", resident());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(syscall(&kernel, libc::SYS_getpid, &[]), 1);
    drop(kernel);
    assert_eq!(threads(), before.0);

    // It ends in the midst of that, too; more than there is does no harm.
    drop(boot(u64::MAX));
    assert_eq!(threads(), before.0);
}
