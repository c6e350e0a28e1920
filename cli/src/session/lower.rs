//! Layers below an image (`--lower`): its files are seen with theirs, as overlayfs
//! shows them.

use super::Access;
use crate::failure::{Failure, Result};
use crate::session::Global;
use tane::{layer_of, ImagePath};

/// Those of an image that is about to be opened.
pub fn below(access: Access, global: &Global) -> Result<Vec<ImagePath>> {
    match (access, global.lower.is_empty() || global.alone) {
        (_, true) => Ok(Vec::new()),
        (Access::Read, _) => named(global),
        (Access::Write, _) => {
            let text = "--lower shows several images as one for reading; to write, name one alone";
            Err(Failure::usage(text))
        }
    }
}

/// What the command line names, the topmost first.
pub fn named(global: &Global) -> Result<Vec<ImagePath>> {
    let parse = |name: &std::path::PathBuf| {
        let (image, selector) =
            layer_of(name).map_err(|e| Failure::address(name.as_os_str(), &e))?;
        Ok(ImagePath {
            image,
            selector,
            path: b"/".to_vec(),
            within: None,
        })
    };
    global.lower.iter().map(parse).collect()
}
