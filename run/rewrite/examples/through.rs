//! Runs a program of the host with all its calls through trampolines and the net, the
//! host's kernel behind the gate, and says how many went which way: `through PROGRAM...`.

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: through PROGRAM [ARGUMENT]...");
        std::process::exit(2);
    };
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let (seen, output) = rig::Rig::new()?.run(command)?;
    std::io::stdout().write_all(&output)?;
    eprintln!("{seen:#?}");
    std::process::exit(if libc::WIFEXITED(seen.status) {
        libc::WEXITSTATUS(seen.status)
    } else {
        128 + libc::WTERMSIG(seen.status)
    });
}
