//! What tests of the kernel itself share: its images by name, raw system calls
//! with results, and the host's tools by the package that has them.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Command;
use tane::{Kernel, Tree};
pub use tane_test_support::image;

/// What to boot that image with, `TANE_TEST_CMDLINE` included; more may be added.
#[track_caller]
pub fn builder(config: &str) -> Option<tane::Builder> {
    let mut builder = Kernel::builder().image(image(config)?);
    if let Ok(words) = std::env::var("TANE_TEST_CMDLINE") {
        builder = builder.cmdline(&words);
    }
    Some(if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder.log(|text| eprint!("{text}"))
    } else {
        builder
    })
}

/// What the torture image starts at boot unless it is left out, by the function that
/// does: one may run at a time.
pub const TORTURES: [(&str, &str); 4] = [
    ("rcutorture", "rcu_torture_init"),
    ("locktorture", "lock_torture_init"),
    ("scftorture", "scf_torture_init"),
    ("ww_mutex", "test_ww_mutex_init"),
];

/// The words that leave out all tortures but this one.
pub fn only_torture(who: &str) -> String {
    let others = TORTURES.iter().filter(|(known, _)| *known != who);
    let others: Vec<_> = others.map(|(_, init)| *init).collect();
    format!("initcall_blacklist={}", others.join(","))
}

/// A kernel with everything in it.
#[track_caller]
pub fn default_kernel() -> Option<Kernel> {
    Some(builder("default")?.boot().unwrap_or_else(|e| panic!("{e}")))
}

/// A system call, or its errno.
pub fn call(kernel: &Kernel, nr: i64, args: &[u64]) -> Result<u64, i32> {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    // SAFETY: the tests pass pointers to what the call reads and writes.
    match unsafe { kernel.syscall(nr, six) } {
        result @ 0.. => Ok(result as u64),
        errno => Err(-errno as i32),
    }
}

/// A system call that must succeed.
#[track_caller]
pub fn ok(kernel: &Kernel, nr: i64, args: &[u64]) -> u64 {
    call(kernel, nr, args).unwrap_or_else(|errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        panic!("system call {nr}: {error}\n{}", kernel.last_words())
    })
}

/// Memory for a system call to read.
pub fn at<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>() as u64
}

/// Memory for a system call to write.
pub fn into<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>() as u64
}

/// /dev of this kernel.
pub fn dev(kernel: &Kernel) -> Tree {
    kernel.tree("/dev").expect("/dev")
}

/// Lines in a kernel's log that no healthy kernel writes.
pub fn complaints(log: &str) -> Vec<&str> {
    const MARKS: [&str; 13] = [
        "WARNING:",
        "BUG:",
        "BUG ",
        "Oops",
        "possible recursive locking",
        "possible circular locking",
        "inconsistent lock state",
        "suspicious RCU usage",
        "INFO: rcu",
        "rcu_sched self-detected stall",
        "blocked for more than",
        "soft lockup",
        "workqueue lockup",
    ];
    let lines: Vec<_> = log.lines().collect();
    let complains = |at: &usize| {
        let marked = MARKS.iter().any(|mark| lines[*at].contains(mark));
        marked && !is_miscounted(&lines[*at..])
    };
    let complaints = (0..lines.len()).filter(complains);
    complaints.map(|at| lines[at]).collect()
}

/// Whether a log goes on with a warning that a CPU went with a task left on it, where
/// all tasks on it are accounted for but one. The one is the server that keeps ordinary
/// tasks from starving: Linux counts it as a task before 6.17 (its commit 52d15521eb75),
/// and stops it right after the warning.
fn is_miscounted(lines: &[&str]) -> bool {
    if !lines[0].contains("sched_cpu_dying") {
        return false;
    }
    let Some(at) = lines
        .iter()
        .position(|line| line.contains(" enqueued tasks ("))
    else {
        return false;
    };
    let named = |line: &&&str| line.contains("pid: ") && line.contains(", name: ");
    let named = lines[at + 1..].iter().take_while(named).count();
    lines[at].contains(&format!(" enqueued tasks ({} total)", named + 1))
}

/// Run it; it must succeed. What it said, on both channels.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Where cargo put an example; it does not build it for one test by itself.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let place = test.ancestors().nth(2).expect("target/PROFILE");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-q", "-p", "tane", "--example", name]);
    cargo
        .arg("--target-dir")
        .arg(place.parent().expect("target"));
    if place.ends_with("release") {
        cargo.arg("--release");
    }
    run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    place.join("examples").join(name)
}
