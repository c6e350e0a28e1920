//! Images below another one, whose files are seen as one with its files.

use crate::address::{Address, HostFiles, Selector};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount::Mount;
use crate::mount_options::MountOptions;
use crate::volumes::{VolumeOptions, Volumes};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// One that a kernel has.
pub(crate) struct Layer {
    /// Goes before the disk, which they lie on.
    volumes: Volumes,
    disk: Disk,
    image: PathBuf,
    selector: Option<Selector>,
}

/// The image and the selector that `IMAGE` or `IMAGE@SELECTOR` names, where a whole file
/// system is wanted. EINVAL for a path in an image.
pub fn layer_of(address: impl AsRef<OsStr>) -> Result<(PathBuf, Option<Selector>)> {
    let address = address.as_ref();
    let at = Address::parse_image(address, &HostFiles::default())?;
    match &at.path[..] {
        b"/" => Ok((at.image, at.selector)),
        _ => {
            let name = Path::new(address).display();
            let text =
                format!("{name}: a layer is a whole file system: name an image, and a selector");
            Err(Error::plain(libc::EINVAL, "read the address", text))
        }
    }
}

impl Layer {
    pub fn new(
        kernel: &Kernel,
        disk: Disk,
        image: &Path,
        selector: Option<&Selector>,
        secrets: &VolumeOptions,
    ) -> Result<Layer> {
        let volumes = kernel.volumes(&[&disk], secrets);
        Ok(Layer {
            volumes: volumes.map_err(|e| e.with_path(image))?,
            disk,
            image: image.into(),
            selector: selector.cloned(),
        })
    }

    /// Under its name.
    pub fn disk(&self) -> (&Path, &Disk) {
        (&self.image, &self.disk)
    }

    fn mount(&self, kernel: &Kernel) -> Result<Mount> {
        let selector = self.selector.as_ref();
        let chosen = self.volumes.choose(&self.image, selector, false)?;
        let device = self.volumes.list()[chosen].device.clone();
        let gone = || Error::plain(libc::ENXIO, "open", "is gone");
        let mut options = MountOptions::new();
        options.read_only(true);
        if let Some(subvol) = selector.and_then(|s| s.subvol.as_ref()) {
            options.option("subvol", subvol);
        }
        let mounted = device
            .ok_or_else(gone)
            .and_then(|d| options.mount(kernel, d));
        mounted.map_err(|e| cannot_be_mounted(&self.image, &e))
    }
}

/// Why an image that belongs to another one is of no use.
pub(super) fn cannot_be_mounted(image: &Path, e: &Error) -> Error {
    let text = format!("cannot be mounted: {e}");
    Error::plain(e.errno(), "open", text).with_path(image)
}

/// What is mounted, seen above these, the topmost of which comes first.
pub(crate) fn merge(top: Mount, layers: &[Layer], kernel: &Kernel) -> Result<Mount> {
    if layers.is_empty() {
        return Ok(top);
    }
    let below = layers.iter().rev().map(|layer| layer.mount(kernel));
    let mut all = below.collect::<Result<Vec<_>>>()?;
    all.push(top);
    kernel.merge(all)
}
