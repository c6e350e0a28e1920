//! From nothing to the first system call, and what is resident then. Each boot
//! happens in a process of its own.

use crate::paths::Paths;
use crate::promise::Promise;
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::tool;
use std::path::Path;
use std::time::Instant;

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let (what, config) = promise.name.split_once('-').unwrap_or_default();
    let image = paths.image(config);
    let column = usize::from(what == "resident");
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let ours = Contestant::new(TANE, || {
        let output = tool::output(tool::command(&own, ["--boot-child"]).arg(&image))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let word = text.split_whitespace().nth(column).unwrap_or_default();
        word.parse().map_err(|_| format!("boot child: {text}"))
    });
    race(promise, report.runs, vec![ours], report);
    Ok(())
}

/// What the child does: boot once, print milliseconds and megabytes.
pub fn child(path: &Path) -> Result<(), String> {
    let before = resident()?;
    let start = Instant::now();
    let image = tane_host::Image::open(path).map_err(|e| e.to_string())?;
    let builder = tane_host::Builder {
        cmdline: "quiet".into(),
        ..Default::default()
    };
    let kernel = builder.boot(&image).map_err(|e| e.to_string())?;
    // SAFETY: getpid takes no pointers.
    let pid = unsafe { kernel.syscall(libc::SYS_getpid, [0; 6]) };
    let time = tool::ms(start);
    if pid != 1 {
        return Err(format!("the first call returned {pid}"));
    }
    println!("{time} {}", resident()?.saturating_sub(before) as f64 / 1e6);
    Ok(())
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, String> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| format!("{path} has no VmRSS"))
}
