//! What has to be measured in a process of its own: this program again, with an
//! option that nobody else gives. Its figures are one line of words.

use crate::sets::{boot, create, instructions, net, net_user, programs};
use crate::tool;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

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

/// Run a child to its end: the numbers it prints.
pub fn numbers<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    figures(&mut tool::command(&own, args))
}

/// The same in a user namespace and a network namespace of its own.
pub fn numbers_in_namespace(args: &[&str]) -> Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let unshare = tool::need("unshare", "util-linux")?;
    let mut command = tool::command(&unshare, ["--user", "--map-root-user", "--net"]);
    figures(command.arg(own).args(args))
}

/// The numbers that this command prints.
pub fn figures(command: &mut Command) -> Result<Vec<f64>, String> {
    let output = command.output().map_err(|e| format!("own child: {e}"))?;
    if !output.status.success() {
        return Err(complaint(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.split_whitespace().map(str::parse);
    let numbers: Result<Vec<f64>, _> = words.collect();
    numbers.map_err(|_| format!("a child printed: {text}"))
}

/// What a child that failed said: all of it, as an oops has many lines.
pub fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim().trim_start_matches("tane-bench: ");
    match text {
        "" => "a child failed and said nothing".into(),
        text => text.into(),
    }
}
