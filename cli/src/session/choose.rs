//! Which of an image's volumes an address means.

use super::machine::Machine;
use crate::args::Global;
use crate::failure::{Failure, Result};
use std::path::PathBuf;
use tane::{ImagePath, Volumes};

/// The device inside the kernel of the file system that the address means.
pub fn choose(machine: &Machine, at: &ImagePath, global: &Global) -> Result<PathBuf> {
    let (selector, any_type) = (at.selector.as_ref(), global.fs.is_some());
    let chosen = machine.volumes()?.choose(&at.image, selector, any_type);
    device(machine.volumes()?, chosen)
}

/// The device that the address means, whatever is on it: without a selector the
/// whole disk.
pub fn choose_place(machine: &Machine, at: &ImagePath) -> Result<PathBuf> {
    let volumes = machine.volumes()?;
    device(
        volumes,
        volumes.choose_place(&at.image, at.selector.as_ref()),
    )
}

pub(super) fn device(volumes: &Volumes, chosen: tane::Result<usize>) -> Result<PathBuf> {
    let failure = |e: tane::Error| {
        let mut failure = Failure::of_image(&e);
        if e.errno() == libc::ENOKEY {
            failure.message += "\n(--passphrase-file or --key-file)";
        }
        failure
    };
    let index = chosen.map_err(failure)?;
    let device = volumes.list()[index].device.clone();
    device.ok_or_else(|| Failure::image("the disk is gone"))
}
