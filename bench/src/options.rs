//! The options of `tane bench`. The `tane` command includes this file for its
//! manual pages and completions, and starts `tane-bench` with what it was given.

use std::path::PathBuf;

/// Measure this Linux beside the host's own, in one run
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A table goes to standard output, progress to standard error; report.json and one
picture of each set, as SVG and PNG, go into DIR. Nothing is stored between runs:
every figure that is printed was measured in that run. What cannot be measured on
a machine says why.

Examples:
  tane bench --list                        what there is, with targets
  tane bench --only syscalls,ramfs         two sets
  tane bench --only getppid --runs 31      one figure, of more runs
  tane bench --from DIR/bench.json         print and draw an earlier run again

Exit codes:
  0    done; a missed target is a result, not a failure
  1    something of tane could not be measured
  2    the command line makes no sense
  130  Ctrl-C: what was measured until then is printed, written and drawn")]
#[group(skip)]
pub struct Options {
    /// List what can be measured, with targets
    #[arg(long)]
    pub list: bool,
    /// Measure only these: names or sets, as --list shows them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// How many runs the medians are of
    #[arg(long, value_name = "N", default_value_t = 11)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Where the results go (default: build/bench in the source tree, else tane-bench here)
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Where files are read and written in memory: a tmpfs
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub scratch: PathBuf,
    /// Where files are read and written on a disk (default: where the results go)
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Print and draw an earlier run instead of measuring
    #[arg(long, value_name = "JSON")]
    pub from: Option<PathBuf>,
    /// Draw no pictures
    #[arg(long)]
    pub no_plots: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Print the table of docs/promises.md (with --list: without figures)
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// No progress
    #[arg(short, long)]
    pub quiet: bool,
}
