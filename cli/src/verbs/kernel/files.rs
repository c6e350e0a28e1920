//! Where kernel images are, and what lies beside them.

use crate::args::Global;
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::session::Machine;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names of symbols and their values, "n" where one is not set.
pub type Options = BTreeMap<String, String>;

/// `tane-NAME.elf` in the directory of the image that is booted if none is named.
pub fn all(global: &Global) -> Result<Vec<(String, PathBuf)>> {
    let image = Machine::image(global)?;
    let directory = image.parent().unwrap_or(Path::new("."));
    let failed =
        |e: std::io::Error| Failure::new(NO_IMAGE, format!("{}: {e}", directory.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(name) = name_of(&path) {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let name = name.strip_prefix("tane-")?.strip_suffix(".elf")?;
    Some(name.to_owned())
}

/// The image that is meant: a name or a file; without either the one that is booted.
pub fn named(image: Option<&str>, global: &Global) -> Result<PathBuf> {
    let Some(image) = image else {
        return Machine::image(global);
    };
    let file = Path::new(image);
    if image.contains('/') || file.is_file() {
        return Ok(file.to_owned());
    }
    let known = all(global)?;
    let found = known.iter().find(|(name, _)| name == image);
    found.map(|(_, path)| path.clone()).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
        let text = format!("no kernel image {image:?}; there are: {}", names.join(", "));
        Failure::new(NO_IMAGE, text)
    })
}

/// What lies beside an image, with this ending.
pub fn beside(image: &Path, ending: &str) -> Result<String> {
    let path = image.with_extension(ending);
    std::fs::read_to_string(&path).map_err(|e| {
        let text = format!(
            "{}: {e}: building the image makes it: cargo run -p xtask -- kernel --config NAME",
            path.display()
        );
        Failure::new(NO_IMAGE, text)
    })
}

pub fn options(image: &Path) -> Result<Options> {
    Ok(parse(&beside(image, "config")?))
}

fn parse(text: &str) -> Options {
    let option = |line: &str| {
        let unset = line
            .strip_prefix("# CONFIG_")
            .and_then(|rest| rest.strip_suffix(" is not set"));
        match unset {
            Some(name) => Some((name.to_owned(), "n".to_owned())),
            None => {
                let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            }
        }
    };
    text.lines().filter_map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_kconfig_writes_it() {
        let text = "#\n# Automatically generated\nCONFIG_A=y\n# CONFIG_B is not set\n\
                    CONFIG_C=\"x=y\"\n# a CONFIG_D is not set\n";
        let found: Vec<_> = parse(text).into_iter().collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            found,
            [pair("A", "y"), pair("B", "n"), pair("C", "\"x=y\"")]
        );
    }

    #[test]
    fn an_image_has_its_name_between_tane_and_elf() {
        assert_eq!(name_of(Path::new("/x/tane-lab.elf")), Some("lab".into()));
        assert_eq!(name_of(Path::new("tane-lab.debug")), None);
        assert_eq!(name_of(Path::new("lab.elf")), None);
    }
}
