//! What the tests of the C library's users share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A file of this crate.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What it printed.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

/// Where cargo put the libraries; it does not build them for tests by itself.
pub fn libraries() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let test = std::env::current_exe().expect("this program");
        let place = test.ancestors().nth(2).expect("target/PROFILE").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        // With the program that its workers are.
        let packages = ["-p", "tane-capi", "-p", "tane-worker"];
        cargo
            .args(["build", "-q"])
            .args(packages)
            .arg("--target-dir");
        cargo.arg(place.parent().expect("target"));
        if place.ends_with("release") {
            cargo.arg("--release");
        }
        run(cargo.current_dir(source("")));
        place
    })
}

/// False, and the test is skipped, if nothing is to be run.
#[track_caller]
pub fn has_kernel() -> bool {
    tane_test_support::has_kernel(tane::default_image()).is_some()
}
