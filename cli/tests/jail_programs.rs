//! Promises about other projects' programs that the command starts, in its jail.

mod common;

use common::*;

#[test]
fn a_program_that_checks_an_image_can_open_nothing_else() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/file", b"a file");
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    s.write("secret", b"a secret");
    let script = "#!/bin/sh\ncat secret\necho new > new\necho new > disk.img\nexit 0\n";
    let program = s.write("bin/e2fsck", script.as_bytes());
    succeed(s.tool("chmod").arg("+x").arg(program));
    let places = format!(
        "{}:{}",
        s.join("bin").display(),
        std::env::var("PATH").expect("PATH")
    );
    let before = s.read("disk.img");
    let run = |options: &[&str]| {
        let mut command = s.tane();
        command.env("PATH", &places).env("TMPDIR", s.join("bin"));
        text(&succeed(command.args(options).args(["-v", "fsck", "disk.img"])).stderr)
    };
    let said = run(&[]);
    assert!(said.contains("secret: Permission denied"), "{said}");
    assert!(!s.join("new").exists() && s.read("disk.img") == before);
    let said = run(&["--no-jail"]);
    assert!(said.contains("a secret"), "{said}");
    assert!(s.join("new").exists());
    // Nothing is left of the directory for temporary files.
    tane_test_support::eventually("it is gone", || {
        let names = std::fs::read_dir(s.join("bin")).expect("a listing");
        names.count() == 1
    });
}

#[test]
fn a_program_that_makes_an_image_can_open_nothing_else() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    for (name, text) in [
        ("tree/file", "a file"),
        ("secret", "a secret"),
        ("out/secret", "a secret"),
    ] {
        s.write(name, text.as_bytes());
    }
    let script =
        "#!/bin/sh\ncat tree/file >&2\ncat secret out/secret >&2\necho new > new\nexit 1\n";
    let program = s.write("bin/mke2fs", script.as_bytes());
    succeed(s.tool("chmod").arg("+x").arg(program));
    let path = std::env::var("PATH").expect("PATH");
    let places = format!("{}:{path}", s.join("bin").display());
    let run = |options: &[&str]| {
        let mut command = s.tane();
        command.env("PATH", &places).args(options);
        command.args(["make-image", "tree", "out/disk.img"]);
        text(&exit(&mut command, 1).stderr)
    };
    let said = run(&[]);
    assert!(said.contains("a file"), "{said}");
    for name in ["secret", "out/secret"] {
        assert!(
            said.contains(&format!("{name}: Permission denied")),
            "{said}"
        );
    }
    assert!(
        !said.contains("a secret") && !s.join("new").exists(),
        "{said}"
    );
    let said = run(&["--no-jail"]);
    assert!(
        said.contains("a secret") && s.join("new").exists(),
        "{said}"
    );
}
