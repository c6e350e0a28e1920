//! What scripts/foreign-images has of other projects: sources of suites, and what is built
//! of them.

use super::Extent;
use std::path::{Path, PathBuf};

/// Where a package's things are, which have this file among them; or who gets them.
pub fn foreign(package: &str, file: &str) -> Result<PathBuf, String> {
    let all = concat!(env!("CARGO_MANIFEST_DIR"), "/../build/foreign");
    let dir = Path::new(all).join(package);
    if dir.join(file).is_file() {
        return Ok(dir);
    }
    Err(format!(
        "there is no {file} of {package}: scripts/foreign-images gets it"
    ))
}

/// The files of a directory with this ending, without it: those of a part, or those that are
/// `chosen`.
pub fn units(
    dir: &Path,
    ending: &str,
    extent: Extent,
    part: &[&str],
    chosen: impl Fn(&str) -> bool,
) -> Vec<String> {
    let names = names(dir);
    let units = names.iter().filter_map(|name| name.strip_suffix(ending));
    let units = units.filter(|unit| match extent {
        Extent::Part => part.contains(unit),
        Extent::All => chosen(unit),
    });
    units.map(str::to_owned).collect()
}

/// The names of a directory's entries, in their order.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.into_string().expect("UTF-8")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}
