// SPDX-License-Identifier: GPL-2.0-only
//! The products: NAME.elf without debug information, which the loader maps,
//! NAME.debug with it, NAME.config and NAME.sizes, of which `tane kernel` tells, and
//! NAME.manifest, which says what they were made of and is written last.

use std::collections::BTreeMap;
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
    ["elf", "config", "sizes"].map(|e| product(layout, recipe, e).is_file()) == [true; 3]
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

    let [config, sizes] = ["config", "sizes"].map(|e| product(job.layout, job.recipe, e));
    layout::write(&config, &layout::read(&job.out.join(".config"))?)?;
    layout::write(&sizes, &sizes_text(job)?)?;

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

/// The loader knows the table of packed addresses only; say so here rather than there.
fn check_relocations(vmlinux: &std::path::Path) -> Result<()> {
    let listing = command::output(Command::new("readelf").args(["-rW"]).arg(vmlinux))?;
    let odd: Vec<&str> = listing
        .lines()
        .filter(|line| line.contains(" R_X86_64_"))
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

/// What the objects below each directory of the source take, "fs/ext4 TEXT DATA BSS"; those
/// of lib.a are only linked if they are used, and not among these.
fn sizes_text(job: &Job) -> Result<String> {
    let listing = command::output(
        Command::new("ar")
            .arg("t")
            .arg("vmlinux.a")
            .current_dir(&job.out),
    )?;
    let objects: Vec<&str> = listing.lines().collect();
    let table = command::output(Command::new("size").args(&objects).current_dir(&job.out))?;
    let mut parts: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [text, data, bss, _, _, file] = words[..] else {
            return Err(format!("size: {line}"));
        };
        let sum = parts.entry(part(file)).or_default();
        for (sum, word) in sum.iter_mut().zip([text, data, bss]) {
            *sum += word
                .parse::<u64>()
                .map_err(|e| format!("size: {line}: {e}"))?;
        }
    }
    let line =
        |(name, [text, data, bss]): (&String, &[u64; 3])| format!("{name} {text} {data} {bss}\n");
    Ok(parts.iter().map(line).collect())
}

/// The first two directories of an object's path.
fn part(file: &str) -> String {
    let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts = directory.split('/').take(2).collect::<Vec<_>>();
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

fn warnings(job: &Job) -> usize {
    let log = fs::read(&job.log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    log.lines()
        .filter(|line| line.contains("warning: "))
        .count()
}
