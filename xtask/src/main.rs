// SPDX-License-Identifier: GPL-2.0-only
//! Chores that are more than a line of shell: `cargo run -q -p xtask -- CHORE`.
//!
//! Imports of ours: `tane-kernel-build`.

mod checkpatch;
mod circles;
mod kernel;
mod layers;
mod layout;
mod licences;
mod spdx;

use layout::Layout;

/// A chore's outcome; the message is for a person at a terminal.
type Result<T> = std::result::Result<T, String>;

const USAGE: &str = "\
usage: cargo run -q -p xtask -- CHORE

  kernel [--config NAME[+FRAGMENT...]]... [--jobs N] [--force]
              build kernel images into build/images (default: --config default);
              NAME is a line of kernel/configs/images, FRAGMENT a file beside it
  kernel --list
              the images there are
  experiments do the patches in kernel/experiments still apply?
  checkpatch  the kernel's own style checker on everything of ours in kernel/
  circles     folders of a crate that need each other
  layers      which crates import which, as their first pages say
  licences    licences of all crates we depend on
";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or_default();
    let layout = Layout::find();
    let done = match args.first().map(String::as_str) {
        Some("kernel") => kernel::main(&layout, rest),
        Some("checkpatch") => checkpatch::main(&layout),
        Some("experiments") => kernel::experiments(&layout),
        Some("circles") => circles::main(&layout),
        Some("layers") => layers::main(&layout),
        Some("licences") => licences::main(&layout),
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_string()),
    };
    if let Err(message) = done {
        eprintln!("{}", message.trim_end());
        std::process::exit(1);
    }
}
