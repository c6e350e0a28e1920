//! Promises of tane run-module.

mod common;

use common::*;
use tane_test_support::skip;

/// The module of run_module.c, if modules run here.
fn made() -> Option<Scratch> {
    if !has_kernel() {
        return None;
    }
    if let Some(what) = tane_checked_run::lacks() {
        skip(what);
        return None;
    }
    let s = Scratch::new();
    s.write("scan.c", include_bytes!("run_module.c"));
    succeed(s.tane().args(["build", "scan.c"]));
    Some(s)
}

#[test]
fn a_module_ends_with_its_code_and_a_trap_with_its_name_and_line() {
    let Some(s) = made() else { return };
    for (word, code, said) in [
        ("x", 7, ""),
        ("d", 136, "scan.tmod: Divide at scan.c:"),
        ("s", 139, "scan.tmod: Stack at scan.c:"),
        ("m", 139, "scan.tmod: Memory at scan.c:"),
        ("c", 139, "scan.tmod: Call"),
        ("u", 132, "scan.tmod: Unreachable at scan.c:"),
        ("l", 124, "scan.tmod: Time"),
    ] {
        let mut tane = s.tane();
        let output = tane.args(["run-module", "--time", "1", "--", "scan.tmod", word]);
        let output = output.output().expect("tane");
        assert_eq!(output.status.code(), Some(code), "{word}");
        assert!(text(&output.stderr).contains(said), "{word}");
    }
}

#[test]
fn what_imports_files_does_not_begin_without_a_root() {
    let Some(s) = made() else { return };
    let source = "#include <tane/module.h>\nint main(void) { return close(3); }\n";
    s.write("file.c", source.as_bytes());
    succeed(s.tane().args(["build", "file.c"]));
    let output = s.tane().args(["run-module", "--", "file.tmod"]).output();
    let output = output.expect("tane");
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output.stderr).contains("imports close"));
    std::fs::create_dir(s.join("tree")).expect("a directory");
    succeed(
        s.tane()
            .args(["run-module", "--root", "tree", "--", "file.tmod"]),
    );
}
