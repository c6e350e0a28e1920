//! Programs ask their vDSO for the time.

mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| common::compiled("vdso.c"))
}

#[track_caller]
fn same(word: &str) {
    common::same(program(), &[word], b"");
}

#[test]
fn the_vdso_tells_what_calls_tell() {
    same("tells");
}

#[test]
fn signals_and_threads_do_not_disturb_who_asks_the_vdso() {
    same("disturbed");
}

#[track_caller]
fn says(image: &str, word: &str, said: &str) {
    common::with_kernel_of_image(image, 2, program(), |kernel| {
        let ours = common::here(kernel, &["/bin/program", word], b"");
        assert_eq!(
            (ours.output.as_str(), ours.code),
            (said, 0),
            "{}",
            kernel.dmesg()
        );
    });
}

#[test]
fn the_vdso_is_where_its_name_is_and_nobody_writes_to_it() {
    says("default", "maps", "r--p [vvar]\nr-xp [vdso]\n");
}

#[test]
fn a_clock_that_is_set_is_told_so_by_the_vdso() {
    says("default", "set", "200000\n");
}

#[test]
fn the_vdso_knows_of_namespaces_of_time() {
    says("container", "namespace", "50\n0\n");
}

#[test]
fn who_jumps_into_the_hosts_vdso_makes_calls_of_its_own_kernel() {
    says("default", "jumps", "1\n");
}

/// That of the host whose clock takes no call: of others each is a signal.
#[test]
fn the_time_takes_no_call() {
    common::with_kernel(program(), |kernel| {
        kernel.count_programs();
        assert_eq!(
            common::here(kernel, &["/bin/program", "often"], b"").code,
            0
        );
        let counts = kernel.program_counts();
        let asked = |one: &tane::CallCount| i64::from(one.number) == libc::SYS_clock_gettime;
        assert_eq!(counts.calls.iter().find(|one| asked(one)), None);
        assert!(!counts.calls.is_empty());
    });
}
