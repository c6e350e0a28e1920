// SPDX-License-Identifier: GPL-2.0-only
//! What an image's configuration consists of. kernel/configs/images has one
//! line for each image, "name: fragment fragment ..."; a name on a command
//! line may add more fragments, "default+debuginfo". "@NAME" among them is the
//! experiment whose patches the image's source has, kernel/experiments/NAME.

use std::path::{Path, PathBuf};

use crate::layout::{self, Layout};
use crate::Result;

/// One image: its name and the fragments, the later ones winning.
pub struct Recipe {
    /// As in "default+debuginfo".
    pub name: String,
    /// Files of options.
    pub fragments: Vec<PathBuf>,
    /// Whose patches the source has.
    pub experiment: Option<String>,
    /// Some fragments are not ours: any part of the overlay may be in the image.
    is_foreign: bool,
}

impl Recipe {
    /// An image of kernel/configs/images, and what its name adds.
    pub fn named(layout: &Layout, name: &str) -> Result<Self> {
        let mut parts = name.split('+');
        let image = parts.next().unwrap_or_default();
        let images = all(layout)?;
        let (_, mut fragments) = images
            .iter()
            .find(|(known, _)| known == image)
            .cloned()
            .ok_or_else(|| {
                let known: Vec<_> = images.iter().map(|(name, _)| name.as_str()).collect();
                format!(
                    "no image is called {image:?}; there are: {}",
                    known.join(", ")
                )
            })?;
        fragments.extend(parts.map(String::from));
        let experiment = experiment(layout, &mut fragments)?;
        let fragments = fragments
            .iter()
            .map(|fragment| {
                let path = layout.configs().join(format!("{fragment}.config"));
                if fragment.contains('/') || !path.is_file() {
                    return Err(format!("{}: no such fragment", path.display()));
                }
                Ok(path)
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            name: name.to_string(),
            fragments,
            experiment,
            is_foreign: false,
        })
    }

    /// The same with this file of options, which wins.
    pub fn with(mut self, fragment: PathBuf) -> Self {
        let stem = fragment.file_stem().unwrap_or_default().to_string_lossy();
        self.name = format!("{}+{stem}", self.name);
        self.fragments.push(fragment);
        self.is_foreign = true;
        self
    }
}

/// The fragments there are.
pub fn fragments(layout: &Layout) -> Result<Vec<String>> {
    let files = layout::files_below(&layout.configs())?;
    let names = files.iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        name.strip_suffix(".config").map(String::from)
    });
    Ok(names.collect())
}

/// The one that is among them, if there is one.
fn experiment(layout: &Layout, fragments: &mut Vec<String>) -> Result<Option<String>> {
    let names: Vec<_> = fragments
        .iter()
        .filter_map(|fragment| fragment.strip_prefix('@').map(String::from))
        .collect();
    fragments.retain(|fragment| !fragment.starts_with('@'));
    match &names[..] {
        [] => Ok(None),
        [name] => {
            let dir = layout.experiments().join(name);
            if name.contains('/') || !dir.is_dir() {
                return Err(format!("{}: no such experiment", dir.display()));
            }
            Ok(Some(name.clone()))
        }
        _ => Err(format!("more than one experiment: {}", names.join(", "))),
    }
}

impl Recipe {
    /// The files of the overlay that this image is made of, and what each is called
    /// there. A directory of the overlay with the name of a fragment is there for
    /// images with that fragment; what it has changes in no other.
    pub fn overlay(&self, layout: &Layout) -> Result<Vec<(PathBuf, PathBuf)>> {
        let overlay = layout.overlay();
        let fragments = layout::files_below(&layout.configs())?;
        let mine = |name: &Path| {
            if self.is_foreign {
                return true;
            }
            let directory = name.parent().and_then(|parent| parent.iter().next());
            let fragment = directory.map(|d| layout.configs().join(d).with_extension("config"));
            fragment.is_none_or(|f| !fragments.contains(&f) || self.fragments.contains(&f))
        };
        let found = layout::files_below(&overlay)?.into_iter();
        let found = found.filter_map(|path| {
            let name = path.strip_prefix(&overlay).ok()?.to_path_buf();
            mine(&name).then_some((name, path))
        });
        Ok(found.collect())
    }
}

/// All images and the names of their fragments.
pub fn all(layout: &Layout) -> Result<Vec<(String, Vec<String>)>> {
    let path = layout.configs().join("images");
    layout::read(&path)?
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, fragments) = line
                .split_once(':')
                .ok_or_else(|| format!("{}: no colon in {line:?}", path.display()))?;
            let fragments = fragments.split_whitespace().map(String::from).collect();
            Ok((name.trim().to_string(), fragments))
        })
        .collect()
}
