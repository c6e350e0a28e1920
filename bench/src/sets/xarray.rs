//! The kernel's XArray beside hash tables, measured by the kernel itself: a file
//! in /proc takes what to do and tells how long each part took
//! (kernel/arch/tane/bench/xarray.c).

use crate::asked::{ask, prepare};
use crate::kernel::{boot, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::Report;
use crate::target::Target;

const FILE: &str = "/proc/tane/xarray";
const KEYS: [(&str, &str); 3] = [
    ("dense", "keys 0, 1, 2, …"),
    ("sparse", "every 1,024th key"),
    ("random", "random keys"),
];
const PARTS: [&str; 6] = ["store", "load", "iterate", "mark", "erase", MEMORY];
/// In bytes, where the others are in ns.
const MEMORY: &str = "memory";
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
                let (of, unit) = match part {
                    MEMORY => ("bytes", "B"),
                    _ => ("time", "ns"),
                };
                let what = format!("{part}, {count} entries, {text}: {of} for one");
                let row = Promise::new(name, Set::Xarray, what, unit, Target::None);
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
    if let Err(why) = prepare(&ours, FILE, "CONFIG_TANE_BENCH") {
        report.miss(promise, "xarray", &why);
        return Ok(());
    }
    let kernel = &ours;
    let contest = move |structure: &str| {
        let request = format!("{structure} {keys} {count}\n");
        move || Ok(ask(kernel, FILE, &request)?.of(part)?[0] / entries)
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
