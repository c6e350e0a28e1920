//! Linux's own tests of what programs ask of it, each a program, of the source that images
//! are built from. A unit is one of them.

use super::{image, runs, users, Extent, Outcome, Suite};
use crate::common::run::applets;
use crate::common::*;
use std::path::{Path, PathBuf};

pub const SUITE: Suite = Suite {
    name: "kselftest",
    about: "Linux's own tests of system calls (programs of `tools/testing/selftests` that \
            compile by themselves), on the image `container`",
    make,
    part: PART,
    other_version: || None,
    kernel: "container",
    read,
};

/// Without those for other machines, for what takes the host's clock, of speed, and three
/// that take a minute (pidfd_test, pidfd_poll_test, vmaccess).
const PROGRAMS: &[&str] = &[
    "clone3/clone3",
    "clone3/clone3_cap_checkpoint_restore",
    "clone3/clone3_clear_sighand",
    "clone3/clone3_set_tid",
    "core/close_range_test",
    "core/unshare_test",
    "exec/load_address",
    "exec/non-regular",
    "exec/null-argv",
    "exec/recursion-depth",
    "filesystems/epoll/epoll_wakeup_test",
    "kcmp/kcmp_test",
    "mincore/mincore_selftest",
    "mount/nosymfollow-test",
    "mount/unprivileged-remount-test",
    "mqueue/mq_open_tests",
    "nsfs/owner",
    "nsfs/pidns",
    "pid_namespace/regression_enomem",
    "pidfd/pidfd_fdinfo_test",
    "pidfd/pidfd_getfd_test",
    "pidfd/pidfd_open_test",
    "pidfd/pidfd_setns_test",
    "pidfd/pidfd_wait",
    "prctl/set-process-name",
    "proc/fd-001-lookup",
    "proc/fd-002-posix-eq",
    "proc/fd-003-kthread",
    "proc/proc-2-is-kthread",
    "proc/proc-empty-vm",
    "proc/proc-fsconfig-hidepid",
    "proc/proc-loadavg-001",
    "proc/proc-multiple-procfs",
    "proc/proc-self-isnt-kthread",
    "proc/proc-self-map-files-001",
    "proc/proc-self-map-files-002",
    "proc/proc-self-syscall",
    "proc/proc-self-wchan",
    "proc/proc-subset-pid",
    "proc/proc-tid0",
    "proc/proc-uptime-001",
    "proc/proc-uptime-002",
    "proc/read",
    "proc/self",
    "proc/setns-dcache",
    "proc/setns-sysvipc",
    "proc/thread-self",
    "ptrace/get_syscall_info",
    "ptrace/peeksiginfo",
    "rlimits/rlimits-per-userns",
    "sched/cs_prctl_test",
    "seccomp/seccomp_bpf",
    "sigaltstack/sas",
    "splice/default_file_splice_read",
    "timens/clock_nanosleep",
    "timens/exec",
    "timens/futex",
    "timens/procfs",
    "timens/timens",
    "timens/timer",
    "timens/timerfd",
    "timens/vfork_exec",
    "timers/nanosleep",
    "timers/posix_timers",
    "timers/threadtest",
    "vDSO/vdso_test_clock_getres",
    "vDSO/vdso_test_correctness",
    "x86/check_initial_reg_state",
    "x86/corrupt_xstate_header",
    "x86/mov_ss_trap",
    "x86/nx_stack",
    "x86/ptrace_syscall",
    "x86/sigaltstack",
    "x86/sigreturn",
    "x86/sigtrap_loop",
    "x86/single_step_syscall",
    "x86/syscall_arg_fault",
    "x86/syscall_nt",
    "x86/syscall_numbering",
    "x86/test_FCMOV",
    "x86/test_mremap_vdso",
    "x86/test_syscall_vdso",
];

/// What a part has of them, by directory.
const PART: &[&str] = &[
    "core", "kcmp", "nsfs", "pidfd", "ptrace", "seccomp", "timens", "vDSO",
];

/// What some are compiled with besides.
const WITH: &[(&str, &str)] = &[
    ("vDSO/vdso_test_correctness", "-ldl"),
    ("x86/test_syscall_vdso", "x86/thunks.S"),
];

const RUN: &str = r#"#!/bin/sh
cd /tmp || exit 2
busybox timeout -s KILL 60 "/kselftest/$1" </dev/null 2>&1
echo "
= $?"
"#;

/// The tree that xtask has unpacked.
fn source() -> Option<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build");
    let entries = std::fs::read_dir(build).ok()?;
    let mut trees = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"linux-"))
        .map(|entry| entry.path().join("tools/testing/selftests"));
    trees.find(|tests| tests.join("seccomp/seccomp_bpf.c").is_file())
}

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let source = source().ok_or("xtask has unpacked no Linux source into build/")?;
    if !Path::new("/usr/include/sys/capability.h").is_file() {
        return Err("there is no sys/capability.h (Debian: libcap-dev)".into());
    }
    let part = |name: &str| PART.iter().any(|dir| name.starts_with(&format!("{dir}/")));
    run::root(s, "root");
    applets(s, "root");
    let script =
        "mkdir -p \"$3\" && cd \"$1\" && cc -O1 -w -no-pie -D_GNU_SOURCE -I. -idirafter ../../include \
                  -I.. -o \"$3/$(basename \"$2\")\" \"$2.c\" $4 -static -lpthread -lrt -lcap";
    let mut units = Vec::new();
    for name in PROGRAMS
        .iter()
        .filter(|name| extent == Extent::All || part(name))
    {
        let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
        let with = WITH.iter().find(|(of, _)| of == name);
        let mut cc = s.tool("sh");
        cc.args(["-c", script, "sh"]).arg(&source).arg(name);
        cc.arg(s.join(&format!("root/kselftest/{dir}")));
        succeed(cc.arg(with.map_or("", |(_, with)| with)));
        units.push((*name).to_owned());
    }
    runs(s, RUN);
    users(s);
    image(s);
    Ok(units)
}

/// The Test Anything Protocol, and for programs that do not speak it their exit code.
fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut last = "";
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["ok", _, ..] if words.contains(&"SKIP") => outcome.skipped += 1,
            ["ok", _, ..] => outcome.passed += 1,
            ["not", "ok", number, ..] => {
                let name = words[3..].join("_");
                let name = name.trim_start_matches("-_").to_owned();
                let name = if name.is_empty() {
                    number.to_owned()
                } else {
                    name
                };
                outcome.failed.insert(name, last.to_owned());
            }
            ["=", "0"] if outcome.passed + outcome.skipped + outcome.failed.len() == 0 => {
                outcome.passed = 1;
            }
            ["=", "4"] if outcome.failed.is_empty() => outcome.skipped += 1,
            ["=", code] if code != "0" && outcome.failed.is_empty() => {
                let why = format!("ended with {code}: {last}");
                outcome.failed.insert(String::new(), why);
            }
            _ => {}
        }
        if !line.trim().is_empty() {
            last = line;
        }
    }
    outcome
}
