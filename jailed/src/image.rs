//! An image, and the process that serves it.

use crate::mount::Mount;
use crate::told;
use crate::volume::Volume;
use std::fmt;
use std::path::Path;
use tane::jail::Files;
use tane::{MountOptions, Result, Selector};
use tane_worker::{ImageCalls, KernelCalls, MountHow, Options};

/// An image that a jailed process serves. What an address like `disk.qcow2@2` means, it
/// means here as it does to the `tane` command.
///
/// Cheap to clone; any thread may use it. The process ends with the last handle that
/// belongs to it: of the image, a mount, a file.
#[derive(Clone)]
pub struct Image {
    served: tane_worker::Image,
}

impl Image {
    /// Open the image that `path` names for reading: no byte of it changes. See
    /// [`Options::open`] for what it may name, and for errors.
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        Image::open_with(path, &Options::new())
    }

    /// The same, as `options` say: for writing, with keys, with limits.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Image> {
        let served = options.open(path).map_err(told)?;
        Ok(Image { served })
    }

    /// Mount the file system that a selector means, or without one: what the image's name
    /// said, else the only one; read-only unless the image is open for writing. Errors as
    /// for [`tane::Image::mount`]; EINVAL for options with a comma in a value.
    pub fn mount(&self, selector: Option<&Selector>, options: &MountOptions) -> Result<Mount> {
        let how = MountHow::try_from(options)?;
        let selector = selector.map(Selector::to_string);
        let mount = self.served.mount(selector.as_deref(), &how).map_err(told)?;
        Mount::new(self.served.clone(), mount)
    }

    /// Everything that a file system can be on: see [`tane::Image::volumes`].
    pub fn volumes(&self) -> Result<Vec<Volume>> {
        let found = self.served.volumes().map_err(told)?;
        Ok(found.0.iter().map(Volume::of).collect())
    }

    /// The process that serves it.
    pub fn pid(&self) -> u32 {
        self.served.pid()
    }

    /// How far the host keeps that process from files: see [`tane::jail::Held`].
    pub fn held(&self) -> Files {
        self.served.held()
    }

    /// The log of the Linux that serves it.
    pub fn dmesg(&self) -> Result<String> {
        self.served.dmesg().map_err(told)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.served.fmt(f)
    }
}
