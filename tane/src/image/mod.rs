//! Disk images as people mean them: a file, what is in it, and which of the file
//! systems there is wanted.
//!
//! ```text
//! options.rs   how one is opened: plain data, and what asks and tells
//! open.rs      the steps of that, between which a jail is entered
//! file.rs      the files that a disk is of
//! jail.rs      what a jail must leave open for them
//! nested.rs    an image in a file of another one
//! layers.rs    images below one
//! ```

pub(crate) mod file;
pub(crate) mod jail;
pub(crate) mod layers;
pub(crate) mod nested;
pub(crate) mod open;
pub(crate) mod options;

use crate::address::{ImagePath, Selector};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount::{Mount, On};
use crate::mount_options::MountOptions;
use crate::volumes::Volumes;
use layers::Layer;
use options::{ImageHooks, ImageOptions};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// An image that a kernel has as a disk, with further images of the same machine
/// if there are any, and with the volumes on them all. What an address like
/// `disk.qcow2@2:/` means, it means here as it does to the `tane` command.
///
/// This kernel runs in the calling process, with all of its rights: for images that
/// somebody vouches for. The crate `tane-jailed` has the same in a jailed process of its
/// own.
///
/// ```no_run
/// use tane::{Image, MountOptions};
///
/// let image = Image::open("disk.qcow2@2")?;
/// let mount = image.mount(None, &MountOptions::new())?;
/// print!("{}", mount.read_to_string("/etc/os-release")?);
/// # Ok::<(), tane::Error>(())
/// ```
///
/// Cheap to clone; any thread may use it. Mounts of it keep it open.
#[derive(Clone)]
pub struct Image {
    inner: Arc<Inner>,
}

struct Inner {
    /// Found when first asked for; goes before the disks, which they lie on.
    volumes: OnceLock<Volumes>,
    /// Held by who looks for them.
    search: Mutex<()>,
    /// The layers below it, the topmost first.
    lower: Vec<Layer>,
    /// The image that was named, then those it comes with.
    disks: Vec<Disk>,
    at: ImagePath,
    options: ImageOptions,
    hooks: ImageHooks,
    /// Given, or typed.
    secrets: Mutex<Vec<Vec<u8>>>,
    kernel: Kernel,
    /// Last: the disk is one of its files.
    outer: Option<Outer>,
}

/// An image that another one lies in.
pub struct Outer {
    /// Its file system that has the file.
    pub mounted: Mount,
    /// The image.
    pub image: Image,
}

impl Image {
    /// Open the image that `path` names for reading, with a new kernel in this process, which
    /// is not jailed; `tane_jailed::Image::open` is. See [`ImageOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        ImageOptions::new().open(path, |_| Kernel::boot())
    }

    fn new(
        kernel: Kernel,
        at: &ImagePath,
        disks: Vec<Disk>,
        outer: Option<Outer>,
        options: &ImageOptions,
        hooks: &ImageHooks,
    ) -> Image {
        Image {
            inner: Arc::new(Inner {
                volumes: OnceLock::new(),
                search: Mutex::new(()),
                lower: Vec::new(),
                disks,
                at: at.clone(),
                options: options.clone(),
                hooks: hooks.clone(),
                secrets: Mutex::new(options.secrets.clone()),
                kernel,
                outer,
            }),
        }
    }

    /// A disk that a kernel has, as an image of this name.
    pub fn of_disk(name: &Path, disk: Disk, kernel: &Kernel, options: &ImageOptions) -> Image {
        let at = ImagePath {
            image: name.into(),
            selector: None,
            path: b"/".to_vec(),
            within: None,
        };
        let hooks = ImageHooks::new();
        Image::new(kernel.clone(), &at, vec![disk], None, options, &hooks)
    }

    fn add_lower(&mut self, layer: Layer) {
        // Nobody else has it yet.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.lower.push(layer);
        }
    }

    /// What it was called.
    pub fn name(&self) -> &Path {
        &self.inner.at.image
    }

    /// The kernel that serves it.
    pub fn kernel(&self) -> &Kernel {
        &self.inner.kernel
    }

    /// The image that was named, as a disk.
    pub fn disk(&self) -> &Disk {
        // There is one, or open() would have failed.
        &self.inner.disks[0]
    }

    /// The image that was named and those it comes with, under their names.
    pub fn disks(&self) -> impl Iterator<Item = (&Path, &Disk)> {
        let with = self.inner.options.with.iter().map(PathBuf::as_path);
        let names = std::iter::once(self.name()).chain(with);
        names.zip(&self.inner.disks)
    }

    /// The same of the layers below it.
    pub fn lower_disks(&self) -> impl Iterator<Item = (&Path, &Disk)> {
        self.inner.lower.iter().map(Layer::disk)
    }

    /// The image that this one lies in, if nobody else has a handle to this one.
    pub fn into_outer(self) -> Option<Outer> {
        Arc::into_inner(self.inner)?.outer
    }

    /// What opens its encrypted volumes: given, or told when it was asked for.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        self.lock_secrets().clone()
    }

    fn lock_secrets(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        let secrets = self.inner.secrets.lock();
        secrets.unwrap_or_else(|e| e.into_inner())
    }

    /// Everything that a file system can be on. Encrypted volumes are opened by the
    /// secrets that the options hold, else by those that were asked for.
    pub fn volumes(&self) -> Result<&Volumes> {
        let inner = &*self.inner;
        let _search = inner.search.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(volumes) = inner.volumes.get() {
            return Ok(volumes);
        }
        let disks: Vec<_> = inner.disks.iter().collect();
        let mut options = inner.options.volumes();
        let mut volumes = inner.kernel.volumes(&disks, &options)?;
        if self.lock_secrets().is_empty() {
            while volumes.list().iter().any(|v| v.locked) {
                let Some(secret) = inner.hooks.ask_for_volume() else {
                    break;
                };
                drop(volumes);
                self.lock_secrets().push(secret.clone());
                options.secret(secret);
                volumes = inner.kernel.volumes(&disks, &options)?;
            }
        }
        Ok(inner.volumes.get_or_init(|| volumes))
    }

    /// The device inside the kernel of the file system that a selector means, or
    /// without one: of what its name said, else of the only one. Errors as for
    /// [`Volumes::choose`], whose `any_type` this is.
    pub fn choose(&self, selector: Option<&Selector>, any_type: bool) -> Result<PathBuf> {
        let volumes = self.volumes()?;
        let selector = selector.or(self.inner.at.selector.as_ref());
        let at = volumes.choose(self.name(), selector, any_type)?;
        let device = volumes.list()[at].device.clone();
        device.ok_or_else(|| Error::plain(libc::ENXIO, "open", "is gone"))
    }

    /// Mount the file system that a selector means, or without one: what the image's name
    /// said, else the only one; with those of images below it, and read-only unless the
    /// image is open for writing. Errors as for [`Image::choose`] and
    /// [`MountOptions::mount`].
    pub fn mount(&self, selector: Option<&Selector>, options: &MountOptions) -> Result<Mount> {
        let device = self.choose(selector, options.has_fstype())?;
        let mount = self.mount_device(&device, selector, options)?;
        Ok(self.above_layers(mount)?.on(self.clone()))
    }

    /// The first half of [`Self::mount`]: what is on a device of it that was chosen by this
    /// selector, without images below it. The mount does not keep the image open.
    pub fn mount_device(
        &self,
        device: &Path,
        selector: Option<&Selector>,
        options: &MountOptions,
    ) -> Result<Mount> {
        let mut options = options.clone();
        if !self.inner.options.write {
            options.read_only(true);
        }
        let selector = selector.or(self.inner.at.selector.as_ref());
        if let Some(subvol) = selector.and_then(|s| s.subvol.as_ref()) {
            options.option("subvol", subvol);
        }
        options.mount(&self.inner.kernel, device)
    }

    /// The second half: what is mounted, seen above the images below it, if there are any.
    pub fn above_layers(&self, mount: Mount) -> Result<Mount> {
        let fail = |e: Error| match e.path() {
            Some(path) if self.lower_disks().any(|(name, _)| name == path) => e,
            _ => layers::cannot_be_mounted(self.name(), &e),
        };
        layers::merge(mount, &self.inner.lower, &self.inner.kernel).map_err(fail)
    }

    /// Everything written so far is in the image when this returns. Not every
    /// file system asks for that when it is unmounted; [`Mount::unmount`] of a
    /// mount of this image does.
    pub fn flush(&self) -> Result<()> {
        let disks = &self.inner.disks;
        disks.iter().try_for_each(|disk| {
            disk.backend().flush().map_err(|error| {
                let errno = crate::error::errno_or_guess(&error);
                Error::from_source(errno, "flush", error).with_path(self.name())
            })
        })
    }
}

impl On for Image {
    fn unmounted(&self) -> Result<()> {
        match self.inner.options.write {
            true => self.flush(),
            false => Ok(()),
        }
    }
}

impl Mount {
    /// The image it is on, if it was mounted by [`Image::mount`].
    pub fn image(&self) -> Option<&Image> {
        self.is_on()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "Image({} of {:?})", self.name().display(), inner.kernel)
    }
}
