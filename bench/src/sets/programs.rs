//! Ordinary programs, by `tane run` and by the host: this program again, which says what
//! it measured of itself, and how long it takes as a whole. bubblewrap, which changes the
//! host's name spaces and nothing else, stands for containers.

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
const ROWS: [Row; 8] = [
    ("program-getppid", "getppid(2)", "ns", Faster(2.0), 1000, 200),
    ("program-read", "read of 1 B from a pipe that has it, and write of it", "ns", Faster(2.0), 1000, 200),
    ("program-fstat", "fstat of a file", "ns", Faster(2.0), 1000, 200),
    ("program-open", "open and close a file", "ns", Faster(2.0), 1000, 100),
    ("program-fork", "fork, exit and wait", "µs", Target::None, 1, 100),
    ("program-pipe", "1 B through a pipe to another process and back", "µs", Target::None, 10, 50),
    ("program-compute", "a sum that takes no system call", "ms", Target::None, 1, 10),
    (START, "a program that does nothing, whole process", "ms", Target::None, 1, 1),
];
const START: &str = "program-start";
const INSIDE: &str = "/bin/tane-bench";

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
    fill(&root.0, &own)?;
    let name = promise.name.as_str();
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
            .args(["/", "--dev", "/dev", "--proc", "/proc"]);
        Ok(command)
    };
    let contestants = vec![
        Contestant::new(TANE, || figure(inside()?.args(["--", INSIDE]), name)),
        Contestant::new(HOST, || figure(&mut Command::new(&own), name)),
        Contestant::new("bubblewrap", || figure(wrapped()?.arg(INSIDE), name)),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// This program and its libraries.
fn fill(root: &Path, own: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", root.display());
    for dir in ["bin", "dev", "proc", "tmp"] {
        fs::create_dir_all(root.join(dir)).map_err(failed)?;
    }
    fs::copy(own, root.join(INSIDE.trim_start_matches('/'))).map_err(failed)?;
    let ldd = tool::output(&mut tool::command(&tool::need("ldd", "libc-bin")?, [own]))?;
    let said = String::from_utf8_lossy(&ldd.stdout).into_owned();
    for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(failed)?;
        fs::copy(library, to).map_err(failed)?;
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
    println!("{}", least / crate::promise::seconds(unit).unwrap_or(1.0));
    Ok(())
}

type Work = Box<dyn FnMut() -> Result<(), String>>;

fn last_error() -> String {
    std::io::Error::last_os_error().to_string()
}

fn check(answer: i64) -> Result<(), String> {
    if answer < 0 {
        return Err(last_error());
    }
    Ok(())
}

fn pipe() -> Result<[i32; 2], String> {
    let mut ends = [0; 2];
    // SAFETY: an array of two.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) }.into())?;
    Ok(ends)
}

/// A byte, there or back.
fn write(to: i32) -> Result<(), String> {
    // SAFETY: one byte of ours.
    check(unsafe { libc::write(to, c"x".as_ptr().cast(), 1) } as i64)
}

fn read(from: i32) -> Result<(), String> {
    let mut byte = 0u8;
    // SAFETY: as above.
    check(unsafe { libc::read(from, (&raw mut byte).cast(), 1) } as i64)
}

fn work(row: &str) -> Result<Work, String> {
    Ok(match row {
        "program-getppid" => Box::new(|| {
            // SAFETY: no arguments.
            check(unsafe { libc::syscall(libc::SYS_getppid) })
        }),
        "program-read" => {
            let [out, into] = pipe()?;
            Box::new(move || write(into).and_then(|()| read(out)))
        }
        "program-fstat" => {
            // SAFETY: a C string.
            let fd = unsafe { libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY) };
            check(fd.into())?;
            // SAFETY: all zeros are one.
            let mut found: libc::stat = unsafe { std::mem::zeroed() };
            // SAFETY: fills a structure of ours.
            Box::new(move || check(unsafe { libc::fstat(fd, &raw mut found) }.into()))
        }
        "program-open" => Box::new(|| {
            // SAFETY: a C string, and a descriptor of ours.
            unsafe {
                let fd = libc::open(c"/tmp".as_ptr(), libc::O_RDONLY);
                check(fd.into())?;
                check(libc::close(fd).into())
            }
        }),
        "program-fork" => Box::new(|| {
            // SAFETY: this program has one thread; the child ends at once.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                check(child.into())?;
                check(libc::waitpid(child, std::ptr::null_mut(), 0).into())
            }
        }),
        "program-pipe" => {
            let ([there, to_there], [here, to_here]) = (pipe()?, pipe()?);
            // SAFETY: this program has one thread; the child only reads and writes, and
            // ends with its parent's end of the pipe.
            unsafe {
                let child = libc::fork();
                check(child.into())?;
                if child == 0 {
                    libc::close(to_there);
                    let mut byte = 0u8;
                    while libc::read(there, (&raw mut byte).cast(), 1) == 1 {
                        libc::write(to_here, (&raw const byte).cast(), 1);
                    }
                    libc::_exit(0);
                }
            }
            Box::new(move || write(to_there).and_then(|()| read(here)))
        }
        "program-compute" => Box::new(|| {
            let sum = (0..2_000_000u64).fold(1u64, |sum, i| sum.rotate_left(5) ^ i);
            std::hint::black_box(sum);
            Ok(())
        }),
        _ => Box::new(|| Ok(())),
    })
}
