//! Programs trace programs by ptrace(2), as on the host.

mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn tracer() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("tracer.c"))
}

fn tracees() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("tracees.c"))
}

#[track_caller]
fn same(program: &Path, word: &str) {
    common::same(program, &[word], b"");
}

#[test]
fn a_tracer_sees_each_call_with_its_arguments_and_its_result() {
    same(tracer(), "calls");
}

#[test]
fn a_tracer_changes_calls_and_their_results_and_takes_them_away() {
    same(tracer(), "changes");
}

#[test]
fn a_tracer_makes_its_tracees_calls_itself() {
    same(tracer(), "emulates");
}

#[test]
fn a_tracer_goes_instruction_by_instruction() {
    same(tracer(), "steps");
}

#[test]
fn a_tracer_sets_breakpoints_and_takes_them_back() {
    same(tracer(), "breaks");
}

#[test]
fn a_tracer_reads_and_writes_vector_registers() {
    same(tracer(), "vectors");
}

#[test]
fn a_tracer_comes_to_a_program_that_runs_and_leaves_it() {
    same(tracees(), "seizes");
}

#[test]
fn a_tracer_chooses_which_signals_arrive() {
    same(tracees(), "signals");
}

#[test]
fn what_a_tracee_starts_is_its_tracers_too() {
    same(tracees(), "others");
}

#[test]
fn proc_tells_the_call_that_a_program_waits_in() {
    same(tracees(), "file");
}

#[test]
fn the_dump_of_a_program_that_dies_has_its_registers() {
    common::with_kernel(tracees(), |kernel| {
        let ours = common::here(kernel, &["/bin/program", "core"], b"");
        let said = "0x84\n4 1234567 1234567\n";
        assert_eq!(
            (ours.output.as_str(), ours.code),
            (said, 0),
            "{}",
            kernel.dmesg()
        );
    });
}
