//! What has to be measured in a process of its own: this program again, with an
//! option that nobody else gives (`role.rs`). Its figures are one line of words.

use crate::tool;
use std::process::Command;

/// Run a child to its end: the numbers it prints.
pub fn numbers<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    figures(&mut tool::command(&own, args))
}

/// The same in a user namespace and a network namespace of its own.
pub fn numbers_in_namespace(args: &[&str]) -> Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let unshare = tool::need("unshare", "util-linux")?;
    let mut command = tool::command(&unshare, ["--user", "--map-root-user", "--net"]);
    figures(command.arg(own).args(args))
}

/// The numbers that this command prints.
pub fn figures(command: &mut Command) -> Result<Vec<f64>, String> {
    let output = command.output().map_err(|e| format!("own child: {e}"))?;
    if !output.status.success() {
        return Err(complaint(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.split_whitespace().map(str::parse);
    let numbers: Result<Vec<f64>, _> = words.collect();
    numbers.map_err(|_| format!("a child printed: {text}"))
}

/// What a child that failed said: all of it, as an oops has many lines.
pub fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim().trim_start_matches("tane-bench: ");
    match text {
        "" => "a child failed and said nothing".into(),
        text => text.into(),
    }
}
