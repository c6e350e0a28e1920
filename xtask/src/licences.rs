// SPDX-License-Identifier: GPL-2.0-only
//! `xtask licences`: every crate that any of ours can pull in, on any host and
//! with any feature, has to have a licence we can combine with GPL-2.0-only.

use std::collections::BTreeSet;
use std::process::Command;

use crate::layout::Layout;
use crate::{spdx, Result};

pub fn main(layout: &Layout) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listing = tane_kernel_build::command::output(
        Command::new(cargo)
            .args([
                "tree",
                "--workspace",
                "--all-features",
                "--edges",
                "normal,build,dev",
                "--target",
                "all",
            ])
            .args(["--prefix", "none", "--format", "{p}|{l}"])
            .current_dir(&layout.root),
    )?;
    let root = format!("({}", layout.root.display());
    let mut crates = BTreeSet::new();
    for line in listing.lines().filter(|line| !line.is_empty()) {
        let (package, licence) = line
            .rsplit_once('|')
            .ok_or_else(|| format!("cargo tree: cannot read {line:?}"))?;
        let licence = licence.trim_end_matches("(*)").trim();
        crates.insert((package.trim(), licence));
    }
    let mut ours = 0;
    let mut bad = Vec::new();
    for (package, licence) in &crates {
        let is_ours = package.contains(&root);
        ours += usize::from(is_ours);
        if is_ours && *licence != "GPL-2.0-only" {
            bad.push(format!(
                "  {package}: {licence:?}, where ours are GPL-2.0-only"
            ));
        } else if !is_ours && !spdx::is_allowed(licence) {
            bad.push(format!("  {package}: {licence:?}"));
        }
    }
    if bad.is_empty() {
        println!(
            "licences: {ours} crates of ours, {} of others, all fit",
            crates.len() - ours
        );
        return Ok(());
    }
    Err(format!(
        "licences that do not fit GPL-2.0-only:\n{}",
        bad.join("\n")
    ))
}
