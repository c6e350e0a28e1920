//! A network laboratory: Linux kernels in one process, with cables between them, on one clock.
//!
//! Time is the laboratory's own. All kernels stand still; each runs until it is idle, and the
//! clock goes to the earliest timer or frame of any. So a run depends on its topology and its
//! seed alone, bit for bit, and a minute on a slow path takes as long as its packets do.
//!
//! ```no_run
//! use tane_netlab::{Lab, Options, Plan};
//!
//! let plan = Plan::read("two.toml".as_ref())?;
//! let report = Lab::start(&plan, &Options::default(), &|| false)?.run(&|| false)?;
//! print!("{report}");
//! # Ok::<(), tane_netlab::Error>(())
//! ```
//!
//! ```text
//! topology.rs   what a file says
//! plan.rs       what it means: names, times and ways that fit together
//!   plan/flows.rs who sends what to whom
//!   plan/endpoints.rs by which paths, with MPTCP
//!   addresses.rs  which addresses the cables' ends have
//!   routes.rs     how nodes reach the networks that they are not on
//!   source.rs     lines of the file, for what is wrong with it
//! world.rs      the clock: kernels, frames, whose turn it is
//! cable.rs      what a frame takes from one card to the other
//! start.rs      all of them, beside each other
//!   node.rs     a kernel that is set up
//! flow.rs       a connection and its two programs
//!   calls.rs      calls that do not wait
//!   datagrams.rs  a flow that is no connection
//!   meter.rs      what it is like meanwhile
//! lab.rs        all of it, from the start to the report
//! report.rs     what was measured
//! plot.rs       and its picture
//! ```
//!
//! docs/netlab.md has the file's keys. A [`Lab`] is for one thread, which makes all calls of
//! its kernels once they have started.
//!
//! Imports of ours: `tane`.

mod addresses;
mod cable;
mod calls;
mod datagrams;
mod error;
mod flow;
mod lab;
mod meter;
mod node;
mod plan;
mod plot;
mod report;
mod routes;
mod source;
mod start;
mod topology;
mod world;

pub use error::{Error, Result};
pub use lab::{Lab, Options, Stop};
pub use plan::Plan;
pub use report::{
    CableReport, DatagramReport, EventReport, FlowReport, Latency, PathReport, Report, Sample,
};
