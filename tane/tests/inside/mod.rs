//! What tests of the kernel itself share: its images by name, raw system calls
//! with results, and the host's tools by the package that has them.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use tane::{Kernel, Tree};

fn says_one(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// The image of this configuration, in `TANE_TEST_IMAGE_DIR` or where
/// `make images` leaves it. None where the tests were told to go without.
pub fn image(config: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("TANE_TEST_IMAGE_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/images"),
        PathBuf::from,
    );
    let path = dir.join(format!("tane-{config}.elf"));
    if path.is_file() {
        return Some(path);
    }
    if says_one("TANE_TEST_WITHOUT_KERNEL") {
        eprintln!("passed over: no {config} image");
        return None;
    }
    panic!(
        "no {}: make images builds it; or set TANE_TEST_WITHOUT_KERNEL=1 to go without",
        path.display()
    );
}

/// What to boot that image with; more may be added.
pub fn builder(config: &str) -> Option<tane::Builder> {
    let builder = Kernel::builder().image(image(config)?);
    Some(if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder.log(|text| eprint!("{text}"))
    } else {
        builder
    })
}

/// A kernel with everything in it.
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
    let complains = |line: &&str| MARKS.iter().any(|mark| line.contains(mark));
    log.lines().filter(complains).collect()
}

/// The host's tool; None where it is missing and the tests were told to go
/// without. Fails naming the Debian package otherwise.
pub fn host_tool(package: &str, name: &str) -> Option<Command> {
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file());
    match found {
        Some(path) => Some(Command::new(path)),
        None if says_one("TANE_TEST_WITHOUT_TOOLS") => {
            eprintln!("passed over: no {name}");
            None
        }
        None => panic!(
            "no {name}: Debian's package {package} has it (make deps); \
             or set TANE_TEST_WITHOUT_TOOLS=1 to go without"
        ),
    }
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
