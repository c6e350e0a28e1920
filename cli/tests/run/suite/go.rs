//! Go's own tests of what an operating system does for it. A unit is a package.

use super::{image, runs, users, Extent, Outcome, Suite};
use crate::common::run::add_dynamic;
use crate::common::*;
use std::path::Path;

pub const SUITE: Suite = Suite {
    name: "go",
    about: "the Go library's own tests of packages (`go test -c`, short ones)",
    make,
    part: PART,
    other_version: too_old,
    kernel: "default",
    read,
};

const PART: &[&str] = &["os", "os/signal", "syscall"];
const MORE: &[&str] = &[
    "os/exec",
    "net",
    "runtime",
    "time",
    "sync",
    "io/fs",
    "path/filepath",
    "internal/poll",
];

/// A shell is in front, since a session's leader gets a signal when a terminal that it
/// opened hangs up.
const RUN: &str = "#!/bin/sh
cd $GOROOT/src/$1 && HOME=/root /suite/$1/test -test.short -test.v </dev/null 2>&1
code=$?
exit $code
";

/// The oldest Go whose tests the list is of: those of 1.19, Debian 12's, want users and
/// programs that the image does not have.
const SINCE: u32 = 26;

fn too_old() -> Option<String> {
    let said = std::process::Command::new("go")
        .args(["env", "GOVERSION"])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let minor = said.strip_prefix("go1.")?.split('.').next()?;
    let is_old = minor.parse::<u32>().is_ok_and(|minor| minor < SINCE);
    is_old.then(|| format!("run/suites/go.expected is of go1.{SINCE}, and here is {said}"))
}

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let said = s.tool("go").args(["env", "GOROOT"]).output();
    let said = said.map_err(|e| format!("go: {e}"))?;
    let top = text(&said.stdout).trim().to_owned();
    if !Path::new(&top).join("src/os/os_test.go").exists() {
        return Err(format!("{top}/src has no tests"));
    }
    let more = if extent == Extent::All { MORE } else { &[] };
    let units: Vec<_> = PART
        .iter()
        .chain(more)
        .map(|&unit| unit.to_owned())
        .collect();
    run::root(s, "root");
    for unit in &units {
        std::fs::create_dir_all(s.join(&format!("root/suite/{unit}"))).expect("a directory");
        std::fs::create_dir_all(s.join(&format!("root{top}/src/{unit}"))).expect("a directory");
        let to = s.join(&format!("root/suite/{unit}/test"));
        let from = format!("{top}/src/{unit}");
        let mut compile = s.tool("go");
        compile.args(["test", "-c", "-o"]).arg(to).arg(".");
        succeed(compile.current_dir(&from).env("CGO_ENABLED", "0"));
        let mut copy = s.tool("cp");
        succeed(copy.args(["-rLT", &from, &format!("root{top}/src/{unit}")]));
    }
    // What tests look for beside their package.
    for beside in ["src/testdata", "src/unicode", "lib/time"] {
        let to = s.join(&format!("root{top}/{beside}"));
        std::fs::create_dir_all(&to).expect("a directory");
        let from = format!("{top}/{beside}");
        if Path::new(&from).exists() {
            succeed(s.tool("cp").args(["-rLT", &from]).arg(&to));
        }
    }
    // The shell's package has one that names no group but those beside the first.
    std::fs::remove_file(s.join("root/bin/id")).expect("a link");
    for program in ["/usr/bin/true", "/usr/bin/nohup", "/usr/bin/id"] {
        add_dynamic(s, "root", program);
    }
    for applet in ["echo", "hostname", "date", "head", "stty", "uname"] {
        let link = s.join(&format!("root/bin/{applet}"));
        let _ = std::os::unix::fs::symlink("busybox", link);
    }
    std::fs::create_dir_all(s.join("root/usr/bin")).expect("a directory");
    s.write(
        &format!("root{top}/VERSION"),
        &std::fs::read(format!("{top}/VERSION")).unwrap_or_default(),
    );
    users(s);
    s.write("root/etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n");
    let run = RUN.replace("$GOROOT", &top);
    runs(s, &run);
    image(s);
    Ok(units)
}

fn read(said: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut last = "";
    for line in said.lines() {
        let trimmed = line.trim_start();
        // A test's output may end without a newline.
        if let Some(found) = trimmed.find("--- PASS: ") {
            outcome.passed += usize::from(name(&trimmed[found..]).is_some());
        } else if trimmed.starts_with("--- SKIP: ") {
            outcome.skipped += usize::from(name(trimmed).is_some());
        } else if let Some(found) = trimmed.find("--- FAIL: ") {
            if let Some(name) = name(&trimmed[found..]) {
                outcome
                    .failed
                    .insert(name.to_owned(), last.trim().to_owned());
            }
        }
        last = line;
    }
    outcome
}

/// Of a test itself, not of a part of it.
fn name(line: &str) -> Option<&str> {
    let name = line.get("--- PASS: ".len()..)?.split(' ').next()?;
    (!name.contains('/')).then_some(name)
}
