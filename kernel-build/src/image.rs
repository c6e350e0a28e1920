// SPDX-License-Identifier: GPL-2.0-only
//! The products: NAME.elf without debug information, which the loader maps,
//! NAME.debug with it, NAME.config and NAME.sizes, of which `tane kernel` tells, and
//! NAME.manifest, which says what they were made of and is written last.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::Job;
use crate::fresh::Fresh;
use crate::hash::Fingerprint;
use crate::{command, compile, layout, nops, overlay, Result};

/// Of an image, and of what tells of it; the last of them that it is whole.
const ENDINGS: [&str; 5] = ["elf", "debug", "config", "sizes", "manifest"];

/// A fingerprint of everything that goes into an image.
pub fn inputs(job: &Job) -> Result<String> {
    let (layout, recipe) = (job.layout(), job.recipe());
    let mut print = Fingerprint::new();
    print.field(&job.source.id);
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
pub fn is_current(elf: &Path, inputs: &str) -> bool {
    let line = format!("inputs: {inputs}");
    ["elf", "config", "sizes"].map(|e| elf.with_extension(e).is_file()) == [true; 3]
        && fs::read_to_string(elf.with_extension("manifest"))
            .is_ok_and(|manifest| manifest.lines().any(|found| found == line))
}

/// What is where an image would be or what tells of it, and is of no image that was built.
pub fn in_the_way(elf: &Path) -> Option<PathBuf> {
    let manifest = elf.with_extension("manifest");
    let is_ours = fs::read_to_string(&manifest).is_ok_and(|text| {
        text.starts_with("image: tane-") && text.lines().any(|line| line.starts_with("inputs: "))
    });
    let made = ENDINGS.map(|ending| elf.with_extension(ending));
    made.into_iter()
        .find(|path| !is_ours && path.symlink_metadata().is_ok())
}

pub fn finish(job: &Job, inputs: &str) -> Result<()> {
    let vmlinux = job.out.join("vmlinux");
    let elf = &job.order.elf;
    check_relocations(&vmlinux)?;
    nops::join(&vmlinux)?;

    let fresh = ENDINGS.map(|ending| Fresh::of(&elf.with_extension(ending)));
    let [image, debug, config, sizes, manifest] = fresh;
    let image = image?;
    let mut strip = Command::new("strip");
    strip.args(["--strip-all", "-o"]).arg(image.path());
    command::output(strip.arg(&vmlinux))?;
    let debug = debug?.same_as(&vmlinux)?;
    let config = config?.with(&layout::read(&job.out.join(".config"))?)?;
    let sizes = sizes?.with(&sizes_text(job)?)?;
    let manifest = manifest?.with(&manifest_text(job, inputs, image.path())?)?;

    // Somebody else may have used the names while it was compiled.
    if let Some(other) = in_the_way(elf).filter(|_| !job.order.replaces) {
        let other = other.display();
        return Err(format!(
            "{other}: is there now, and is of no image that was built"
        ));
    }
    let _ = fs::remove_file(elf.with_extension("manifest"));
    let mut whole = [image, debug, config, sizes, manifest].into_iter();
    whole.try_for_each(Fresh::put)
}

/// The loader knows the table of packed addresses only; say so here rather than there.
fn check_relocations(vmlinux: &Path) -> Result<()> {
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

fn manifest_text(job: &Job, inputs: &str, elf: &Path) -> Result<String> {
    let names = |paths: &[PathBuf]| {
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy())
            .collect();
        names.join(" ")
    };
    let release = layout::read(&job.out.join("include/config/kernel.release"))?;
    let sum = command::output(Command::new("sha256sum").arg("--").arg(elf))?;
    Ok(format!(
        "image: tane-{}\nrelease: {}\nsource: linux {} {}\npatches: {}\nfragments: {}\n\
         tools: {}\nsha256: {}\ninputs: {inputs}\n",
        job.recipe().name,
        release.trim(),
        job.source.version,
        job.source.id,
        names(&overlay::patches(job.layout())?),
        names(&job.recipe().fragments),
        compile::tools()?,
        sha256(&sum),
    ))
}

/// The sum in a line of sha256sum's, which marks one with an odd name by a backslash.
pub fn sha256(line: &str) -> &str {
    let sum = line.split_whitespace().next().unwrap_or_default();
    sum.trim_start_matches('\\')
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

/// What the compiler warned of.
pub fn warnings(job: &Job) -> usize {
    let log = fs::read(&job.log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    log.lines()
        .filter(|line| line.contains("warning: "))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_manifest_of_ours_lies_beside_is_in_the_way() {
        let name = format!("tane-in-the-way-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let (elf, manifest) = (dir.join("x.elf"), dir.join("x.manifest"));
        assert_eq!(in_the_way(&elf), None);
        fs::write(dir.join("x.sizes"), "12").unwrap();
        assert_eq!(in_the_way(&elf), Some(dir.join("x.sizes")));
        fs::write(&manifest, "image: of a ship\ninputs: none\n").unwrap();
        assert!(in_the_way(&elf).is_some());
        fs::remove_file(dir.join("x.sizes")).unwrap();
        assert_eq!(in_the_way(&elf), Some(manifest.clone()));
        fs::write(&manifest, "image: tane-tiny\ninputs: 12\n").unwrap();
        assert_eq!(in_the_way(&elf), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_sum_is_that_of_a_file_with_an_odd_name_too() {
        assert_eq!(sha256("12ab  x\n"), "12ab");
        assert_eq!(sha256("\\12ab  x\\ny\n"), "12ab");
    }
}
