//! tane-bench: the figures that docs/promises.md promises, measured beside the
//! host's own kernel and the peers that Debian packages, in one run.
//!
//!   promise.rs   what is promised, and its target
//!   sets/        one file for each group of measurements
//!   race.rs      contestants take turns, so that noise hits all alike
//!   report.rs    what was measured; build/bench/bench.json
//!   table.rs     the same for people; markdown.rs for docs/promises.md

mod interrupt;
mod machine;
mod markdown;
mod paths;
mod promise;
mod race;
mod report;
mod sample;
mod sets;
mod table;
mod tool;
mod tree;
mod workload;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the promised figures beside the host and other readers
#[derive(Parser)]
#[command(name = "tane-bench", version)]
struct Options {
    /// List what can be measured, with targets
    #[arg(long)]
    list: bool,
    /// Measure only these: names or sets, as --list shows them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How many runs the medians are of
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print the table of docs/promises.md (with --list: without figures)
    #[arg(long)]
    markdown: bool,
    /// Print an earlier run instead of measuring
    #[arg(long, value_name = "JSON")]
    from: Option<PathBuf>,
    /// Where to write the results
    #[arg(long, value_name = "JSON")]
    json: Option<PathBuf>,
    /// Where to extract to: a tmpfs, so that no disk is measured
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
    /// For the boot set: boot once, print milliseconds and megabytes
    #[arg(long, value_name = "IMAGE", hide = true)]
    boot_child: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tane-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, String> {
    if let Some(image) = &options.boot_child {
        sets::boot::child(image)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = promise::choose(&options.only)?;
    if options.list {
        if options.markdown {
            print!("{}", markdown::table(&chosen, None));
        } else {
            print!("{}", table::list(&chosen));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = match &options.from {
        Some(path) => report::Report::read(path)?,
        None => measure(options, &chosen)?,
    };
    if options.markdown {
        print!("{}", markdown::table(&chosen, Some(&report)));
    } else {
        print!("{}", table::results(&chosen, &report));
    }
    Ok(if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure(
    options: &Options,
    chosen: &[&'static promise::Promise],
) -> Result<report::Report, String> {
    interrupt::watch();
    let paths = paths::Paths::find(&options.scratch)?;
    let mut report = report::Report::new(&paths, options.runs);
    if let Some(busy) = report.machine.busy() {
        eprintln!("tane-bench: {busy}");
    }
    for promise in chosen {
        eprintln!("tane-bench: {}", promise.name);
        sets::measure(promise, &paths, &mut report);
        if interrupt::asked() {
            return Err("interrupted".into());
        }
    }
    let default = paths.json(options.only.is_empty());
    let json = options.json.clone().unwrap_or(default);
    report.write(&json)?;
    eprintln!("tane-bench: wrote {}", json.display());
    Ok(report)
}
