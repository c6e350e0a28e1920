//! Programs filter system calls, their own and their children's, as on the host.

mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("seccomp.c"))
}

#[track_caller]
fn same(word: &str) {
    common::same_of_image("container", 2, program(), &[word], b"");
}

#[test]
fn a_filter_answers_calls_with_errors() {
    same("error");
}

#[test]
fn a_filter_sees_all_arguments() {
    same("arguments");
}

#[test]
fn a_filter_has_the_call_signalled_and_the_handler_answers_it() {
    same("caught");
}

#[test]
fn a_filter_ends_threads_and_processes() {
    same("kills");
}

#[test]
fn threads_children_and_what_they_execute_inherit_filters_and_add_to_them() {
    same("inherits");
}

#[test]
fn a_call_for_a_tracer_is_none_where_nobody_traces() {
    same("traced");
}

#[test]
fn a_filter_is_put_on_all_threads_at_once() {
    same("sync");
}

#[test]
fn filters_take_privileges_or_the_promise_to_get_none() {
    same("refuses");
}

#[test]
fn a_filter_sees_numbers_that_no_call_has() {
    same("numbers");
}

#[test]
fn another_process_answers_calls() {
    same("notified");
}

#[test]
fn threads_of_the_host_can_have_no_filter_and_are_told() {
    common::with_kernel_of_image("container", 1, program(), |kernel| {
        let refused = -i64::from(libc::EOPNOTSUPP);
        // SAFETY: they are handed no address.
        let set =
            |number, first, second| unsafe { kernel.syscall(number, [first, second, 0, 0, 0, 0]) };
        assert_eq!(set(libc::SYS_seccomp, 0, 0), refused);
        assert_eq!(set(libc::SYS_seccomp, 1, 0), refused);
        let [option, strict] = [libc::PR_SET_SECCOMP, 1].map(|n| n as u64);
        assert_eq!(set(libc::SYS_prctl, option, strict), refused);
        assert_eq!(set(libc::SYS_prctl, libc::PR_GET_SECCOMP as u64, 0), 0);
    });
}
