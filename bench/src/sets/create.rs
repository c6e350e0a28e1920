//! A thousand threads or processes at once: the time until each has run, and
//! the memory that each takes. In children, which begin with nothing.

use crate::child::numbers;
use crate::kernel::{check, Kernel, Ours};
use crate::memory::{kib_of, resident};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, HOST, TANE};
use crate::target::Target;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const COUNT: usize = 1000;
/// Their stacks: as small as may be, so that it is not stacks that are measured.
const STACK: usize = 64 << 10;

pub fn promises() -> Vec<Promise> {
    let row =
        |name: &str, what: &str, unit| Promise::new(name, Set::Create, what, unit, Target::None);
    vec![
        row(
            "create-thread-time",
            "a thread, of 1,000 that live at once",
            "µs",
        ),
        row("create-thread-memory", "memory of a thread, of 1,000", "kB"),
        row(
            "create-process-time",
            "a process, of 1,000 that live at once",
            "µs",
        ),
        row(
            "create-process-memory",
            "memory of a process, of 1,000",
            "kB",
        ),
    ]
}

pub fn measure(promise: &Promise, report: &mut Report, paths: &Paths) -> Result<(), String> {
    let column = usize::from(promise.name.ends_with("memory"));
    let once = |what: &'static str, config: &'static str| {
        move || {
            let image = match config {
                "" => Default::default(),
                config => paths.image(config)?.into_os_string(),
            };
            let figures = numbers(&["--create-child".into(), image, what.into()])?;
            figures.get(column).copied().ok_or("too few numbers".into())
        }
    };
    let contestants = if promise.name.contains("thread") {
        vec![
            Contestant::new(TANE, once("task", "default"))
                .noted("a task for a thread that is there: its first call"),
            Contestant::new(HOST, once("thread", "")),
            Contestant::new("tane, host's thread too", once("both", "default"))
                .noted("spawned as the host's, and its first call"),
        ]
    } else {
        let why = "no process can be created inside yet: every task is a thread of the host's \
                   process";
        report.miss(promise, "tane, process", why);
        vec![Contestant::new(HOST, once("process", ""))]
    };
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// What the child does: print µs and kB of each.
pub fn child(image: &Path, what: &str) -> Result<(), String> {
    let [time, bytes] = match what {
        "thread" => threads(|| Ok(()), system_memory)?,
        "task" => tasks(image)?,
        "both" => {
            let kernel = boot(image)?;
            threads(|| first_call(&kernel), system_memory)?
        }
        "process" => processes()?,
        _ => return Err(format!("nothing is called {what}")),
    };
    let count = COUNT as f64;
    println!("{} {}", time / count, bytes / count / 1e3);
    Ok(())
}

/// Threads that each do something and then wait for all; µs from the first
/// spawn until all have done it, and the bytes that `memory` has grown by.
fn threads(
    work: impl Fn() -> Result<(), String> + Sync,
    memory: impl Fn() -> Result<u64, String>,
) -> Result<[f64; 2], String> {
    let before = memory()?;
    let (all, end) = (Barrier::new(COUNT + 1), Barrier::new(COUNT + 1));
    std::thread::scope(|scope| {
        let start = Instant::now();
        let mut threads = Vec::with_capacity(COUNT);
        for i in 0..COUNT {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let spawned = thread.spawn_scoped(scope, || {
                let done = work();
                all.wait();
                end.wait();
                done
            });
            // Those that wait for the rest would wait forever.
            threads.push(spawned.unwrap_or_else(|e| fail(&format!("thread {i}: {e}"))));
        }
        all.wait();
        let time = start.elapsed().as_secs_f64() * 1e6;
        let after = memory();
        end.wait();
        for thread in threads {
            thread.join().unwrap_or(Err("a thread panicked".into()))?;
        }
        Ok([time, after?.saturating_sub(before) as f64])
    })
}

fn fail(why: &str) -> ! {
    eprintln!("tane-bench: {why}");
    std::process::exit(1)
}

fn boot(image: &Path) -> Result<Ours, String> {
    let image = tane_host::Image::open(image).map_err(|e| e.to_string())?;
    let builder = tane_host::Builder {
        cmdline: "quiet".into(),
        ..Default::default()
    };
    Ok(Ours(builder.boot(&image).map_err(|e| e.to_string())?))
}

fn first_call(kernel: &Ours) -> Result<(), String> {
    // SAFETY: takes no pointers.
    let tid = unsafe { kernel.call(libc::SYS_gettid, [0; 6]) };
    check("a first call", tid).map(drop)
}

/// The first call of each of many threads makes a task inside: what that adds,
/// the threads themselves being there already.
fn tasks(image: &Path) -> Result<[f64; 2], String> {
    let kernel = Arc::new(boot(image)?);
    let steps = || Arc::new(Barrier::new(COUNT + 1));
    let (ready, go, done, end) = (steps(), steps(), steps(), steps());
    let mut threads = Vec::with_capacity(COUNT);
    for i in 0..COUNT {
        let (kernel, steps) = (kernel.clone(), [&ready, &go, &done, &end].map(Arc::clone));
        let spawned = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                steps[0].wait();
                steps[1].wait();
                let done = first_call(&kernel);
                steps[2].wait();
                steps[3].wait();
                done
            });
        threads.push(spawned.unwrap_or_else(|e| fail(&format!("thread {i}: {e}"))));
    }
    ready.wait();
    let before = resident("self")?;
    let start = Instant::now();
    go.wait();
    done.wait();
    let time = start.elapsed().as_secs_f64() * 1e6;
    let after = resident("self")?;
    end.wait();
    for thread in threads {
        thread.join().unwrap_or(Err("a thread panicked".into()))?;
    }
    Ok([time, after.saturating_sub(before) as f64])
}

/// Children that wait until they are killed.
fn processes() -> Result<[f64; 2], String> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe(fds.as_mut_ptr()) } != 0 {
        return Err(format!("pipe: {}", std::io::Error::last_os_error()));
    }
    let before = system_memory()?;
    let start = Instant::now();
    let mut children = Family(Vec::with_capacity(COUNT));
    for i in 0..COUNT {
        // SAFETY: this process has one thread; the child makes system calls only.
        let child = unsafe { libc::fork() };
        match child {
            0 => unsafe {
                libc::write(fds[1], fds.as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            },
            -1 => return Err(format!("fork {i}: {}", std::io::Error::last_os_error())),
            child => children.0.push(child),
        }
    }
    let mut all = [0; COUNT];
    use std::os::fd::FromRawFd;
    // SAFETY: our own descriptor, given away here.
    let mut pipe = unsafe { std::fs::File::from_raw_fd(fds[0]) };
    pipe.read_exact(&mut all).map_err(|e| e.to_string())?;
    let time = start.elapsed().as_secs_f64() * 1e6;
    Ok([time, system_memory()?.saturating_sub(before) as f64])
}

struct Family(Vec<i32>);

impl Drop for Family {
    fn drop(&mut self) {
        for &child in &self.0 {
            // SAFETY: children of ours that nobody has waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// What processes and the kernel on their behalf use, in bytes, of the whole
/// machine: a host's thread has most of its memory in its kernel, and a Linux inside
/// has its own in a memfd.
fn system_memory() -> Result<u64, String> {
    let fields = [
        "AnonPages:",
        "KernelStack:",
        "PageTables:",
        "Shmem:",
        "Slab:",
    ];
    let kib = fields.map(|field| kib_of("/proc/meminfo", field));
    let sum = kib.into_iter().sum::<Result<u64, String>>()?;
    Ok(sum * 1024)
}
