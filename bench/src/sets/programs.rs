//! Ordinary programs, by `tane run` and by the host: this program again, which says what
//! it measured of itself, and how long it takes as a whole. bubblewrap, which changes the
//! host's name spaces and nothing else, stands for containers.

use super::programs_work::{work, PAGES};
use crate::child;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::readers;
use crate::report::{Report, HOST, TANE};
use crate::target::Target::{self, Faster};
use crate::temporary::Temporary;
use crate::tool;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Name, what, unit, target; how often in a batch, and how many batches.
type Row = (&'static str, &'static str, &'static str, Target, u32, u32);

#[rustfmt::skip]
const ROWS: [Row; 14] = [
    ("program-getppid", "getppid(2)", "ns", Faster(2.0), 1000, 200),
    ("program-read", "read of 1 B from a pipe that has it, and write of it", "ns", Faster(2.0), 1000, 200),
    ("program-fstat", "fstat of a file", "ns", Faster(2.0), 1000, 200),
    ("program-open", "open and close a file", "ns", Faster(2.0), 1000, 100),
    ("program-fork", "fork, exit and wait", "µs", Faster(0.59), 1, 100),
    ("program-spawn-static", "spawn of a static program (busybox true), and wait", "µs", Faster(0.83), 1, 100),
    ("program-spawn", "spawn of /bin/true, and wait", "µs", Faster(0.91), 1, 100),
    ("program-pipe", "1 B through a pipe to a forked process and back", "µs", Faster(1.0), 10, 50),
    ("program-faults", "4 MiB of new memory touched, for a page", "ns", Faster(0.98), 1, 50),
    ("program-compute", "a sum that takes no system call", "ms", Faster(0.98), 1, 10),
    ("program-git", "git checkout of 500 files, and back to none", "ms", Faster(1.2), 1, 10),
    ("program-sqlite-insert", "sqlite3 inserts 1,000 rows, each by itself", "ms", Faster(1.0), 1, 10),
    ("program-sqlite-select", "sqlite3 looks for each of 20,000 rows", "ms", Faster(1.0), 1, 10),
    (START, "a program that does nothing, whole process", "ms", Target::None, 1, 1),
];
const START: &str = "program-start";
const INSIDE: &str = "/bin/tane-bench";

/// The program of others that a row starts, and its package.
fn other(row: &str) -> Option<(&'static str, &'static str)> {
    Some(match row {
        "program-spawn" => ("true", "coreutils"),
        "program-spawn-static" => ("busybox", "busybox-static"),
        "program-git" => ("git", "git"),
        "program-sqlite-insert" | "program-sqlite-select" => ("sqlite3", "sqlite3"),
        _ => return None,
    })
}

pub fn promises() -> Vec<Promise> {
    let row = |(name, what, unit, target, ..): Row| {
        let what = format!("{what}, in an ordinary program");
        Promise::new(name, Set::Programs, what, unit, target)
    };
    ROWS.map(row).into()
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let root = Temporary::dir(paths.scratch.join("root"))?;
    let name = promise.name.as_str();
    fill(&root.0, &own, name)?;
    let inside = || -> Result<Command, String> {
        let mut command = readers::tane(paths, &["run"], Some("default"))?;
        command.arg("--root").arg(&root.0);
        Ok(command)
    };
    let wrapped = || -> Result<Command, String> {
        let program = tool::need("bwrap", "bubblewrap")?;
        let mut command = tool::command(&program, ["--unshare-all", "--ro-bind"]);
        command
            .arg(&root.0)
            .args(["/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
        Ok(command)
    };
    // What they write is in memory everywhere.
    let bare = || {
        let mut command = tool::command(&own, [""; 0]);
        command.env("TMPDIR", "/dev/shm");
        command
    };
    let contestants = vec![
        Contestant::new(TANE, || figure(inside()?.args(["--", INSIDE]), name)),
        Contestant::new(HOST, || figure(&mut bare(), name)),
        Contestant::new("bubblewrap", || figure(wrapped()?.arg(INSIDE), name)),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// This program, what the row starts, and their libraries.
fn fill(root: &Path, own: &Path, row: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", root.display());
    for dir in ["bin", "dev", "proc", "tmp"] {
        fs::create_dir_all(root.join(dir)).map_err(failed)?;
    }
    add(root, own, Path::new(INSIDE))?;
    if let Some((name, package)) = other(row) {
        let program = tool::need(name, package)?;
        add(root, &program, &program)?;
    }
    Ok(())
}

fn add(root: &Path, program: &Path, inside: &Path) -> Result<(), String> {
    let copy = |from: &Path, inside: &Path| -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{}: {e}", from.display());
        let to = root.join(inside.strip_prefix("/").unwrap_or(inside));
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(failed)?;
        fs::copy(from, to).map(drop).map_err(failed)
    };
    copy(program, inside)?;
    let ldd = tool::need("ldd", "libc-bin")?;
    // It fails for a static one, which has none.
    let said = tool::command(&ldd, [program]).output();
    let said = said.map_err(|e| format!("{}: {e}", ldd.display()))?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(library.as_ref(), library.as_ref())?;
    }
    Ok(())
}

/// Of this program, begun by that command.
fn figure(command: &mut Command, row: &str) -> Result<f64, String> {
    let begun = Instant::now();
    let figures = child::figures(command.args(["--program-child", row]))?;
    match figures.first() {
        _ if row == START => Ok(tool::ms(begun)),
        Some(figure) => Ok(*figure),
        None => Err("no figure".into()),
    }
}

/// As the child: the least of the batches, for one of what is done in them.
pub fn child(row: &str) -> Result<(), String> {
    let found = ROWS.iter().find(|(name, ..)| *name == row);
    let (.., unit, _, times, batches) = found.ok_or("no such row")?;
    let mut work = work(row)?;
    let mut least = f64::INFINITY;
    for _ in 0..*batches {
        let begun = Instant::now();
        for _ in 0..*times {
            work()?;
        }
        least = least.min(begun.elapsed().as_secs_f64() / f64::from(*times));
    }
    if row == "program-faults" {
        least /= PAGES as f64;
    }
    println!("{}", least / crate::promise::seconds(unit).unwrap_or(1.0));
    Ok(())
}
