//! A laboratory of a hundred kernels: how long its start takes, and what memory it has.

use crate::child;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target::AtMost;
use std::path::Path;
use std::time::Instant;
use tane_netlab::{Lab, Options, Plan};

const KERNELS: usize = 100;

pub fn promises() -> Vec<Promise> {
    let what =
        |of: &str| format!("a laboratory of {KERNELS} kernels in a row, each with its cable: {of}");
    vec![
        Promise::new(
            "net-lab-start",
            Set::Net,
            what("its start"),
            "ms",
            AtMost(1000.0),
        ),
        Promise::new(
            "net-lab-memory",
            Set::Net,
            what("memory of its own (Pss)"),
            "MB",
            AtMost(1000.0),
        ),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let image = paths.image("default")?;
    let at = usize::from(promise.name == "net-lab-memory");
    let once = || {
        let figures = child::numbers(&["--lab-child".as_ref(), image.as_os_str()])?;
        figures.get(at).copied().ok_or_else(|| "no figure".into())
    };
    race(
        promise,
        report.runs,
        vec![Contestant::new(TANE, once)],
        report,
    );
    Ok(())
}

/// Print milliseconds and megabytes of a laboratory, in a process that has nothing else.
pub fn child(image: &Path) -> Result<(), String> {
    let said = |error: tane_netlab::Error| error.to_string();
    let nodes = (0..KERNELS).map(|n| format!("[[node]]\nname = \"n{n}\"\nmemory = \"32M\"\n"));
    let links = (1..KERNELS).map(|n| format!("[[link]]\nbetween = [\"n{}\", \"n{n}\"]\n", n - 1));
    let text: String = nodes.chain(links).collect();
    let plan = Plan::parse(Path::new("row"), &text).map_err(said)?;
    let options = Options {
        image: Some(image.into()),
        ..Options::default()
    };
    let before = pss()?;
    let began = Instant::now();
    let lab = Lab::start(&plan, &options, &|| false).map_err(said)?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let memory = (pss()? - before) as f64 / 1e6;
    println!("{took} {memory}");
    drop(lab);
    Ok(())
}

/// In bytes; what several processes have counts by its share.
fn pss() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number
        .map(|kilobytes| kilobytes << 10)
        .ok_or_else(|| "no Pss".into())
}
