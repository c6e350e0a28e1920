//! What the tests of all crates share: a test that cannot run here says so.
//!
//! Rust's harness has no skip at run time, so a test that returns early counts
//! as passed. [`skip`] leaves a line where `scripts/test` finds it, which prints
//! it and counts that test as skipped.
//!
//! Imports of ours: none.

mod bpf;
mod dice;
mod fuse;
pub mod http;
mod namespace;
pub mod nbd;
pub mod nfs;
pub mod ninep;
mod scratch;
mod server;
pub mod sums;

pub use bpf::compile_bpf;
pub use dice::Dice;
pub use fuse::{can_mount, has_fuse};
pub use namespace::in_namespace;
pub use scratch::Scratch;

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// After this something hangs, and a test that waits for it fails instead of
/// waiting for ever. Long, for machines that are slow and busy: no test is about
/// how long anything takes.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// What `make deps` installs.
const INSTALLED: &str = include_str!("../../../scripts/install-deps");

/// Record that this test, or a part of it, does not run: the line
/// `skipped: PROGRAM::TEST: REASON` on stderr and at the end of the file that
/// `TANE_TEST_SKIPPED` names. The caller returns. To be called on the test's own
/// thread, which has its name.
#[track_caller]
pub fn skip(reason: impl Display) {
    let program = std::env::current_exe().expect("this program");
    let program = program.file_name().expect("its name").to_string_lossy();
    let thread = std::thread::current();
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    let reason = reason.to_string().replace('\n', " ");
    let line = format!("skipped: {program}::{test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("TANE_TEST_SKIPPED").map(PathBuf::from) {
        let file = std::fs::File::options().append(true).open(&path);
        // One write, which O_APPEND keeps whole among many programs.
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// Run a program of QEMU's that makes a LUKS header. It measures how fast it hashes, and
/// fails at times because that took no time by the host's clock; then it is run again.
pub fn qemu_luks(qemu: &mut Command) -> Output {
    let timeless = |output: &Output| output.stderr.ends_with(b"accurate CPU usage\n");
    let mut runs = std::iter::repeat_with(|| qemu.output().expect("QEMU"));
    let output = runs.by_ref().take(100).find(|output| !timeless(output));
    output.expect("a clock that goes on")
}

fn says(variable: &str, value: &str) -> bool {
    std::env::var_os(variable).is_some_and(|is| is == value)
}

/// Whether there is a kernel image to test with, as `image` found: no image is
/// a failure, unless `TANE_TEST_WITHOUT_KERNEL=1` says to go without; then the
/// test is skipped, image or not.
#[track_caller]
pub fn has_kernel<E: Display>(image: Result<PathBuf, E>) -> Option<PathBuf> {
    if says("TANE_TEST_WITHOUT_KERNEL", "1") {
        skip("TANE_TEST_WITHOUT_KERNEL=1");
        return None;
    }
    let remedy = "make images builds it; or set TANE_TEST_WITHOUT_KERNEL=1 to go without";
    match image {
        Ok(path) if path.is_file() => Some(path),
        Ok(path) => panic!("no kernel image {}: {remedy}", path.display()),
        Err(error) => panic!("{error}: {remedy}"),
    }
}

/// The kernel image of this configuration, in `TANE_TEST_IMAGE_DIR` or where
/// `make images` leaves it. None, and the test is skipped, where it is to go
/// without.
#[track_caller]
pub fn image(config: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("TANE_TEST_IMAGE_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/images"),
        PathBuf::from,
    );
    has_kernel(Ok::<_, &str>(dir.join(format!("tane-{config}.elf"))))
}

/// Whether this test runs as root; it is skipped otherwise.
#[track_caller]
pub fn has_root() -> bool {
    let root = is_root();
    if !root {
        skip("takes root");
    }
    root
}

pub fn is_root() -> bool {
    // SAFETY: geteuid always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// The host's tool, which Debian has in this package; the test is skipped where
/// it is missing.
///
/// # Panics
///
/// If it is missing under CI (`CI=true`), where all of `scripts/install-deps` is
/// there; or, so that it is, if that script does not install the package.
#[track_caller]
pub fn tool(package: &str, name: &str) -> Option<Command> {
    must_be_installed(package, name);
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        skip_without(package, name);
    }
    found.map(Command::new)
}

/// Skip the test that runs, for want of what a package of Debian has.
///
/// # Panics
///
/// As [`tool`].
#[track_caller]
pub fn skip_without(package: &str, name: &str) {
    must_be_installed(package, name);
    let missing = format!("no {name}: Debian's package {package} has it (make deps)");
    assert!(!says("CI", "true"), "{missing}");
    skip(missing);
}

#[track_caller]
fn must_be_installed(package: &str, name: &str) {
    let mut known = INSTALLED.split([' ', '\t', '\n', '"']);
    assert!(
        known.any(|word| word == package),
        "scripts/install-deps does not install {package}, which has {name}"
    );
}

/// Wait until this holds: what another thread, or the host's kernel, is about to
/// do.
///
/// # Panics
///
/// If it still does not after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this comes true in a process that does nothing else: what it does to itself goes
/// with it. To be a few system calls, and no more.
pub fn child_can(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does system calls alone.
    match unsafe { libc::fork() } {
        0 => {
            let done = work();
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!done)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a live int.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "fork");
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}
