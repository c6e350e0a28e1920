//! What the tests of the C library's users share.
#![allow(dead_code)] // every test program uses a part of it

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

/// A directory for one test, which is removed with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let name = format!("tane-capi-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How programs are linked with the shared library, and with the static one.
pub const SHARED: &[&str] = &["-ltane", "-lpthread"];
pub const STATIC: &[&str] = &["-l:libtane.a", "-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// A C program of this crate, compiled as strictly as ours are, to `program`.
pub fn compile(program: &Path, file: &str, link: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-g"]);
    cc.args(["-Wall", "-Wextra", "-Werror"]);
    cc.arg("-I").arg(source("include"));
    cc.arg("-o").arg(program).arg(source(file));
    cc.arg("-L").arg(libraries());
    run(cc.args(link));
}

/// The command, of the same build as the libraries.
pub fn command() -> PathBuf {
    let place = libraries();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-q", "-p", "tane-cli", "--target-dir"]);
    cargo.arg(place.parent().expect("target"));
    if place.ends_with("release") {
        cargo.arg("--release");
    }
    run(cargo.current_dir(source("")));
    place.join("tane")
}

/// A checked module of tests/support/module.c, or another file there.
pub fn module(scratch: &Scratch, name: &str) -> PathBuf {
    let kernel = tane_checked_build::kernel_imports().map(str::to_owned);
    let options = tane_checked_build::Options {
        imports: kernel.chain(["twice".to_owned()]).collect(),
        ..Default::default()
    };
    let file = source("../tests/support").join(name).with_extension("c");
    let module = tane_checked_build::build(&[&file], &options);
    let path = scratch.0.join(name).with_extension("tmod");
    std::fs::write(&path, module.unwrap_or_else(|e| panic!("{e}"))).expect("a file");
    path
}

/// Files, large, small and of two names, and links, in directories.
pub fn plant(tree: &Path) {
    std::fs::create_dir_all(tree.join("below/deeper")).expect("mkdir");
    let write = |name: &str, data: &[u8]| {
        std::fs::write(tree.join(name), data).expect("write");
    };
    write("plain", b"a few bytes\n");
    write("empty", b"");
    let noise: Vec<u8> = (0..3_000_001u64).map(|i| ((i * i) >> 9) as u8).collect();
    write("below/large", &noise);
    std::fs::hard_link(tree.join("plain"), tree.join("below/again")).expect("link");
    std::os::unix::fs::symlink("../nowhere", tree.join("below/link")).expect("symlink");
}
