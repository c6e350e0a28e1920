//! Promises of constructors and destructors, of C and of C++: they are called as the host calls
//! them, before main and at the end.

use crate::common::*;
use crate::libc::musl;
use std::process::Command;

fn sources(s: &Scratch) {
    s.write("constructors.c", include_bytes!("constructors.c"));
    s.write("objects.cpp", include_bytes!("objects.cpp"));
}

#[test]
fn constructors_and_destructors_are_called_in_the_order_in_which_the_host_calls_them() {
    let Some(musl) = musl() else { return };
    let s = Scratch::new();
    sources(&s);
    let files = ["constructors.c", "objects.cpp"];
    let mut build = s.tane();
    build.args(["build", "-o", "all.tmod", "--libc"]).arg(musl);
    succeed(build.args(files));
    succeed(
        s.tool("g++")
            .args(["-o", "all", "-x", "c", files[0], "-x", "c++", files[1]]),
    );
    let native = Command::new(s.join("all")).args(["a", "b"]).output();
    let native = native.expect("the program");
    let mut module = s.tane();
    module.args(["run-module", "--root", ".", "--", "all.tmod", "a", "b"]);
    let module = module.output().expect("tane");
    assert_eq!(text(&module.stdout), text(&native.stdout));
    assert!(
        text(&module.stdout).contains("5 at exit"),
        "{}",
        text(&module.stdout)
    );
    let codes = (module.status.code(), native.status.code());
    assert_eq!(codes, (Some(4), Some(4)), "{}", text(&module.stderr));
}

#[test]
fn constructors_that_nobody_would_call_are_refused() {
    let s = Scratch::new();
    sources(&s);
    let output = s.tane().args(["build", "constructors.c"]).output();
    let output = output.expect("tane");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("constructors") && said.contains("--libc"),
        "{said}"
    );
}
