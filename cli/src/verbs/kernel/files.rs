//! Where kernel images are, and what lies beside them.

use crate::args::kernels_in;
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::session::Global;
use crate::session::Machine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of symbols and their values, "n" where one is not set.
pub type Options = BTreeMap<String, String>;

/// `tane-NAME.elf` in the directory of the image that is booted if none is named.
pub fn all(global: &Global) -> Result<Vec<(String, PathBuf)>> {
    let image = Machine::image(global)?;
    let directory = image.parent().unwrap_or(Path::new("."));
    let failed =
        |e: std::io::Error| Failure::new(NO_IMAGE, format!("{}: {e}", directory.display()));
    kernels_in(directory).map_err(failed)
}

/// The image that is meant: a name or a file; without either the one that is booted.
pub fn named(image: Option<&str>, global: &Global) -> Result<PathBuf> {
    let Some(image) = image else {
        return Machine::image(global);
    };
    let file = Path::new(image);
    if image.contains('/') {
        return Ok(file.to_owned());
    }
    // As of --kernel: an installed image is meant before a file of its name.
    let known = all(global);
    let mut named = known.iter().flatten().filter(|(name, _)| name == image);
    if let Some((_, path)) = named.next() {
        return Ok(path.clone());
    }
    if file.is_file() {
        return Ok(file.to_owned());
    }
    let names: Vec<String> = known?.into_iter().map(|(name, _)| name).collect();
    let text = format!("no kernel image {image:?}; there are: {}", names.join(", "));
    Err(Failure::new(NO_IMAGE, text))
}

/// What lies beside an image, with this ending.
pub fn beside(image: &Path, ending: &str) -> Result<String> {
    let path = image.with_extension(ending);
    std::fs::read_to_string(&path).map_err(|e| {
        let text = format!("{}: {e}: building the image makes it", path.display());
        Failure::new(NO_IMAGE, text).remedy("tane kernel build --base NAME -o FILE.elf builds one")
    })
}

pub fn options(image: &Path) -> Result<Options> {
    let found = tane_kernel_build::options(&beside(image, "config")?);
    let bare = |(symbol, value): (String, String)| {
        let name = symbol.strip_prefix("CONFIG_")?.to_owned();
        Some((name, value))
    };
    Ok(found.into_iter().filter_map(bare).collect())
}
