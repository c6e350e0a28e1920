//! Probes: what they count, what they keep, where none may be.

mod common;

use common::{assert_healthy, boot, kernel, tmp, Done};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tane::Kernel;
use tane_lab::{Error, Lab, Probe, Trace};

const GETPPID: i64 = libc::SYS_getppid;

fn getppid(kernel: &Kernel) -> i64 {
    // SAFETY: the call has no arguments.
    unsafe { kernel.syscall(GETPPID, [0; 6]) }
}

/// Probes in the middle of a function, replaced by jumps or not.
fn optimise(kernel: &Kernel, yes: bool) {
    let proc = kernel.tree("/proc").expect("/proc");
    proc.write(
        "sys/debug/kprobes-optimization",
        if yes { "1" } else { "0" },
    )
    .expect("the switch");
}

/// The kernel's list of its probes.
fn list(kernel: &Kernel) -> String {
    let dev = kernel.tree("/dev").expect("/dev");
    dev.create_dir_all("debug").expect("a directory");
    let mut options = tane::MountOptions::new();
    let debug = options.fstype("debugfs").mount(kernel, "none");
    let debug = debug.expect("debugfs");
    let text = debug.read_to_string("kprobes/list").expect("the list");
    debug.unmount().expect("unmounts");
    text
}

/// A probe on the first instruction behind the one that tracers use.
fn inside<'a>(lab: &'a Lab, function: &str) -> Probe<'a> {
    (5..12)
        .find_map(|offset| lab.probe(&format!("{function}+{offset}"), "").ok())
        .expect("an instruction")
}

#[test]
fn a_probe_counts_each_call() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let probe = lab.probe("sys_getppid", "").unwrap();
    for _ in 0..1000 {
        assert!(getppid(&kernel) >= 0);
    }
    assert_eq!(probe.hits().unwrap(), 1000);
    drop(probe);
    assert!(!list(&kernel).contains("getppid"));
    assert_healthy(&kernel);
}

#[test]
fn a_probe_inside_a_function_counts_each_call_by_breakpoint_and_by_jump() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    for by_jump in [false, true] {
        optimise(&kernel, by_jump);
        let probe = inside(&lab, "vfs_write");
        let tmp = tmp(&kernel);
        let file = tmp.create("file").unwrap();
        let start = std::time::Instant::now();
        while list(&kernel).contains("[OPTIMIZED]") != by_jump {
            assert!(
                start.elapsed() < tane_test_support::PATIENCE,
                "{}",
                list(&kernel)
            );
            std::thread::yield_now();
        }
        let before = probe.hits().unwrap();
        for _ in 0..500 {
            file.write_all_at(b"text", 0).unwrap();
        }
        assert_eq!(probe.hits().unwrap() - before, 500, "by jump: {by_jump}");
    }
    assert_healthy(&kernel);
}

#[test]
fn a_probe_keeps_arguments_and_a_return_probe_results() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let sizes = lab.probe("vfs_write", "size=$arg3:u64").unwrap();
    let results = lab.return_probe("vfs_write", "got=$retval:s64").unwrap();
    results.count_by("got").unwrap();
    // The last: how it is told to count is a write, too.
    sizes.count_by("size").unwrap();
    for size in [3, 3, 3, 70] {
        file.write_all_at(&vec![1; size], 0).unwrap();
    }
    let wanted = [("70".to_owned(), 1), ("3".to_owned(), 3)];
    assert_eq!(sizes.counts().unwrap(), wanted);
    let results = results.counts().unwrap();
    assert!(
        wanted.iter().all(|both| results.contains(both)),
        "{results:?}"
    );
    assert_healthy(&kernel);
}

#[test]
fn no_probe_is_put_where_none_may_be() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    for place in [
        "tane_gate_call",      // the way in
        "tane_invalid",        // what a probe's breakpoint runs
        "kprobe_int3_handler", // and what it ends in
        "vfs_write+1",         // inside an instruction
        "no_such_function",
        "vfs_write+100000000",
        "jiffies", // no code
    ] {
        let Err(error) = lab.probe(place, "") else {
            panic!("a probe at {place}");
        };
        let Error::Refused { what, why } = &error else {
            panic!("{place}: {error}");
        };
        assert!(what.contains(place) && !why.is_empty(), "{error}");
    }
    for (place, fields) in [
        ("vfs_write vfs_read", ""),
        ("vfs_write\n-:tane/p0", ""),
        ("", ""),
        ("vfs_write", "a=$arg1\np:x vfs_read"),
        ("vfs_write", "a=%nothing"),
    ] {
        assert!(matches!(
            lab.probe(place, fields),
            Err(Error::Refused { .. })
        ));
    }
    assert_eq!(list(&kernel), "");
    assert_healthy(&kernel);
}

#[test]
fn a_thousand_probes_count_side_by_side() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let functions = lab.functions().unwrap();
    // The names of some are several functions'.
    let mut times = HashMap::new();
    for function in &functions {
        *times.entry(function).or_insert(0) += 1;
    }
    let single = functions.iter().filter(|function| times[function] == 1);
    let probes = single.filter_map(|function| lab.probe(function, "").ok());
    let probes: Vec<_> = probes.take(1000).collect();
    assert_eq!(probes.len(), 1000);
    let tmp = tmp(&kernel);
    for n in 0..20 {
        tmp.write(format!("file{n}"), "text").unwrap();
    }
    let hits: u64 = probes.iter().map(|probe| probe.hits().unwrap()).sum();
    assert!(hits > 0);
    drop(probes);
    assert_eq!(list(&kernel), "");
    assert_healthy(&kernel);
}

#[test]
fn probes_come_and_go_while_two_cpus_run_into_them() {
    let Some(kernel) = boot(2, "") else { return };
    let lab = kernel.trace().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = || {
            let mut calls = 0u64;
            while !done.load(Ordering::Relaxed) {
                assert!(getppid(&kernel) >= 0, "{}", kernel.last_words());
                calls += 1;
            }
            calls
        };
        let ends = Done(&done);
        let workers = [scope.spawn(work), scope.spawn(work)];
        for round in 0..60 {
            optimise(&kernel, round % 3 != 0);
            let entry = lab.probe("sys_getppid", "");
            let after = lab.return_probe("sys_getppid", "value=$retval");
            let middle = inside(&lab, "sys_getppid");
            let entry = entry.expect("a probe");
            drop(after.expect("a probe"));
            let hits = || entry.hits().unwrap() + middle.hits().unwrap();
            let start = std::time::Instant::now();
            while hits() == 0 && kernel.is_alive() {
                assert!(start.elapsed() < tane_test_support::PATIENCE);
                std::thread::yield_now();
            }
        }
        drop(ends);
        for worker in workers {
            assert!(worker.join().expect("a worker") > 0);
        }
    });
    assert_healthy(&kernel);
}
