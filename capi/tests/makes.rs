//! Images that the C library makes are those of the command, byte for byte.

mod common;

use common::{has_kernel, libraries, run, source};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let name = format!("tane-makes-{}", std::process::id());
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

/// The command, of the same build as the libraries.
fn command() -> PathBuf {
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

fn plant(tree: &Path) {
    std::fs::create_dir_all(tree.join("below/deeper")).expect("mkdir");
    let write = |name: &str, data: &[u8]| {
        std::fs::write(tree.join(name), data).expect("write");
    };
    write("plain", b"a few bytes\n");
    write("empty", b"");
    let noise: Vec<u8> = (0..3_000_001u64).map(|i| ((i * i) >> 9) as u8).collect();
    write("below/large", &noise);
    std::fs::hard_link(tree.join("plain"), tree.join("below/again")).expect("link");
    std::os::unix::fs::symlink("../plain", tree.join("below/link")).expect("a link");
}

#[test]
fn an_image_made_in_c_is_the_one_that_the_command_makes() {
    let scratch = Scratch::new();
    let program = scratch.0.join("program");
    let mut cc = Command::new("cc");
    let strict = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];
    cc.args(strict).arg("-I").arg(source("include"));
    cc.arg("-o").arg(&program).arg(source("tests/make.c"));
    run(cc.arg("-L").arg(libraries()).arg("-ltane"));
    if !has_kernel() {
        return;
    }
    let tree = scratch.0.join("tree");
    std::fs::create_dir(&tree).expect("mkdir");
    plant(&tree);
    let (ours, other) = (scratch.0.join("c.img"), scratch.0.join("command.img"));
    let mut make = Command::new(&program);
    make.env("LD_LIBRARY_PATH", libraries());
    let mut tane = Command::new(command());
    if let Ok(kernel) = tane::default_image() {
        make.env("TANE_IMAGE", &kernel);
        tane.env("TANE_IMAGE", &kernel);
    }
    let said = run(make.arg(&tree).arg(&ours).arg("ext4"));
    let words = [
        "make-image",
        "--json",
        "--owner",
        "12:34",
        "--label",
        "from C",
    ];
    tane.args(words).args(["--epoch", "1700000000"]);
    let told = run(tane.arg(&tree).arg(&other));
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(words[0], told["size"].to_string());
    assert_eq!(Some(words[1]), told["uuid"].as_str());
    let read = |path: &Path| std::fs::read(path).expect("an image");
    assert!(read(&ours) == read(&other), "the images differ");
    let mut check = Command::new("e2fsck");
    check.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    run(check.arg("-fn").arg(&ours));
}
