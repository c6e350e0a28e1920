//! Layers below an image (`--lower`): its files are seen with theirs, as overlayfs
//! shows them.

use super::choose::device;
use super::machine::Machine;
use super::Access;
use crate::args::Global;
use crate::failure::{Failure, Result};
use std::path::Path;
use tane::{layer_of, Disk, DiskImage, DiskOptions, ImagePath, Kernel, Mount, MountOptions};
use tane::{VolumeOptions, Volumes};

/// One that a kernel has.
pub struct Lower {
    /// Before the disk, which they lie on.
    volumes: Volumes,
    pub disk: Disk,
    at: ImagePath,
}

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

/// Those of an image that is read.
fn options(secrets: &[Vec<u8>], global: &Global) -> DiskOptions {
    let alone = Global {
        overlay: None,
        ..global.clone()
    };
    Machine::options(Access::Read, secrets, &alone)
}

/// Opens their files.
pub fn open(
    named: Vec<ImagePath>,
    secrets: &[Vec<u8>],
    global: &Global,
) -> Result<Vec<(ImagePath, DiskImage)>> {
    let options = options(secrets, global);
    let open = |at: ImagePath| {
        let opened = options.open_image(&at.image);
        Ok((at, opened.map_err(|e| Failure::of_image(&e))?))
    };
    named.into_iter().map(open).collect()
}

/// Gives them to a kernel.
pub fn add(
    kernel: &Kernel,
    opened: Vec<(ImagePath, DiskImage)>,
    secrets: &[Vec<u8>],
    global: &Global,
) -> Result<Vec<Lower>> {
    let options = options(&[], global);
    let mut found = VolumeOptions::new();
    for secret in secrets {
        found.secret(secret.clone());
    }
    let add = |(at, image): (ImagePath, DiskImage)| {
        let fail = |e: tane::Error| Failure::of_image(&e.with_path(&at.image));
        let disk = kernel.add_disk_image(image, &options).map_err(fail)?;
        let volumes = kernel.volumes(&[&disk], &found).map_err(fail)?;
        Ok(Lower { volumes, disk, at })
    };
    opened.into_iter().map(add).collect()
}

impl Lower {
    pub fn name(&self) -> String {
        self.at.image.display().to_string()
    }

    fn mount(&self, kernel: &Kernel) -> Result<Mount> {
        let selector = self.at.selector.as_ref();
        let chosen = self.volumes.choose(&self.at.image, selector, false);
        let device = device(&self.volumes, chosen)?;
        let mut options = MountOptions::new();
        options.read_only(true);
        if let Some(subvol) = selector.and_then(|s| s.subvol.as_ref()) {
            options.option("subvol", subvol);
        }
        let mounted = options.mount(kernel, &device);
        mounted.map_err(|e| fail(&self.at.image, &e))
    }
}

fn fail(image: &Path, e: &tane::Error) -> Failure {
    Failure::image(format!("{}: cannot be mounted: {e}", image.display()))
}

/// What is mounted, seen above its layers if it has some.
pub fn merge(top: Mount, image: &Path, machine: &Machine) -> Result<Mount> {
    let layers = machine.lower.iter().rev();
    let layers = layers.map(|lower| lower.mount(&machine.kernel));
    let mut layers = layers.collect::<Result<Vec<_>>>()?;
    layers.push(top);
    let merged = machine.kernel.merge(layers);
    merged.map_err(|e| fail(image, &e))
}
