//! Several file systems seen as one: overlayfs.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount::Mount;
use crate::mount_options::MountOptions;

impl Kernel {
    /// See several mounts as one, for reading, as overlayfs shows them: the first is
    /// at the bottom, and what a later one has hides what those before it have under
    /// the same name. Directories are merged; a whiteout (a character device 0:0, or
    /// an empty file with the attribute `trusted.overlay.whiteout`) hides a name
    /// altogether, and a directory with `trusted.overlay.opaque` all that is beneath.
    /// The mounts stay until the one returned is unmounted.
    ///
    /// Errors: EINVAL without any mount; ENODEV a kernel image without overlayfs
    /// (the default one has it).
    ///
    /// ```no_run
    /// use tane::{DiskOptions, Kernel, MountOptions};
    ///
    /// let kernel = Kernel::boot()?;
    /// let layer = |image: &str| {
    ///     let disk = kernel.open_disk(image, DiskOptions::new().read_only(true))?;
    ///     MountOptions::new().read_only(true).mount(&kernel, disk.device())
    /// };
    /// let seen = kernel.merge(vec![layer("base.squashfs")?, layer("changes.img")?])?;
    /// print!("{}", seen.read_to_string("/etc/os-release")?);
    /// # Ok::<(), tane::Error>(())
    /// ```
    pub fn merge(&self, mut layers: Vec<Mount>) -> Result<Mount> {
        if layers.len() < 2 {
            let none = || Error::plain(libc::EINVAL, "merge", "there is no mount to see");
            return layers.pop().ok_or_else(none);
        }
        let place = |layer: &Mount| layer.mount_point().display().to_string();
        let below: Vec<_> = layers.iter().rev().map(place).collect();
        let mut options = MountOptions::new();
        options
            .fstype("overlay")
            .read_only(true)
            .option("lowerdir", below.join(":"))
            // Layers may name what they moved, or hold a file's attributes alone.
            .option("metacopy", "on");
        Ok(options.mount(self, "overlay")?.above(layers))
    }
}
