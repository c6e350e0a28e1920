// SPDX-License-Identifier: GPL-2.0-only
//! Merges fragments into a .config and refuses one that does not say what the
//! fragments asked for: Kconfig drops a symbol with a missing dependency
//! without a word.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::build::Job;
use crate::hash::Fingerprint;
use crate::{compile, kconfig, layout, Result};

/// Write the image's .config, unless nothing it depends on has changed.
pub fn configure(job: &Job) -> Result<()> {
    let stamp = job.out.join(".tane-config");
    let inputs = inputs(job)?;
    let current = job.out.join(".config").is_file()
        && std::fs::read_to_string(&stamp).is_ok_and(|old| old == inputs);
    if current {
        return Ok(());
    }
    let _ = std::fs::remove_file(&stamp);
    // -n: what no fragment asks for is off. The script takes the rest of
    // make's settings from the environment.
    let mut merge = Command::new("scripts/kconfig/merge_config.sh");
    merge.arg("-n").arg("-Q").arg("-O").arg(&job.out);
    merge.args(&job.recipe().fragments);
    merge.current_dir(&job.source.tree);
    compile::environment(&mut merge, job)?;
    let title = format!("{}: configuring", job.recipe().name);
    job.run(&mut merge, &title)?;
    verify(job)?;
    layout::write(&stamp, &inputs)
}

fn inputs(job: &Job) -> Result<String> {
    let mut print = Fingerprint::new();
    print.field(&job.source.id);
    print.field(compile::tools()?);
    print.tree(&job.layout().patches())?;
    for (_, path) in job.recipe().overlay(job.layout())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("Kconfig") || name == "Makefile" {
            print.field(layout::read(&path)?);
        }
    }
    for fragment in &job.recipe().fragments {
        print.field(layout::read(fragment)?);
    }
    Ok(print.text())
}

/// Compare what was asked for with what came out.
fn verify(job: &Job) -> Result<()> {
    let mut wanted: BTreeMap<String, (String, &Path)> = BTreeMap::new();
    for fragment in &job.recipe().fragments {
        for (symbol, value) in options(&layout::read(fragment)?) {
            wanted.insert(symbol, (value, fragment));
        }
    }
    let got = options(&layout::read(&job.out.join(".config"))?);
    let actual = |symbol: &str| got.get(symbol).map_or("n", String::as_str);
    let mut missed = wanted
        .iter()
        .filter(|(symbol, (value, _))| actual(symbol) != value)
        .peekable();
    if missed.peek().is_none() {
        return Ok(());
    }
    let tree = kconfig::Tree::read(&job.source.tree);
    let mut text = format!(
        "{}: Kconfig did not take what the fragments ask for:",
        job.recipe().name
    );
    for (symbol, (value, fragment)) in missed {
        let from = fragment.file_name().unwrap_or_default().to_string_lossy();
        let why = match &tree {
            Ok(tree) => tree.why(symbol, value, &got),
            Err(e) => e.clone(),
        };
        let actual = actual(symbol);
        text += &format!("\n  {symbol}={value} ({from}) came out as {actual}: {why}");
    }
    Err(text)
}

/// Symbols and their values, of a .config or a fragment; "n" where one is not set.
pub fn options(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let unset = line
                .strip_prefix("# ")
                .and_then(|rest| rest.strip_suffix(" is not set"));
            let (symbol, value) = match unset {
                Some(symbol) => (symbol, "n"),
                None => line.split_once('=')?,
            };
            symbol
                .starts_with("CONFIG_")
                .then(|| (symbol.to_string(), value.to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn parses_what_kconfig_writes() {
        let symbols = options(
            "# comment = nothing\n# a CONFIG_E is not set\nCONFIG_A=y\n# CONFIG_B is not set\n\
             CONFIG_C=\"x=y\"\nCONFIG_D=0x10\n",
        );
        let pairs: Vec<_> = symbols
            .iter()
            .map(|(s, v)| (s.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("CONFIG_A", "y"),
                ("CONFIG_B", "n"),
                ("CONFIG_C", "\"x=y\""),
                ("CONFIG_D", "0x10")
            ]
        );
    }
}
