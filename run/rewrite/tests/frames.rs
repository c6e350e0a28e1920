//! Signal frames show a program where it would be without us: C libraries tell from it
//! whether a thread can be cancelled, and calls are interrupted and restarted as ever.

mod rig;

use rig::{Rig, Seen};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(compiler: &str, arguments: &[&str]) -> Option<PathBuf> {
    if !rig::can_run() {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frames.c");
    let name = format!("frames-{}{}", compiler.rsplit('/').next()?, arguments.len());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-w", "-o"]).arg(&program).arg(source);
    match command.args(arguments).status() {
        Ok(status) if status.success() => Some(program),
        _ => {
            tane_test_support::skip(format!("no C compiler {compiler} {arguments:?}"));
            None
        }
    }
}

fn same(program: &Path) -> Seen {
    let native = Command::new(program).output().expect("the program");
    let text = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(
        text.contains("strangers 0\n") && text.contains("canceled 100"),
        "{text}"
    );
    assert!(native.status.success());
    let rig = Rig::new().expect("a pool of areas");
    let (seen, output) = rig.run(Command::new(program)).expect("traced");
    assert_eq!(seen.status, 0, "{seen:#?}");
    let mut lines = String::from_utf8_lossy(&output).into_owned();
    // How many threads were cancelled before they had anything to clean up is chance.
    let cleaned = |text: &mut String| text.truncate(text.find(" cleaned").expect("the end"));
    let mut text = text;
    cleaned(&mut text);
    cleaned(&mut lines);
    assert_eq!(lines, text);
    eprintln!("{seen:?}");
    assert!(seen.moved_out > 100, "signals while in the gate: {seen:#?}");
    seen
}

#[test]
fn frames_cancellation_and_restarts_are_the_same_with_glibc() {
    if let Some(program) = compile("gcc", &["-pthread"]) {
        same(&program);
    }
}

#[test]
fn frames_cancellation_and_restarts_are_the_same_in_a_static_program() {
    if let Some(program) = compile("gcc", &["-pthread", "-static"]) {
        same(&program);
    }
}

#[test]
fn frames_cancellation_and_restarts_are_the_same_with_musl() {
    if let Some(program) = compile("musl-gcc", &["-static"]) {
        same(&program);
    }
}
