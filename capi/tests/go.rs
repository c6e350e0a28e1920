//! The Go module, by its own tests and with this library.

mod common;

use common::{has_kernel, libraries, module, run, source, Scratch};
use std::process::Command;

#[test]
fn the_go_module_passes_its_own_tests() {
    if !has_kernel() {
        return;
    }
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        let missing = "no go: Debian's package golang-go has it (make deps)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return tane_test_support::skip(missing);
    }
    let scratch = Scratch::new("go");
    let place = libraries().display();
    let mut test = Command::new("go");
    // Without -count=1 it would tell an old result again.
    test.args(["test", "-count=1", "./..."]);
    test.current_dir(source("../go"));
    test.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
    test.env("CGO_LDFLAGS", format!("-L{place} -Wl,-rpath,{place}"));
    test.env("TANE_TEST_MODULE", module(&scratch, "module"));
    let image = tane::default_image().expect("a kernel image");
    run(test.env("TANE_IMAGE", image));
}
