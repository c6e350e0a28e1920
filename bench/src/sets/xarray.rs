//! The kernel's XArray beside hash tables, measured by the kernel itself: a file
//! in /proc takes what to do and tells how long each part took
//! (kernel/arch/tane/bench/xarray.c).

use crate::kernel::{boot, c_path, check, Kernel, Ours, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::Report;
use crate::target::Target;
use std::path::Path;

const FILE: &str = "/proc/tane/xarray";
const KEYS: [(&str, &str); 3] = [
    ("dense", "keys 0, 1, 2, …"),
    ("sparse", "every 1,024th key"),
    ("random", "random keys"),
];
const PARTS: [&str; 5] = ["store", "load", "iterate", "mark", "erase"];
const COUNTS: [usize; 4] = [64, 512, 4096, 32768];
const STRUCTURES: [(&str, &str); 3] = [
    ("xarray", "xarray"),
    ("hash64", "hash table, 64 slots"),
    ("hash512", "hash table, 512 slots"),
];

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for (keys, text) in KEYS {
        for part in PARTS {
            for count in COUNTS {
                let name = format!("xarray-{part}-{keys}-{count}");
                let what = format!("{part}, {count} entries, {text}: time for one");
                let row = Promise::new(name, Set::Xarray, what, "ns", Target::None);
                rows.push(row.at(&format!("{part}, {keys}"), count as f64, 0));
            }
        }
    }
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let words: Vec<_> = promise.name.split('-').collect();
    let [_, part, keys, count] = words[..] else {
        return Err("not a row of this set".into());
    };
    let entries: f64 = count.parse().map_err(|_| "not a count")?;
    let ours = boot(paths, "default", 1, RAM)?;
    if let Err(why) = prepare(&ours) {
        report.miss(promise, "xarray", &why);
        return Ok(());
    }
    let kernel = &ours;
    let contest = move |structure: &str| {
        let request = format!("{structure} {keys} {count}\n");
        move || Ok(ask(kernel, &request, part)? / entries)
    };
    let contestant = |(name, subject)| Contestant::new(subject, contest(name));
    race(
        promise,
        report.runs,
        STRUCTURES.map(contestant).into(),
        report,
    );
    Ok(())
}

/// /proc inside, and the file in it.
fn prepare(kernel: &Ours) -> Result<(), String> {
    kernel.on_path(libc::SYS_mkdir, Path::new("/proc"), 0o755, 0);
    let (kind, at) = (c"proc".as_ptr() as u64, c"/proc".as_ptr() as u64);
    // SAFETY: C strings.
    let mounted = unsafe { kernel.call(libc::SYS_mount, [kind, at, kind, 0, 0, 0]) };
    check("mounting proc inside", mounted)?;
    match kernel.on_path(libc::SYS_access, Path::new(FILE), 0, 0) {
        0 => Ok(()),
        _ => Err(format!(
            "no {FILE} in this kernel image: it was built without CONFIG_TANE_BENCH"
        )),
    }
}

/// ns that one part took for all entries.
fn ask(kernel: &Ours, request: &str, part: &str) -> Result<f64, String> {
    let path = c_path(Path::new(FILE));
    let mut answer = [0u8; 256];
    let (at, room) = (answer.as_mut_ptr() as u64, answer.len() as u64);
    let (text, len) = (request.as_ptr() as u64, request.len() as u64);
    // SAFETY: a C string, a text and a buffer with their lengths.
    let read = unsafe {
        let open = [path.as_ptr() as u64, libc::O_RDWR as u64, 0, 0, 0, 0];
        let fd = check(FILE, kernel.call(libc::SYS_open, open))? as u64;
        let written = kernel.call(libc::SYS_write, [fd, text, len, 0, 0, 0]);
        let read = kernel.call(libc::SYS_read, [fd, at, room, 0, 0, 0]);
        kernel.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        check(&format!("{FILE}: {}", request.trim()), written)?;
        check(FILE, read)?
    };
    let text = String::from_utf8_lossy(&answer[..read as usize]);
    let found = text.lines().find_map(|line| {
        let (name, ns) = line.split_once(' ')?;
        (name == part).then(|| ns.parse().ok())?
    });
    found.ok_or_else(|| format!("{FILE} said: {text}"))
}
