//! The kernel's own tests of its probes, by name.

mod common;

use common::boot;

/// Run one suite while the kernel boots; every test of it must pass.
fn run(suite: &str, tests: usize) {
    let words = format!("kunit.enable=1 kunit.filter_glob={suite} loglevel=7");
    for cpus in [1, 2] {
        let Some(kernel) = boot(cpus, &words) else {
            return;
        };
        let log = kernel.dmesg();
        let passed = |line: &&str| line.contains("] ok ") || line.contains("]     ok ");
        let failed = log.lines().find(|line| line.contains("not ok "));
        assert_eq!(failed, None, "{log}");
        let count = log.lines().filter(passed).count();
        // Each test, and the suite.
        assert!(count > tests, "{count} of {suite}:\n{log}");
    }
}

#[test]
fn the_kernels_own_tests_of_kprobes_pass() {
    run("kprobes_test", 5);
}

#[test]
fn the_kernels_own_tests_of_fprobes_pass() {
    run("fprobe_test", 4);
}

#[test]
fn what_the_examples_of_the_xarray_say_of_it_is_true() {
    run("xarray_example_*", 55);
}
