//! From nothing to the first system call, and what is resident then. Each boot
//! happens in a process of its own. Beside it a user-mode Linux, as Debian
//! packages it, until its first process says something.

use crate::child;
use crate::memory::{children, resident, resident_tree};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target::{self, AtMost};
use crate::tool;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// In the environment of a user-mode Linux's first process.
pub const FIRST: &str = "TANE_BENCH_FIRST";
const SAID: &str = "tane-bench: up";
const UML: &str = "user-mode-linux";
/// It starts in seconds, or hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn promises() -> Vec<Promise> {
    let row = |what: &str, config: &str, target| {
        let (text, unit) = match what {
            "boot" => ("start to first call", "ms"),
            _ => ("resident after boot", "MB"),
        };
        let text = format!("`{config}` image, 256 MiB: {text}");
        Promise::new(format!("{what}-{config}"), Set::Boot, text, unit, target)
    };
    vec![
        row("boot", "tiny", AtMost(4.0)),
        row("boot", "default", AtMost(15.0)),
        row("boot", "smp", Target::None),
        row("resident", "tiny", AtMost(12.0)),
        row("resident", "default", AtMost(35.0)),
        row("resident", "smp", Target::None),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let (what, config) = promise.name.split_once('-').unwrap_or_default();
    let image = paths.image(config)?;
    let column = usize::from(what == "resident");
    let cpus = match config {
        "smp" => report.machine.cpus.min(8),
        _ => 1,
    };
    let args = [
        "--cpus".into(),
        cpus.to_string().into(),
        "--boot-child".into(),
        image.into_os_string(),
    ];
    let ours = Contestant::new(TANE, || {
        let numbers = child::numbers(&args)?;
        numbers.get(column).copied().ok_or("too few numbers".into())
    });
    let count = match cpus {
        1 => "1 CPU".into(),
        cpus => format!("{cpus} CPUs"),
    };
    let ours = ours.noted(match what {
        "resident" => format!("what the process grew by; {count}"),
        _ => count,
    });
    // Debian builds it for one CPU.
    let peer = Contestant::new(UML, || Ok(user_mode_linux()?[column]));
    let peer = peer.noted(match what {
        "resident" => "all of its processes, its program among it; 1 CPU",
        _ => "1 CPU",
    });
    race(promise, report.runs, vec![ours, peer], report);
    Ok(())
}

/// What the child does: boot once, print milliseconds and megabytes.
pub fn child(path: &Path, cpus: u32) -> Result<(), String> {
    let before = resident("self")?;
    let start = Instant::now();
    let image = tane_host::Image::open(path).map_err(|e| e.to_string())?;
    let builder = tane_host::Builder {
        cmdline: "quiet".into(),
        cpus,
        ..Default::default()
    };
    let kernel = builder.boot(&image).map_err(|e| e.to_string())?;
    // SAFETY: getpid takes no pointers.
    let pid = unsafe { kernel.syscall(libc::SYS_getpid, [0; 6]) };
    let time = tool::ms(start);
    if pid != 1 {
        return Err(format!("the first call returned {pid}"));
    }
    let grown = resident("self")?.saturating_sub(before);
    println!("{time} {}", grown as f64 / 1e6);
    Ok(())
}

/// Milliseconds and megabytes until the first process of a user-mode Linux with
/// as much memory speaks: this program, found on the host's file system.
fn user_mode_linux() -> Result<[f64; 2], String> {
    let program = tool::need("linux.uml", UML)?;
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let name = format!("tane-bench-{}", std::process::id());
    let args = [
        "mem=256M".to_string(),
        "rootfstype=hostfs".into(),
        "rootflags=/".into(),
        "ro".into(),
        "quiet".into(),
        "con=null".into(),
        "con0=null,fd:1".into(),
        format!("umid={name}"),
        format!("init={}", own.display()),
        format!("{FIRST}=1"),
    ];
    let start = Instant::now();
    let mut command = tool::command(&program, args);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let spawned = command.spawn();
    let mut uml = Peer(spawned.map_err(|e| format!("{}: {e}", program.display()))?);
    let output = uml.0.stdout.take().ok_or("no output")?;
    let (_spoken, silence) = mpsc::channel::<()>();
    let pid = uml.0.id() as i32;
    std::thread::spawn(move || {
        // The other end is dropped when this function is done, and before the
        // process is waited for.
        if silence.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: a child of ours; its output then ends.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let mut last = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|e| format!("{UML}: {e}"))?;
        let line = String::from_utf8_lossy(&line).trim().to_string();
        if line.contains(SAID) {
            let time = tool::ms(start);
            return Ok([time, resident_tree(uml.0.id())? as f64 / 1e6]);
        }
        if !line.is_empty() {
            last = line;
        }
    }
    if start.elapsed() >= PATIENCE {
        return Err(format!("{UML} said nothing for {} s", PATIENCE.as_secs()));
    }
    Err(format!("{UML} ended before its first process: {last}"))
}

/// What the first process of a user-mode Linux does: speak, and wait for the end.
pub fn first() -> std::process::ExitCode {
    println!("{SAID}");
    loop {
        std::thread::park();
    }
}

/// A process that is killed with its children when it has been measured.
struct Peer(std::process::Child);

impl Drop for Peer {
    fn drop(&mut self) {
        for child in children(self.0.id()) {
            // SAFETY: a child of a process of ours that still runs.
            unsafe { libc::kill(child as i32, libc::SIGKILL) };
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
