//! tane-bench: this Linux beside the host's own, and beside the peers that
//! Debian packages, in one run.
//!
//!   options.rs   the command line; `tane bench` shares it
//!   promise.rs   what is measured; target.rs, when a promise is kept
//!   sets/        one file for each group of measurements
//!   kernel.rs    who answers system calls: ours or the host's
//!   asked.rs     files of our kernel that measure something themselves
//!   race.rs      contestants take turns, so that noise hits all alike
//!   readers.rs   what takes files out of an image: ours and the peers
//!   child.rs     what has to happen in a process of its own
//!   role.rs      which of them this process is
//!   report.rs    what was measured; sample.rs, medians and ratios
//!   table.rs     the same for people; markdown.rs for docs/promises.md
//!   plot/        the same as pictures
//!
//! Imports of ours: `tane`, `tane-checked`, `tane-checked-build`, `tane-checked-run`, `tane-host`,
//! `tane-netlab`.

mod asked;
mod child;
mod guestfish;
mod interrupt;
mod kernel;
mod machine;
mod markdown;
mod memory;
mod mount;
mod mounted;
mod options;
mod paths;
mod plot;
mod progress;
mod promise;
mod race;
mod readers;
mod report;
mod role;
mod sample;
mod sets;
mod table;
mod target;
mod temporary;
mod tool;
mod topology;
mod tree;
mod workload;

use clap::Parser;
use options::Options;
use promise::Promise;
use report::Report;
use std::io::Write;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "tane-bench",
    bin_name = "tane bench",
    version,
    max_term_width = 90
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    role: role::Options,
}

fn main() -> ExitCode {
    if let Some(done) = role::as_first_process() {
        return done;
    }
    let cli = Cli::parse();
    let done = match cli.role.run() {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => run(&cli.options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("tane-bench: {error}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode, String> {
    if options.list {
        let chosen = promise::choose(sets::promises(), &options.only)?;
        return print(&if options.markdown {
            markdown::table(&chosen, None)
        } else if options.json {
            serde_json::to_string_pretty(&chosen).map_err(|e| e.to_string())? + "\n"
        } else {
            table::list(&chosen)
        });
    }
    let paths = paths::Paths::find(options)?;
    let mut report = match &options.from {
        Some(path) => Report::read(path)?,
        None => measure(options, &paths)?,
    };
    report.promises = promise::choose(report.promises, &options.only)?;
    report.conclude();
    if options.from.is_none() {
        let all = options.only.is_empty() && !report.interrupted;
        let json = paths.json(all);
        report.write(&json)?;
        eprintln!("tane-bench: wrote {}", json.display());
    }
    if !options.no_plots {
        for path in plot::draw(&report, &paths.output)? {
            eprintln!("tane-bench: drew {}", path.display());
        }
    }
    print(&if options.markdown {
        markdown::table(&report.promises, Some(&report))
    } else if options.json {
        report.json()?
    } else {
        table::results(&report)
    })?;
    Ok(if report.interrupted && options.from.is_none() {
        if let Some(text) = table::interruption(&report) {
            eprint!("tane-bench: {text}");
        }
        ExitCode::from(interrupt::status())
    } else if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A reader that leaves early is content.
fn print(text: &str) -> Result<ExitCode, String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("output: {e}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn measure(options: &Options, paths: &paths::Paths) -> Result<Report, String> {
    let chosen: Vec<Promise> = promise::choose(sets::promises(), &options.only)?;
    interrupt::watch();
    mount::keep_private();
    let machine = machine::Machine::look(paths);
    if let Some(busy) = machine.busy() {
        eprintln!("tane-bench: {busy}");
    }
    let mut report = Report::new(machine, options.runs, chosen.clone());
    progress::begin(chosen.len(), options.quiet);
    for (at, promise) in chosen.iter().enumerate() {
        if interrupt::asked() {
            report.miss(promise, report::TANE, interrupt::WHY);
            continue;
        }
        progress::row(at, &promise.name);
        sets::measure(promise, paths, &mut report);
    }
    report.interrupted = interrupt::asked();
    progress::end();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense_to_clap() {
        Cli::command().debug_assert();
    }
}
