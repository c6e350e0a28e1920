//! Images that the C library makes are those of the command, byte for byte.

mod common;

use common::{command, compile, has_kernel, libraries, plant, run, Scratch, SHARED};
use std::path::Path;
use std::process::Command;

#[test]
fn an_image_made_in_c_is_the_one_that_the_command_makes() {
    let scratch = Scratch::new("makes");
    let program = scratch.0.join("program");
    compile(&program, "tests/make.c", SHARED);
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
