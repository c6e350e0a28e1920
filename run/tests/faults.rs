//! Programs that ask for trouble get the same trouble on this kernel and the host's.

mod common;

use common::{here, start};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tane_test_support::eventually;

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("faults.c"))
}

#[track_caller]
fn same(word: &str) {
    common::same(program(), &[word], b"");
}

#[test]
fn flags_that_a_program_sets_outlive_calls_and_faults() {
    same("flags");
}

#[test]
fn an_access_that_is_not_aligned_is_a_fault_where_a_program_wants_it() {
    same("unaligned");
}

#[test]
fn memory_beyond_the_end_of_its_file_is_a_bus_error() {
    same("beyond");
}

#[test]
fn signal_stacks_are_left_as_they_were_found() {
    same("stacks");
}

#[test]
fn new_memory_is_what_was_touched_and_at_most_as_much_again() {
    for cpus in [1, 2] {
        common::same_of(cpus, program(), &["touched"], b"");
    }
}

#[test]
fn new_memory_that_is_touched_in_a_row_is_few_faults() {
    common::with_kernel(program(), |kernel| {
        let faults = |word: &str| {
            let before = kernel.program_counts().faults;
            assert_eq!(here(kernel, &["/bin/program", word], b"").code, 0);
            kernel.program_counts().faults - before
        };
        // What any program takes, and 1,024 pages.
        let (any, all) = (faults("flags"), faults("row"));
        assert!(all < any + 100, "{any}, {all}");
    });
}

#[test]
fn a_signal_comes_wherever_its_thread_is() {
    common::with_kernel(program(), |kernel| {
        let ours = here(kernel, &["/bin/program", "every-moment", "500"], b"");
        assert_eq!((ours.code, ours.output.as_str()), (0, "500\n"), "{ours:?}");
    });
}

/// Host threads that run a program, by their name.
fn program_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("this process's threads");
    let names = threads.flatten().map(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.unwrap_or_default()
    });
    names
        .filter(|name| name.trim_end() == "tane-program")
        .count()
}

#[test]
fn a_program_that_computes_ends_with_its_kernel() {
    common::with_mortal_kernel(program(), |kernel| {
        let (child, output, _) = start(kernel, &["/bin/program", "loop"], b"");
        eventually("it computes", || output.text() == "going\n");
        assert!(program_threads() > 0);
        kernel.halt();
        eventually("the program's thread ends", || program_threads() == 0);
        let error = child.wait().expect_err("its kernel is gone");
        assert_eq!(error.raw_os_error(), Some(libc::ESHUTDOWN), "{error}");
    });
}
