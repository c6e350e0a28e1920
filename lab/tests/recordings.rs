//! Recordings of several threads: calls, tracepoints and probes, from here to there.

mod common;

use common::{assert_healthy, boot, kernel, tmp};
use tane_lab::{boot_words, booted, Error, Record, Trace};

/// The events of this name.
fn named<'r>(record: &'r Record, name: &str) -> Vec<&'r tane_lab::Event> {
    record.events.iter().filter(|e| e.name == name).collect()
}

#[test]
fn calls_and_events_are_recorded_from_here_to_there_and_again() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let recording = lab
        .recording()
        .events("syscalls:*")
        .probe("vfs_write", "size=$arg3:u64");
    // This image has no events of system calls.
    assert!(matches!(recording.prepare(), Err(Error::Refused { .. })));
    let recording = lab.recording().events("kmem:kmem_cache_alloc").stacks(true);
    let recording = recording.probe("vfs_write", "size=$arg3:u64");
    let recorder = recording
        .return_probe("vfs_write", "got=$retval:s64")
        .prepare()
        .unwrap();
    file.write_at(b"before", 0).unwrap();
    for text in ["one", "three"] {
        recorder.start().unwrap();
        file.write_at(text.as_bytes(), 0).unwrap();
        recorder.stop().unwrap();
        file.write_at(b"between", 0).unwrap();
    }
    let record = recorder.read().unwrap();
    assert_eq!(
        (record.lost_calls, record.lost_events, record.lost_hits),
        (0, 0, 0)
    );
    let [thread] = &record.threads[..] else {
        panic!("{record:?}")
    };
    let writes = thread
        .calls
        .calls
        .iter()
        .filter(|c| c.function == "shmem_file_write_iter");
    assert!(writes.count() >= 2, "{}", thread.calls);
    let fields = |name: &str| -> Vec<String> {
        let events = named(&record, "vfs_write").into_iter();
        events
            .filter_map(|e| e.field(name))
            .map(str::to_owned)
            .collect()
    };
    // Neither what was before, nor how the recording began and ended, which are writes.
    assert_eq!(fields("size"), ["3", "5"], "{record:?}");
    assert_eq!(fields("got"), ["3", "5"], "{record:?}");
    let probe = named(&record, "vfs_write")[0];
    let from = probe
        .stack
        .iter()
        .any(|function| function == "sys_pwrite64");
    assert!(from, "{probe:?}");
    drop(recorder);
    // Nothing is left, so that all of it can be there again.
    assert!(lab.functions().unwrap().len() > 1000);
    let recorder = lab.recording().probe("vfs_write", "").prepare().unwrap();
    recorder.start().unwrap();
    file.write_at(b"again", 0).unwrap();
    assert!(!named(&recorder.read().unwrap(), "vfs_write").is_empty());
    drop(recorder);
    assert_healthy(&kernel);
}

#[test]
fn threads_that_begin_meanwhile_are_recorded_and_those_of_the_kernel_if_asked_for() {
    for everyone in [false, true] {
        let Some(kernel) = boot(2, "") else { return };
        let lab = kernel.trace().unwrap();
        let tmp = tmp(&kernel);
        let recorder = lab.recording().everyone(everyone).prepare().unwrap();
        recorder.start().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| tmp.write("other", "text").unwrap());
        });
        // A worker of the kernel's does this.
        tmp.write("file", "text").unwrap();
        let proc = kernel.tree("/proc").unwrap();
        proc.write("sys/vm/drop_caches", "3").unwrap();
        let record = recorder.read().unwrap();
        let writers = record.threads.iter().filter(|thread| {
            let mut calls = thread.calls.calls.iter();
            calls.any(|call| call.function == "shmem_file_write_iter")
        });
        assert_eq!(writers.count(), 2, "{everyone}");
        let kernels = record
            .threads
            .iter()
            .any(|thread| thread.name.starts_with("kworker"));
        assert!(everyone || !kernels);
        drop(recorder);
        assert_healthy(&kernel);
    }
}

#[test]
fn a_recording_since_the_boot_has_the_boot_and_what_follows_its_start() {
    let Some(image) = tane_test_support::image("lab") else {
        return;
    };
    let words = boot_words(&[], 4, 64 << 20);
    let kernel = tane::Kernel::builder()
        .image(image)
        .memory(512 << 20)
        .cmdline(&words);
    let kernel = kernel.boot().unwrap();
    booted(&kernel);
    let lab = kernel.trace().unwrap();
    let recorder = lab.recording().since_boot().prepare().unwrap();
    let tmp = tmp(&kernel);
    tmp.write("between", "text").unwrap();
    recorder.start().unwrap();
    tmp.metadata("between").unwrap();
    let record = recorder.read().unwrap();
    let calls: Vec<_> = record.threads.iter().flat_map(|t| &t.calls.calls).collect();
    let has = |function: &str| calls.iter().any(|call| call.function == function);
    assert!(has("do_one_initcall") && has("__se_sys_statx"));
    assert!(!has("vfs_write") && !has("tracing_set_tracer"));
    drop(recorder);
    assert_healthy(&kernel);
}
