//! tane bench: starts `tane-bench`, a program of its own because plotting must
//! make this one neither larger nor slower to start.

use crate::failure::{Failure, Result, SOME_FAILED};
use clap::Args as _;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The options themselves, for manual pages, completions and --help.
#[path = "../../../bench/src/options.rs"]
mod options;
pub use options::Options as Args;

const NAME: &str = "tane-bench";

/// Whether these are the arguments of `tane bench`, which `tane-bench` reads
/// itself.
pub fn is_asked(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word == "bench")
}

/// `tane-bench` as a command of its own, without the options of other verbs.
pub fn command() -> clap::Command {
    let command = clap::Command::new(NAME).version(env!("CARGO_PKG_VERSION"));
    Args::augment_args(command)
}

/// Become `tane-bench`, with all words but the verb. Returns only if it cannot
/// be started.
pub fn start(args: &[OsString]) -> Result<u8> {
    let verb = args.iter().position(|word| word == "bench");
    let others = args.iter().enumerate().skip(1);
    let args = others
        .filter(|(i, _)| Some(*i) != verb)
        .map(|(_, word)| word);
    let program = find().ok_or_else(|| {
        Failure::new(
            SOME_FAILED,
            format!(
                "{NAME} is not installed: there is none beside this program or on PATH; \
                 build it with `cargo build --release -p {NAME}`"
            ),
        )
    })?;
    let error = Command::new(&program).args(args).exec();
    let text = format!("{}: {error}", program.display());
    Err(Failure::new(SOME_FAILED, text))
}

fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().and_then(|own| own.canonicalize());
    let beside = own.ok().map(|own| own.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = std::env::split_paths(&path).map(|d| d.join(NAME)).collect();
    beside
        .into_iter()
        .chain(on_path)
        .find(|file| file.is_file())
}
