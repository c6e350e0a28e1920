//! Programs fork, execute others, wait for them and kill them as on the host.

mod common;

use common::{here, put, start};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tane::Kernel;
use tane_run::{end_all, Ending};

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("processes.c"))
}

/// A kernel of one CPU, on which there can be several processes.
fn with_kernel(test: impl FnOnce(&Kernel)) {
    common::with_kernel_of(1, program(), test);
}

#[track_caller]
fn same(word: &str) {
    common::same_of(1, program(), &[word], b"");
}

#[test]
fn a_fork_has_copies_of_all_memory_and_shares_what_is_to_be_shared() {
    same("copies");
}

#[test]
fn pipes_connect_processes() {
    same("pipes");
}

#[test]
fn vfork_and_posix_spawn_borrow_memory_and_tell_what_failed() {
    same("spawns");
}

#[test]
fn signals_between_processes_arrive_and_their_ends_are_told() {
    same("signals");
}

#[test]
fn locks_in_shared_memory_hold_between_processes() {
    same("locks");
}

#[test]
fn processes_that_compute_all_get_on() {
    same("turns");
}

#[test]
fn a_process_whose_threads_compute_forks_and_spawns() {
    same("threads");
}

#[test]
fn a_hundred_processes_are_killed_as_a_group() {
    same("many");
}

#[test]
fn who_is_left_behind_has_another_parent() {
    same("orphan");
    with_kernel(|kernel| {
        let ours = here(kernel, &["/bin/program", "orphans"], b"");
        assert_eq!((ours.code, &*ours.output), (0, "gone\n"), "{ours:?}");
    });
}

#[test]
fn two_programs_run_beside_each_other() {
    with_kernel(|kernel| {
        let (computes, _, _) = start(kernel, &["/bin/program", "leave"], b"");
        assert_eq!(computes.wait().expect("it ends"), Ending::Exited(0));
        for round in 0..3 {
            let (one, said, _) = start(kernel, &["/bin/program", "say", "one"], b"");
            let (two, _, _) = start(kernel, &["/bin/program", "exit", "2"], b"");
            assert_eq!(two.wait().expect("it ends"), Ending::Exited(2), "{round}");
            assert_eq!(one.wait().expect("it ends"), Ending::Exited(0), "{round}");
            assert_eq!(said.text(), "one\n");
        }
        // Or they would keep this kernel.
        end_all(kernel).expect("the first one's");
    });
}

#[test]
fn processes_that_a_program_left_behind_can_all_be_ended() {
    with_kernel(|kernel| {
        let ours = here(kernel, &["/bin/program", "leave"], b"");
        assert_eq!(ours.code, 0, "{ours:?}");
        let child = || {
            let args = [u64::MAX, 0, (libc::WNOHANG | libc::__WALL) as u64, 0, 0, 0];
            // SAFETY: nothing is written.
            unsafe { kernel.syscall(libc::SYS_wait4, args) }
        };
        assert_eq!(child(), 0, "children that go on");
        end_all(kernel).expect("all of them");
        assert_eq!(child(), -i64::from(libc::ECHILD));
        assert_eq!(here(kernel, &["/bin/program", "exit", "4"], b"").code, 4);
    });
}

#[test]
fn a_shell_of_busybox_has_pipelines_substitutions_and_background_jobs() {
    let Some(busybox) = tane_test_support::tool("busybox-static", "busybox") else {
        return;
    };
    let busybox = Path::new(busybox.get_program());
    with_kernel(|kernel| {
        put(kernel, busybox, "/bin/busybox");
        for script in [
            "busybox seq 1 3000 | busybox sort -rn | busybox head -n 3; echo $?",
            "(exit 3); echo $?; false || echo no; echo $(echo a; echo b)",
            "busybox sleep 60 & kill $!; wait $!; echo $?",
            "i=0; while [ $i -lt 20 ]; do (exit $i); i=$((i+1)); done; echo $i $?",
            "busybox yes | busybox head -n 1; cat <<. | busybox tr a-z A-Z\nhere\n.",
            "trap 'echo bye' EXIT; echo one | while read a; do echo $a two; done",
        ] {
            let ours = here(kernel, &["/bin/busybox", "sh", "-c", script], b"");
            let theirs = common::on_the_host(busybox, &["sh", "-c", script], b"");
            assert_eq!(ours, theirs, "{script}: {}", kernel.dmesg());
        }
    });
}

/// The same program on both, for whoever changes this.
#[test]
#[ignore = "prints figures"]
fn what_processes_cost() {
    with_kernel(|kernel| {
        let ours = here(kernel, &["/bin/program", "cost"], b"");
        let theirs = common::on_the_host(program(), &["cost"], b"");
        eprintln!("here\n{}the host\n{}", ours.output, theirs.output);
    });
}
