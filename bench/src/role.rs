//! What this process is, if it is not the one that was asked: the child of `child.rs` that
//! measures something by itself.

use crate::sets::{boot, create, instructions, net, net_lab, net_user, programs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Options {
    /// Boot once, print milliseconds and megabytes
    #[arg(long, value_name = "IMAGE", hide = true)]
    boot_child: Option<PathBuf>,
    /// With how many CPUs
    #[arg(long, value_name = "N", hide = true, default_value_t = 1)]
    cpus: u32,
    /// Call this between breakpoints
    #[arg(long, value_names = ["IMAGE", "CALL"], num_args = 2, hide = true)]
    step_child: Vec<String>,
    /// Create many of these, print microseconds and kilobytes of each
    #[arg(long, value_names = ["IMAGE", "WHAT"], num_args = 2, hide = true)]
    create_child: Vec<String>,
    /// Measure this row's tane or host, print nanoseconds
    #[arg(long, value_names = ["IMAGE", "WHO", "ROW"], num_args = 3, hide = true)]
    net_child: Vec<String>,
    /// Measure this row to a server that is there already, print nanoseconds
    #[arg(long, value_names = ["ADDRESS", "ROW"], num_args = 2, hide = true)]
    net_client: Vec<String>,
    /// Start a laboratory of many kernels, print milliseconds and megabytes
    #[arg(long, value_name = "IMAGE", hide = true)]
    lab_child: Option<PathBuf>,
    /// Measure this row as an ordinary program, print its figure
    #[arg(long, value_name = "ROW", hide = true)]
    program_child: Option<String>,
}

impl Options {
    /// What this process is for, if it is a child.
    pub fn run(&self) -> Option<Result<(), String>> {
        if let Some(image) = &self.boot_child {
            return Some(boot::child(image, self.cpus));
        }
        if let [image, call] = self.step_child.as_slice() {
            return Some(instructions::stepped(Path::new(image), call));
        }
        if let [image, what] = self.create_child.as_slice() {
            return Some(create::child(Path::new(image), what));
        }
        if let [image, who, row] = self.net_child.as_slice() {
            return Some(net::child(Path::new(image), who, row));
        }
        if let Some(image) = &self.lab_child {
            return Some(net_lab::child(image));
        }
        if let [address, row] = self.net_client.as_slice() {
            return Some(net_user::client(address, row));
        }
        self.program_child.as_deref().map(programs::child)
    }
}

/// A user-mode Linux's first process has arguments that are not ours.
pub fn as_first_process() -> Option<ExitCode> {
    std::env::var_os(boot::FIRST).map(|_| boot::first())
}
