//! What the rows of programs.rs do, in the program that they measure.

use crate::temporary::Temporary;
use crate::tool;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub type Work = Box<dyn FnMut() -> Result<(), String>>;

/// As many as `program-faults` touches at a time.
pub const PAGES: usize = 1024;

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

/// Of the row of that name.
pub fn work(row: &str) -> Result<Work, String> {
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
        "program-spawn-static" => Box::new(|| run(Command::new("busybox").arg("true"))),
        "program-spawn" => Box::new(|| run(&mut Command::new("true"))),
        "program-faults" => Box::new(touch),
        "program-git" => checkouts()?,
        "program-sqlite-insert" => inserts()?,
        "program-sqlite-select" => selects()?,
        "program-compute" => Box::new(|| {
            let sum = (0..2_000_000u64).fold(1u64, |sum, i| sum.rotate_left(5) ^ i);
            std::hint::black_box(sum);
            Ok(())
        }),
        _ => Box::new(|| Ok(())),
    })
}

fn run(command: &mut Command) -> Result<(), String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    tool::output(command).map(drop)
}

/// New memory, each page of which is touched.
fn touch() -> Result<(), String> {
    const PAGE: usize = 4096;
    const SIZE: usize = PAGES * PAGE;
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, all of whose pages are ours to write.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), SIZE, prot, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(last_error());
        }
        // Pages of 4 KiB, as most programs have them.
        libc::madvise(at, SIZE, libc::MADV_NOHUGEPAGE);
        for page in 0..PAGES {
            at.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        check(libc::munmap(at, SIZE).into())
    }
}

/// Where a row has its files, until it is over.
fn place(name: &str) -> Result<Temporary, String> {
    let name = format!("tane-bench-{name}-{}", std::process::id());
    Temporary::dir(std::env::temp_dir().join(name))
}

fn checkouts() -> Result<Work, String> {
    const FILES: usize = 500;
    let place = place("git")?;
    let git = |dir: &Path, args: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(dir).args(args).env("HOME", dir);
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{who}_NAME"), "bench");
            command.env(format!("{who}_EMAIL"), "bench@localhost");
        }
        run(&mut command)
    };
    let dir = place.0.clone();
    git(&dir, &["init", "-q", "-b", "none"])?;
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "none"])?;
    git(&dir, &["checkout", "-q", "-b", "all"])?;
    for number in 0..FILES {
        let text = format!("{number}\n").repeat(1000);
        let file = dir.join(format!("file-{number}"));
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    git(&dir, &["add", "."])?;
    git(&dir, &["commit", "-q", "-m", "all"])?;
    git(&dir, &["checkout", "-q", "none"])?;
    Ok(Box::new(move || {
        git(&place.0, &["checkout", "-q", "all"])?;
        git(&place.0, &["checkout", "-q", "none"])
    }))
}

/// Runs of sqlite3 on a database, each with this script.
fn scripts(name: &str, before: &str, script: String) -> Result<Work, String> {
    let place = place(name)?;
    let database = place.0.join("database");
    run(Command::new("sqlite3").arg(&database).arg(before))?;
    let file = place.0.join("script");
    fs::write(&file, script).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Box::new(move || {
        let file = place.0.join("script");
        let script = fs::File::open(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut command = Command::new("sqlite3");
        command.arg("-bail").arg(place.0.join("database"));
        tool::output(command.stdin(script).stdout(Stdio::null())).map(drop)
    }))
}

const TABLE: &str = "create table words (number integer primary key, word text);";

fn inserts() -> Result<Work, String> {
    let row = |number| format!("insert into words (word) values ('word {number}');\n");
    scripts("insert", TABLE, (0..1000).map(row).collect())
}

fn selects() -> Result<Work, String> {
    let rows = "with recursive n(i) as (values(1) union all select i + 1 from n where i < 20000) \
                insert into words select i, 'word ' || i from n;";
    let one = |number| format!("select word from words where number = {number};\n");
    let script = (1..=20_000).map(one).collect();
    scripts("select", &format!("{TABLE}{rows}"), script)
}
