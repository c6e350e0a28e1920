//! The kernel's own tests, which the debug image runs while it boots: KUnit's,
//! whose results are KTAP, and older ones, each with a last line of its own. Its
//! checkers of locks, lists and memory watch them, and all of this must be silent.

mod inside;

use inside::complaints;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane::MountOptions;

/// The debug kernel boots slowly: its tests run, and its checkers check.
const LIMIT: Duration = Duration::from_secs(900);

/// Suites whose absence would mean that they were not built or not run.
const SUITES: [&str; 30] = [
    "bitfields",
    "checksum",
    "cmdline",
    "cpumask",
    "ext4_inode_test",
    "ext4_mballoc_test",
    "fat_test",
    "hashtable",
    "hlist",
    "iov_iter",
    "lib_sort",
    "list-kunit-test",
    "list_sort",
    "memcpy",
    "overflow",
    "slub_test",
    "string",
    "string_helpers",
    "xarray_example_advanced",
    "xarray_example_alloc",
    "xarray_example_irq",
    "xarray_example_locks",
    "xarray_example_marks",
    "xarray_example_multi",
    "xarray_example_normal",
    "xarray_example_ranges",
    "xarray_example_rcu",
    "xarray_example_reserved",
    "xarray_example_softirq",
    "xarray_example_walk",
];

/// Older tests by the function that runs them at boot, and what it returns if all
/// went well: some return an error, to be unloaded again where they are modules.
const OLD: [(&str, i32); 14] = [
    ("crc32test_init", 0),
    ("interval_tree_test_init", -libc::EAGAIN),
    ("maple_tree_seed", 0),
    ("rbtree_test_init", -libc::EAGAIN),
    ("test_atomics_init", 0),
    ("test_div64_init", 0),
    ("test_hexdump_init", 0),
    ("test_kstrtox_init", -libc::EINVAL),
    ("test_memcat_p_init", 0),
    ("test_min_heap_init", 0),
    ("test_ref_tracker_init", 0),
    ("test_rht_init", 0),
    ("test_uuid_init", 0),
    ("xarray_checks", 0),
];

/// What they say then, those that say something.
const GOOD: [&str; 7] = [
    "crc32: self tests passed",
    "crc32_combine: ",
    "crc32c: self tests passed",
    "crc32c_combine: ",
    "min_heap_test: test passed",
    "test_memcat_p: test passed",
    "Started 10 threads, 0 failed, rhltable test returns 0",
];

/// Complaints that tests provoke, to see that they are made: the IDA's frees what
/// is not allocated, the reference tracker's leaks and frees twice.
const PROVOKED: [&str; 3] = ["ida_free+", "ref_tracker_free", "ref_tracker_dir_exit"];

#[derive(Debug, Default, PartialEq)]
struct Results {
    suites: Vec<String>,
    passed: u64,
    failed: Vec<String>,
    skipped: u64,
}

/// Without "[    0.123456] ".
fn message(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((time, message)) if time.trim().parse::<f64>().is_ok() => message,
        _ => line,
    }
}

/// Reads KTAP as KUnit prints it: suites at the margin, cases further in. What a
/// case's parameters did is in the case's own result.
fn ktap(log: &str) -> Results {
    let mut results = Results::default();
    for line in log.lines().map(message) {
        let text = line.trim_start();
        let depth = (line.len() - text.len()) / 4;
        let (good, rest) = match text.strip_prefix("not ok ") {
            Some(rest) => (false, rest),
            None => match text.strip_prefix("ok ") {
                Some(rest) => (true, rest),
                None => continue,
            },
        };
        let Some((number, name)) = rest.split_once(' ') else {
            continue;
        };
        if number.parse::<u32>().is_err() {
            continue;
        }
        let (name, skipped) = match name.split_once(" # SKIP") {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        match (depth, good) {
            (0, _) => results.suites.push(name.to_owned()),
            (1, true) if skipped => results.skipped += 1,
            (1, true) => results.passed += 1,
            _ => {}
        }
        if !good {
            results.failed.push(name.to_owned());
        }
    }
    results
}

/// "of" as in "XArray: 42 of 42 tests passed".
fn tally(log: &str, who: &str) -> Option<(u64, u64)> {
    let line = log
        .lines()
        .map(message)
        .find(|line| line.starts_with(who) && line.ends_with(" tests passed"))?;
    let words: Vec<_> = line[who.len()..].split_whitespace().collect();
    Some((words[0].parse().ok()?, words[2].parse().ok()?))
}

/// What an initcall of that name returned, by `initcall_debug`.
fn returned(log: &str, initcall: &str) -> Option<i32> {
    let start = format!("initcall {initcall}+");
    log.lines().map(message).find_map(|line| {
        let (_, rest) = line.strip_prefix(&start)?.split_once(" returned ")?;
        rest.split(' ').next()?.parse().ok()
    })
}

/// Older tests that say so when something failed.
fn old_failures(log: &str) -> Vec<&str> {
    const WHO: [&str; 4] = ["test_", "alg: ", "crc32", "min_heap_test: "];
    const HOW: [&str; 4] = ["failed", "FAIL", "ERROR", "error: "];
    let failed = |line: &&str| {
        let line = message(line);
        let test = WHO.iter().any(|who| line.starts_with(who));
        let told = test && HOW.iter().any(|how| line.contains(how)) && !line.contains(" 0 failed");
        told || line.starts_with("ERROR: ") || line.contains("Test failed: ")
    };
    log.lines().filter(failed).collect()
}

/// The log of the debug image, from the first line until it was up and had
/// served a file system.
fn boot() -> Option<String> {
    let builder = inside::builder("debug")?;
    let log = Arc::new(Mutex::new(String::new()));
    let sink = log.clone();
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let kernel = builder
            .memory(1 << 30)
            // Tests that are silent when all is well: what their functions return.
            .cmdline("initcall_debug loglevel=8")
            .log(move |text| sink.lock().unwrap().push_str(text))
            .boot();
        let kernel = match kernel {
            Ok(kernel) => kernel,
            Err(error) => {
                done.send(Err(error.to_string())).ok();
                return;
            }
        };
        let mut options = MountOptions::new();
        let mount = options.fstype("tmpfs").mount(&kernel, "tmpfs");
        let mount = mount.expect("tmpfs");
        std::thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                let mount = &mount;
                scope.spawn(move || mount.write(name, vec![0; 100_000]).expect("writes"));
            }
        });
        mount.unmount().expect("unmounts");
        done.send(Ok(())).ok();
    });
    let ended = wait.recv_timeout(LIMIT);
    let log = log.lock().unwrap().clone();
    if let Some(path) = std::env::var_os("TANE_TEST_KUNIT_LOG") {
        std::fs::write(path, &log).expect("writes the log");
    }
    match ended {
        Ok(Ok(())) => Some(log),
        Ok(Err(error)) => panic!("{error}"),
        Err(_) => {
            let last: Vec<_> = log.lines().rev().take(30).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            panic!(
                "not up after {LIMIT:?}; its last lines:\n{}",
                last.join("\n")
            );
        }
    }
}

#[test]
fn the_kernels_own_tests_pass() {
    let Some(log) = boot() else { return };
    let results = ktap(&log);
    println!(
        "kunit: {} passed, {} failed, {} skipped",
        results.passed,
        results.failed.len(),
        results.skipped
    );
    let mut wrong = Vec::new();
    for suite in SUITES {
        if !results.suites.iter().any(|known| known == suite) {
            wrong.push(format!("no suite {suite}"));
        }
    }
    wrong.extend(results.failed.iter().map(|name| format!("failed: {name}")));
    for who in ["XArray:", "maple_tree:", "IDA:"] {
        match tally(&log, who) {
            Some((passed, all)) if passed == all && all > 0 => {
                println!("{who} {passed} of {all} tests passed");
            }
            other => wrong.push(format!("{who} {other:?}")),
        }
    }
    for who in ["test_bitmap", "test_printf", "test_scanf", "test_hexdump"] {
        let passed = log
            .lines()
            .map(message)
            .any(|line| line.starts_with(who) && line.ends_with(" tests passed"));
        if !passed {
            wrong.push(format!("{who} does not say that all passed"));
        }
    }
    for (initcall, good) in OLD {
        match returned(&log, initcall) {
            Some(result) if result == good => {}
            Some(result) => wrong.push(format!("{initcall} returned {result}, not {good}")),
            None => wrong.push(format!("{initcall} did not run")),
        }
    }
    for good in GOOD {
        if !log.lines().any(|line| message(line).starts_with(good)) {
            wrong.push(format!("nowhere \"{good}\""));
        }
    }
    let lines = complaints(&log).into_iter().chain(old_failures(&log));
    let unexpected = lines.filter(|line| !PROVOKED.iter().any(|known| line.contains(known)));
    wrong.extend(unexpected.map(str::to_owned));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_results_knows_good_from_bad() {
    let log = "\
[    0.100000] KTAP version 1
[    0.100000] 1..2
[    0.100000]     KTAP version 1
[    0.100000]     # Subtest: list
[    0.100000]     1..4
[    0.100000]     ok 1 adds
[    0.100000]         ok 1 a parameter
[    0.100000]     ok 2 sorts # SKIP not today
[    0.100000]     not ok 3 deletes
[    0.100000] # list: pass:1 fail:1 skip:1 total:3
[    0.100000] not ok 1 list
[    0.100000] ok 2 empty
[    0.100000] XArray: 12 of 13 tests passed
[    0.100000] test_bitmap: failed 1 out of 3 tests
[    0.100000] Started 10 threads, 0 failed, ok is not a number
[    0.100000] crc32c: 3 self tests failed
[    0.100000] crc32: self tests passed, processed 225944 bytes in 118 nsec
[    0.100000] Test failed: Could not find key 7
[    0.100000] ERROR: 0000000000000001 / 00000002 => 3,4
[    0.100000] initcall test_kstrtox_init+0x0/0x20 returned -22 after 3 usecs
";
    let results = ktap(log);
    assert_eq!(results.suites, ["list", "empty"]);
    assert_eq!((results.passed, results.skipped), (1, 1));
    assert_eq!(results.failed, ["deletes", "list"]);
    assert_eq!(tally(log, "XArray:"), Some((12, 13)));
    assert_eq!(tally(log, "IDA:"), None);
    assert_eq!(old_failures(log).len(), 4);
    assert_eq!(returned(log, "test_kstrtox_init"), Some(-libc::EINVAL));
    assert_eq!(returned(log, "test_kstrtox"), None);
}
