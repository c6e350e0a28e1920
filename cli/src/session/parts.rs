//! Which files of the host an image consists of.

use crate::session::Global;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tane::images::ImageOptions;
use tane::ImagePath;

/// Whether this file holds a part of the image, or what is opened beside it: writing it would
/// change what is read.
pub fn consists_of(at: &ImagePath, file: &Path, global: &Global) -> bool {
    let mut options = ImageOptions::new();
    if let Some(format) = global.format {
        options.format(format);
    }
    for place in &global.trust {
        options.trust(place);
    }
    let images = [&[at.outermost().image.clone()][..], &global.with].concat();
    let layers = images.iter().flat_map(|image| options.files(image));
    let mut parts = layers.map(|layer| layer.path);
    let beside = images.iter().chain(&global.overlay).chain(&global.lower);
    parts.any(|part| is_same_file(&part, file))
        || beside.into_iter().any(|path| is_same_file(path, file))
}

/// Both are there, and the same.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    id(a).is_some() && id(a) == id(b)
}
