//! tane trace: what the Linux of another verb does, function by function.

mod programs;
mod report;
pub mod wrap;

use crate::failure::{Failure, Result};
use crate::names::plain;
use crate::session::traced::{From, Module, Plan};
use crate::verbs::module::load;
use clap::ValueEnum;
use report::Report;
pub use report::{event as event_for_programs, line, tell_losses, Output};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Record what the Linux of another verb does, function by function
#[derive(clap::Args)]
#[command(after_help = "\
VERB is any verb whose Linux is booted for it, with its own options, as it would stand behind
tane; it does what it always does, in its jail, and its output and exit code are its own.
What was recorded goes to standard error when it is done, or to the FILE of --output. The
first Linux that the verb boots is recorded, by the kernel image lab, which the others are
not (docs/lab.md). Not recorded are verbs without such a Linux: bench, build, check, edit,
kaslr, lab, mount, umount; and run, whose kernel image has no tracers.

Times are those of a clock, with what is waited for, and with some 300 ns for each call
that was recorded inside (make-image's Linux has a clock of its own). Text has a line for each function and place that it was called
from: how long it took in all, without what it called, and how often it was called; and
behind = the errors that it returned. JSON has a line for each call.

Options of all verbs, such as --no-jail, may stand before -- too; --json there is for what
was recorded.

Examples:
  tane trace -- cat disk.img:/etc/fstab
  tane trace --from verb --min 10us -- ls -lR disk.img:/
  tane trace --function ext4_fill_super -- stat disk.img:/
  tane trace --events 'ext4:*,block:*' --depth 2 -- cp file disk.img:/
  tane trace --bpf sizes.o -- cp -r tree disk.img:/
  tane trace --as flame -o mount.svg -- ls disk.img:/
  tane trace --as chrome -o boot.json --from boot -- ls disk.img:/")]
pub struct Args {
    /// Only what happens inside of this function, or of functions that match a pattern
    /// with asterisks; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub function: Vec<String>,
    /// Only so many levels of calls (default: all)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub depth: u32,
    /// In text and flame graphs, leave out what took less in all: ns, or with us, ms or s
    /// (default: a 200th of what took longest)
    #[arg(long, value_name = "TIME", value_parser = parse_nanoseconds)]
    pub min: Option<u64>,
    /// Tracepoints, too: GROUP:NAME, with asterisks, or a group's; separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub events: Vec<String>,
    /// With each event the functions that were under way
    #[arg(long, requires = "events")]
    pub stack: bool,
    /// Programs of BPF, too, as clang -target bpf makes them: what is in their maps and
    /// variables at the end, and what they print; then calls only if --function says so. They
    /// run for all threads. Can be repeated
    #[arg(long, value_name = "FILE.o")]
    pub bpf: Vec<PathBuf>,
    /// Load this module before anything is recorded: its functions can be named then. Can be
    /// repeated
    #[arg(long = "module", value_name = "FILE.ko")]
    pub modules: Vec<PathBuf>,
    /// The kernel's own threads, too, but for those that idle
    #[arg(long)]
    pub all: bool,
    /// When the recording begins
    #[arg(long, value_name = "WHEN", default_value = "mount")]
    pub from: From,
    /// Memory for the record, on each CPU, of calls and again of events; what does not fit
    /// is lost, the oldest first, and told
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = tane::parse_size)]
    pub buffer: u64,
    /// What the record is written as (default: text; with --json, json)
    #[arg(long = "as", value_name = "FORM")]
    pub form: Option<Form>,
    /// Write the record to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The other verb and its arguments, behind --
    #[arg(last = true, required = true, value_name = "VERB")]
    pub verb: Vec<OsString>,
}

/// What a record is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A tree of functions
    Text,
    /// A line for each call and each event
    Json,
    /// The trace event format, for chrome://tracing and Perfetto
    Chrome,
    /// A flame graph, as SVG
    Flame,
}

impl Args {
    fn plan(&self) -> Result<Plan> {
        let whole = |path: &PathBuf| {
            let bytes = std::fs::read(path).map_err(|e| Failure::of_host(path, &e))?;
            Ok((plain(path.as_os_str().as_bytes()).to_string(), bytes))
        };
        if self.from == From::Boot && !self.bpf.is_empty() {
            let text = "--from boot has calls alone: programs of --bpf run from the mount on";
            return Err(Failure::usage(text));
        }
        let is_drawn = matches!(self.form, Some(Form::Chrome | Form::Flame));
        if is_drawn && !self.bpf.is_empty() && self.function.is_empty() {
            let text = "--bpf alone draws nothing: --function says of which calls, or --as text";
            return Err(Failure::usage(text));
        }
        Ok(Plan {
            calls: self.bpf.is_empty() || !self.function.is_empty(),
            functions: self.function.clone(),
            depth: self.depth,
            buffer: self.buffer,
            everyone: self.all,
            events: self.events.clone(),
            probes: Vec::new(),
            programs: self.bpf.iter().map(whole).collect::<Result<_>>()?,
            stacks: self.stack,
            modules: read_modules(&self.modules)?,
        })
    }

    fn report(&self, json: bool) -> Report {
        let default = if json { Form::Json } else { Form::Text };
        Report {
            form: self.form.unwrap_or(default),
            least: self.min,
        }
    }
}

/// What is in these files; a module that takes parameters is loaded by its own verb.
pub fn read_modules(files: &[PathBuf]) -> Result<Vec<Module>> {
    let read = |file: &PathBuf| load::read(file, String::new());
    files.iter().map(read).collect()
}

/// A number of nanoseconds, or of what the letters behind it say.
pub fn parse_nanoseconds(text: &str) -> std::result::Result<u64, String> {
    let wrong = || "not a time: write 500ns, 10us, 1.5ms or 2s".to_owned();
    let at = text.find(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(at.unwrap_or(text.len()));
    let unit = match unit {
        "" | "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    match number.is_finite() && number >= 0.0 {
        true => Ok((number * unit) as u64),
        false => Err(wrong()),
    }
}

/// A command line that would record what is recorded already, or a line of a session.
pub fn inside_another() -> Failure {
    Failure::usage("this verb is the first of a command line: tane trace … -- VERB …")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_units() {
        assert_eq!(parse_nanoseconds("0"), Ok(0));
        assert_eq!(parse_nanoseconds("1.5us"), Ok(1500));
        assert_eq!(parse_nanoseconds("2ms"), Ok(2_000_000));
        for wrong in ["", "us", "-1", "1m", "nan", "1 us"] {
            assert!(parse_nanoseconds(wrong).is_err(), "{wrong}");
        }
    }
}
