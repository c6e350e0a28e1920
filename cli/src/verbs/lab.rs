//! tane lab: a network of kernels in this process, as a file describes it.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::output::Output;
use crate::session::Global;
use crate::session::{is_host_kernel, Machine};
use std::path::{Path, PathBuf};
use tane_netlab::{Error, Lab, Options, Plan};

/// Run a network of Linux kernels in this process, on one clock
#[derive(clap::Args)]
#[command(after_help = "\
TOPOLOGY is a file in TOML: nodes, which are kernels; links between them, with a delay, a rate
or loss by netem; flows, which send something; and events, such as a link that is cut. Addresses
and routes are given by themselves where the file does not say them (docs/netlab.md).

    [[node]]
    name = \"a\"
    [[node]]
    name = \"b\"
    [[link]]
    between = [\"a\", \"b\"]
    impair = \"delay=20ms,rate=50mbit,loss=0.1%\"
    [[flow]]
    from = \"a\"
    to = \"b\"
    bytes = \"10M\"
    congestion = \"bbr\"

Time is the laboratory's own: all kernels stand still, and the clock goes from timer to timer. So
a run depends on the file, the seed and the kernel image alone: the same seed gives the same
packets, bit for bit. Printed is for each flow what arrived how fast, and how often TCP sent
again; with --json, one object with everything, samples over time included.

Examples:
  tane lab two.toml
  tane lab two.toml --seed 2 --plot two.svg
  tane lab two.toml --json --captures traces
  tane lab two.toml --check")]
pub struct Args {
    /// What there is and what happens
    #[arg(value_name = "TOPOLOGY")]
    pub topology: PathBuf,
    /// What chance begins with, instead of what the file says
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write what passes each link to NAME.pcapng in DIR, for tcpdump and Wireshark
    #[arg(long, value_name = "DIR")]
    pub captures: Option<PathBuf>,
    /// Draw throughput, window, round trip and what was sent again over time: an SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Only read the file, and say what is wrong with it
    #[arg(long)]
    pub check: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        let text = "lab: the kernels are those of this process, not of --kernel host";
        return Err(Failure::usage(text));
    }
    let mut plan = Plan::read(&args.topology).map_err(failure)?;
    if let Some(seed) = args.seed {
        plan = plan.with_seed(seed);
    }
    let mut out = Output::new();
    if args.check {
        if !global.json {
            let (nodes, links) = (plan.nodes(), plan.links().count());
            out.line(&format!("nodes: {nodes}, links: {links}"))?;
        }
        return out.flush().map(|()| 0);
    }
    let captures = args.captures.as_deref().map(directory).transpose()?;
    let options = Options {
        image: Some(Machine::image(global)?),
        memory: global.memory,
        words: global.append.clone(),
        captures,
    };
    interrupt::stop_soon();
    let lab = Lab::start(&plan, &options, &interrupt::requested).map_err(failure)?;
    let report = lab.run(&interrupt::requested).map_err(failure)?;
    if let Some(path) = &args.plot {
        std::fs::write(path, report.svg()).map_err(|e| Failure::of_host(path, &e))?;
    }
    if global.json {
        let value = serde_json::to_value(&report);
        out.json(&value.map_err(|e| Failure::new(SOME_FAILED, e.to_string()))?)?;
    } else {
        out.text(&report.to_string())?;
    }
    out.flush()?;
    Ok(match report.error() {
        Some(_) => SOME_FAILED,
        None => 0,
    })
}

/// One that is there, or is made.
fn directory(path: &Path) -> Result<PathBuf> {
    match std::fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Failure::of_host(path, &e)),
        _ => Ok(path.to_owned()),
    }
}

fn failure(error: Error) -> Failure {
    match &error {
        Error::Interrupted => Failure::interrupted(),
        Error::File(path, e) => Failure::of_host(path, e),
        Error::Topology { .. } => Failure::usage(error.to_string()),
        Error::Node(..) => Failure::image(error.to_string()),
    }
}
