//! tane generate (hidden): manual pages and shell completions, for packagers.

use crate::command_line::Cli;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::verbs::bench;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Write manual pages and shell completions into a directory
#[derive(clap::Args)]
pub struct Args {
    pub directory: PathBuf,
}

pub fn run(args: Args) -> Result<u8> {
    let dir = &args.directory;
    let fail = |e: std::io::Error| Failure::new(SOME_FAILED, format!("{}: {e}", dir.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(fail)?;
    clap_mangen::Man::new(bench::command())
        .generate_to(dir)
        .map_err(fail)?;
    for shell in Shell::value_variants() {
        for mut command in [Cli::command(), bench::command()] {
            let name = command.get_name().to_string();
            clap_complete::generate_to(*shell, &mut command, name, dir).map_err(fail)?;
        }
    }
    Ok(0)
}
