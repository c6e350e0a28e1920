// SPDX-License-Identifier: GPL-2.0-only
//! The products: NAME.elf without debug information, which the loader maps,
//! NAME.debug with it, and NAME.manifest, which says what they were made of
//! and is written last.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::hash::Fingerprint;
use crate::layout::{self, Layout};
use crate::{command, Result};

use super::{compile, nops, Job, Recipe, Source};

fn product(layout: &Layout, recipe: &Recipe, extension: &str) -> PathBuf {
    layout
        .images()
        .join(format!("tane-{}.{extension}", recipe.name))
}

/// A fingerprint of everything that goes into an image.
pub fn inputs(layout: &Layout, source: &Source, recipe: &Recipe) -> Result<String> {
    let mut print = Fingerprint::new();
    print.field(&source.id);
    print.field(compile::tools()?);
    for (name, path) in recipe.overlay(layout)? {
        print.field(name.as_os_str().as_encoded_bytes());
        print.field(fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?);
    }
    print.tree(&layout.patches())?;
    for fragment in &recipe.fragments {
        print.field(layout::read(fragment)?);
    }
    Ok(print.text())
}

/// Is there an image made of exactly these inputs?
pub fn is_current(layout: &Layout, recipe: &Recipe, inputs: &str) -> bool {
    let line = format!("inputs: {inputs}");
    product(layout, recipe, "elf").is_file()
        && fs::read_to_string(product(layout, recipe, "manifest"))
            .is_ok_and(|manifest| manifest.lines().any(|found| found == line))
}

pub fn finish(job: &Job, inputs: &str) -> Result<()> {
    let vmlinux = job.out.join("vmlinux");
    let [elf, debug, manifest] =
        ["elf", "debug", "manifest"].map(|extension| product(job.layout, job.recipe, extension));
    let _ = fs::remove_file(&manifest);
    check_relocations(&vmlinux)?;
    nops::join(&vmlinux)?;

    let stripped = elf.with_extension("elf.new");
    command::output(
        Command::new("strip")
            .args(["--strip-all", "-o"])
            .arg(&stripped)
            .arg(&vmlinux),
    )?;
    fs::rename(&stripped, &elf).map_err(|e| format!("{}: {e}", elf.display()))?;
    let _ = fs::remove_file(&debug);
    fs::hard_link(&vmlinux, &debug)
        .or_else(|_| fs::copy(&vmlinux, &debug).map(drop))
        .map_err(|e| format!("{}: {e}", debug.display()))?;

    let text = manifest_text(job, inputs, &elf)?;
    layout::write(&manifest, &text)?;
    let size = fs::metadata(&elf).map_or(0, |found| found.len());
    let warnings = warnings(job);
    eprintln!(
        "{}: {} ({:.1} MiB{})",
        job.recipe.name,
        elf.display(),
        size as f64 / f64::from(1 << 20),
        match warnings {
            0 => String::new(),
            n => format!("; {n} warnings, see {}", job.log.display()),
        }
    );
    Ok(())
}

/// The loader knows one relocation only; say so here rather than there.
fn check_relocations(vmlinux: &std::path::Path) -> Result<()> {
    let listing = command::output(Command::new("readelf").args(["-rW"]).arg(vmlinux))?;
    let odd: Vec<&str> = listing
        .lines()
        .filter(|line| line.contains(" R_X86_64_") && !line.contains(" R_X86_64_RELATIVE "))
        .take(10)
        .collect();
    if odd.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}: relocations that the loader does not do:\n{}",
        vmlinux.display(),
        odd.join("\n")
    ))
}

fn manifest_text(job: &Job, inputs: &str, elf: &std::path::Path) -> Result<String> {
    let names = |paths: &[PathBuf]| {
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy())
            .collect();
        names.join(" ")
    };
    let release = layout::read(&job.out.join("include/config/kernel.release"))?;
    let sum = command::output(Command::new("sha256sum").arg(elf))?;
    Ok(format!(
        "image: tane-{}\nrelease: {}\nsource: linux {} {}\npatches: {}\nfragments: {}\n\
         tools: {}\nsha256: {}\ninputs: {inputs}\n",
        job.recipe.name,
        release.trim(),
        job.source.version,
        job.source.id,
        names(&super::overlay::patches(job.layout)?),
        names(&job.recipe.fragments),
        compile::tools()?,
        sum.split_whitespace().next().unwrap_or_default(),
    ))
}

fn warnings(job: &Job) -> usize {
    let log = fs::read(&job.log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    log.lines()
        .filter(|line| line.contains("warning: "))
        .count()
}
