//! Promises of tane run-module.

use crate::common::*;
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
        ("n", 139, "scan.tmod: Stack"),
        ("T", 132, "scan.tmod: Unreachable"),
        ("w", 139, "scan.tmod: Call"),
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

#[test]
fn what_is_thrown_is_caught_by_the_innermost_try_and_keeps_what_the_caller_had() {
    let Some(s) = made() else { return };
    succeed(s.tane().args(["run-module", "--", "scan.tmod", "t"]));
}

#[test]
fn who_interrupts_a_module_that_waits_for_input_ends_it() {
    use std::io::Read;
    use std::process::Stdio;
    let Some(s) = made() else { return };
    let source = "#include <tane/module.h>\nint main(void) { char c; tane_output(1, \"?\", 1);\n\
                  while (tane_input(&c, 1) < 0) ; return 0; }\n";
    s.write("ask.c", source.as_bytes());
    succeed(s.tane().args(["build", "ask.c"]));
    let mut tane = s.tane();
    let tane = tane.args(["run-module", "--", "ask.tmod"]);
    let tane = tane.stdin(Stdio::piped()).stdout(Stdio::piped());
    heeds_ctrl_c(tane);
    let mut running = tane.spawn().expect("tane");
    // It has begun, and nobody writes.
    let mut said = [0];
    let output = running.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut said).expect("a question");
    // wait() would close it, and that is an end of the input.
    let held = running.stdin.take();
    // SAFETY: our own child.
    unsafe { libc::kill(running.id() as i32, libc::SIGINT) };
    assert_eq!(running.wait().expect("its end").code(), Some(130));
    drop(held);
}
