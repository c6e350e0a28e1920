//! What holds of system calls holds of those that are jumps to the kernel's gate.

mod common;

use common::{here, same_of};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("gate.c"))
}

#[track_caller]
fn same(word: &str) {
    for cpus in [1, 2] {
        same_of(cpus, program(), &[word], b"");
    }
}

#[test]
fn calls_of_all_kinds_get_their_results() {
    same("many");
}

#[test]
fn registers_and_flags_are_as_after_the_instruction() {
    same("registers");
}

#[test]
fn vector_registers_outlive_calls_signals_and_what_the_kernel_does_with_its_own() {
    same("vectors");
}

#[test]
fn threads_call_from_places_that_change_under_them() {
    same("threads");
}

#[test]
fn interrupted_calls_start_again_or_tell_so() {
    same_of(1, program(), &["restarts"], b"");
}

#[test]
fn children_have_the_code_of_their_parents() {
    same_of(1, program(), &["forks"], b"");
}

#[test]
fn code_may_lie_far_into_its_file() {
    same("far");
}

/// Without this the others show nothing.
#[test]
fn calls_that_are_made_often_come_and_go_by_no_signal() {
    common::with_kernel_of(1, program(), |kernel| {
        let outcome = here(kernel, &["/bin/program", "many"], b"");
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let counts = kernel.program_counts();
        let (by_signal, traps) = (counts.calls_by_signal, counts.rewriting_traps);
        // Of 750,000, and 25,000 from a place that cannot be changed.
        assert!(by_signal < 30_000, "{by_signal}");
        // Also behind the calls that take the long way.
        assert!(traps < 1_000, "{traps}");
    });
}

/// The same program on both, for whoever changes this.
#[test]
#[ignore = "prints figures"]
fn what_calls_cost() {
    common::with_kernel_of(1, program(), |kernel| {
        let ours = here(kernel, &["/bin/program", "cost"], b"");
        let theirs = common::on_the_host(program(), &["cost"], b"");
        eprintln!("here\n{}the host\n{}", ours.output, theirs.output);
    });
}
