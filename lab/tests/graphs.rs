//! Call graphs: the functions that a call goes through, and how long each takes.

mod common;

use common::{assert_healthy, boot, kernel, tmp, Done};
use tane_lab::{Calls, Error, Trace};

/// The indices of what is around a call, the innermost first.
fn around(calls: &Calls, index: usize) -> Vec<&str> {
    let mut depth = calls.calls[index].depth;
    let before = calls.calls[..index].iter().rev();
    let outer = before.filter(|call| {
        let outer = call.depth < depth;
        depth = depth.min(call.depth);
        outer
    });
    outer.map(|call| call.function.as_str()).collect()
}

fn find(calls: &Calls, function: &str) -> usize {
    let found = calls
        .calls
        .iter()
        .position(|call| call.function == function);
    found.unwrap_or_else(|| panic!("no {function}:\n{calls}"))
}

#[test]
fn a_graph_has_the_functions_of_a_call_in_each_other() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let (written, calls) = lab.graph().run(|| file.write_at(b"hello", 0)).unwrap();
    assert_eq!(written.unwrap(), 5);
    assert_eq!(calls.lost, 0);
    let write = find(&calls, "vfs_write");
    let inner = find(&calls, "shmem_file_write_iter");
    assert!(around(&calls, inner).contains(&"vfs_write"), "{calls}");
    assert_eq!(calls.calls[write].value, 5);
    // What is inside takes no longer, and lies within.
    for n in 0..calls.calls.len() {
        let call = &calls.calls[n];
        if let Some(outer) = calls.calls[..n].iter().rfind(|o| o.depth < call.depth) {
            let end = |c: &tane_lab::Call| c.start + c.duration;
            let within = outer.start <= call.start && end(call) <= end(outer);
            assert!(within, "{call:?} in {outer:?}:\n{calls}");
        }
    }
    let text = calls.to_string();
    assert!(text.contains("vfs_write"));
    // Neither how the recording was begun nor how it ended is in it.
    assert!(!text.contains("tracing"), "{calls}");
    assert_healthy(&kernel);
}

#[test]
fn a_graph_says_where_an_error_comes_from() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let (opened, calls) = lab.graph().run(|| tmp.open("missing")).unwrap();
    assert_eq!(opened.err().map(|e| e.errno()), Some(libc::ENOENT));
    let failed = calls
        .calls
        .iter()
        .filter(|c| c.errno() == Some(libc::ENOENT));
    assert!(failed.count() > 0, "{calls}");
    assert!(calls.to_string().contains(" = -2"), "{calls}");
}

#[test]
fn a_graph_can_be_of_some_functions_and_levels_only() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let graph = lab.graph().function("shmem_file_write_iter").depth(2);
    let (_, calls) = graph.run(|| file.write_at(b"hello", 0)).unwrap();
    assert_eq!(calls.calls[0].function, "shmem_file_write_iter");
    assert!(calls.calls.iter().all(|call| call.depth < 2), "{calls}");
    assert!(calls.calls.iter().any(|call| call.depth == 1), "{calls}");
    let wrong = lab.graph().function("no_such_function").run(|| ());
    assert!(matches!(wrong, Err(Error::Refused { .. })));
    // And then of all again.
    let (_, calls) = lab.graph().run(|| file.write_at(b"hello", 0)).unwrap();
    find(&calls, "vfs_write");
}

#[test]
fn a_trace_viewer_reads_the_same_calls() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let (_, calls) = lab.graph().run(|| tmp.write("file", "text")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&calls.chrome()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), calls.calls.len());
    for (event, call) in events.iter().zip(&calls.calls) {
        assert_eq!(event["name"], call.function);
        assert_eq!(event["ph"], "X");
    }
}

#[test]
fn what_does_not_fit_is_said_to_be_missing() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let small = lab.graph().buffer(64 << 10);
    let many = || (0..3000).for_each(|_| tmp.write("file", "text").unwrap());
    let ((), calls) = small.run(many).unwrap();
    assert!(calls.lost > 0);
    assert!(calls.to_string().starts_with("calls are missing"));
    assert_healthy(&kernel);
}

#[test]
fn a_graph_of_one_thread_has_nothing_of_another() {
    let Some(kernel) = boot(2, "") else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                tmp.metadata("file").unwrap();
            }
        });
        for _ in 0..20 {
            let (written, calls) = lab.graph().run(|| file.write_at(b"hello", 0)).unwrap();
            written.unwrap();
            find(&calls, "vfs_write");
            assert!(
                !calls.calls.iter().any(|c| c.function == "vfs_statx"),
                "{calls}"
            );
        }
    });
    assert_healthy(&kernel);
}

#[test]
fn a_kernel_without_tracers_says_which_image_has_them() {
    let Some(image) = tane_test_support::image("tiny") else {
        return;
    };
    let kernel = tane::Kernel::builder().image(image).boot().unwrap();
    let Err(error) = kernel.trace() else {
        panic!("tracers")
    };
    assert!(matches!(error, Error::NoTracers));
    assert!(error.to_string().contains("image lab"));
}
