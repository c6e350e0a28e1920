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

fn addresses() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("addresses.c"))
}

/// On a kernel of one CPU, and on one of two.
fn with_kernel(test: impl Fn(&Kernel)) {
    for cpus in [1, 2] {
        common::with_kernel_of(cpus, program(), &test);
    }
}

#[track_caller]
fn same(word: &str) {
    for cpus in [1, 2] {
        common::same_of(cpus, program(), &[word], b"");
    }
}

#[test]
fn programs_that_want_the_same_address_have_memory_of_their_own_there() {
    for cpus in [1, 2] {
        common::same_of(cpus, addresses(), &["addresses"], b"");
    }
}

#[test]
fn programs_of_their_own_addresses_compute_and_talk_beside_each_other() {
    let tried: [(&str, &[&str]); 2] = [
        ("addresses.c", &["beside", "addresses"]),
        ("processes.c", &["pipes", "spawns", "copies"]),
    ];
    for (source, words) in tried {
        let program = common::movable(source);
        for word in words {
            for cpus in [1, 2] {
                common::same_of(cpus, &program, &[word], b"");
            }
        }
    }
}

#[test]
fn the_time_that_a_program_computes_is_told() {
    same("times");
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

/// Host threads of this process that run programs.
fn carriers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let names = tasks.filter_map(|task| std::fs::read(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with(b"tane-program"))
        .count()
}

#[test]
fn processes_that_wait_take_no_thread_of_the_host() {
    with_kernel(|kernel| {
        let ours = here(kernel, &["/bin/program", "wait"], b"");
        assert_eq!(ours.code, 0, "{ours:?}");
        tane_test_support::eventually("few threads", || carriers() < 20);
        // All are there.
        let mut ended = 0;
        // SAFETY: no pointer is passed.
        let kill =
            unsafe { kernel.syscall(libc::SYS_kill, [u64::MAX, libc::SIGKILL as u64, 0, 0, 0, 0]) };
        assert_eq!(kill, 0);
        loop {
            let args = [u64::MAX, 0, libc::__WALL as u64, 0, 0, 0];
            // SAFETY: nothing is written.
            match unsafe { kernel.syscall(libc::SYS_wait4, args) } {
                1.. => ended += 1,
                _ => break,
            }
        }
        assert_eq!(ended, 100);
    });
    tane_test_support::eventually("they end with the last process", || carriers() == 0);
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
            // Whether a shell tells of it depends on who is faster.
            "exec 2>/dev/null; busybox sleep 60 & kill $!; wait $!; echo $?",
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
    let program = common::compiled("costs.c");
    common::with_kernel_of(1, &program, |kernel| {
        let ours = here(kernel, &["/bin/program"], b"");
        let theirs = common::on_the_host(&program, &[], b"");
        eprintln!("here\n{}the host\n{}", ours.output, theirs.output);
    });
}
