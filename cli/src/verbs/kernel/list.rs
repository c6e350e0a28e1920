//! All images, side by side.

use super::files::{all, options};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::output::Output;
use crate::session::Global;
use crate::session::Machine;
use crate::tell;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// How often each is booted; the shortest time counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
}

/// Options that are built in, and modules, of what others publish; counted in 2026.
const PUBLISHED: [(&str, &str, u32, u32); 3] = [
    ("debian", "Debian's 6.12, linux-config-6.12", 2_647, 4_051),
    ("debian-cloud", "Debian's 6.12 for clouds", 1_801, 1_138),
    ("linuxkit", "LinuxKit's 6.12", 2_063, 181),
];

struct Row {
    name: String,
    path: PathBuf,
    /// None: no .config lies beside it.
    set: Option<usize>,
    bytes: u64,
    boot: Duration,
    resident: u64,
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    pages * 4096
}

/// Its first start, with the memory that came with it, or another one.
fn start(image: &Path, global: &Global) -> Result<(Duration, u64)> {
    let mut global = global.clone();
    global.kernel = Some(image.to_owned());
    let (before, begun) = (resident(), Instant::now());
    let machine = Machine::bare(&global)?;
    let took = begun.elapsed();
    let more = resident().saturating_sub(before);
    drop(machine);
    Ok((took, more))
}

fn row(name: String, path: PathBuf, times: u32, global: &Global) -> Result<Row> {
    let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
    let (mut boot, mut least) = (Duration::MAX, u64::MAX);
    for _ in 0..times {
        let (took, more) = start(&path, global)?;
        boot = boot.min(took);
        least = least.min(more);
    }
    let set = options(&path).ok();
    let set = set.map(|options| options.values().filter(|value| *value == "y").count());
    Ok(Row {
        name,
        path,
        set,
        bytes,
        boot,
        resident: least,
    })
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    if !global.json {
        let [set, size, boot, memory] = ["options", "MiB", "boot ms", "memory MiB"];
        out.line(&format!(
            "{:14} {set:>9} {size:>6} {boot:>8} {memory:>10}",
            "image"
        ))?;
    }
    let mut failed = 0;
    for (name, path) in all(global)? {
        let row = match row(name, path.clone(), args.times, global) {
            Ok(row) => row,
            Err(failure) => {
                failed += 1;
                tell::note(&format!("{}: does not boot: {failure}", path.display()));
                continue;
            }
        };
        show(&row, &mut out, global)?;
        out.flush()?;
    }
    for (name, what, built_in, modules) in PUBLISHED {
        if global.json {
            out.json(&json!({
                "published": name, "what": what, "options": built_in, "modules": modules,
            }))?;
        } else {
            out.line(&format!(
                "{name:14} {built_in:>9}  and {modules} modules: {what}, published"
            ))?;
        }
    }
    out.flush()?;
    if failed > 0 {
        let text = format!("{failed} images do not boot");
        return Err(Failure::new(SOME_FAILED, text));
    }
    Ok(0)
}

fn show(row: &Row, out: &mut Output, global: &Global) -> Result<()> {
    let ms = row.boot.as_secs_f64() * 1e3;
    if global.json {
        return out.json(&json!({
            "image": row.name, "path": row.path.to_string_lossy(), "options": row.set,
            "bytes": row.bytes, "boot_ms": ms, "resident": row.resident,
        }));
    }
    let set = row.set.map_or_else(|| "?".into(), |set| set.to_string());
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    out.line(&format!(
        "{:14} {set:>9} {:>6.1} {ms:>8.1} {:>10.1}",
        row.name,
        mib(row.bytes),
        mib(row.resident)
    ))
}
