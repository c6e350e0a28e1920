//! The steps of opening an image, in the order in which a jail wants them: its files, the
//! kernels that will serve it, and only then a look at what is in it.

use super::nested;
use super::options::{ImageHooks, ImageOptions};
use super::{Image, Outer};
use crate::address::{Address, HostFiles, ImagePath, Selector};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::image::file::DiskImage;
use crate::image::layers::{cannot_be_mounted, Layer};
use crate::kernel::Kernel;
use crate::mount::Mount;
use crate::mount_options::MountOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane_images::Backend;
use tane_jail::Jail;

/// Most images in one another: each takes a kernel.
const MOST: usize = 16;

impl ImagePath {
    /// The image that a text names as a whole: `disk.img`, `disk.img@2`, an address on a
    /// server, or `outer.img@2:/dir/inner.img` for an image in another one. A file of the
    /// host is meant by its full name before anything else. EINVAL if it has something
    /// behind an "@" that is no selector.
    pub fn of_image(text: impl AsRef<Path>) -> Result<ImagePath> {
        let text = text.as_ref();
        let plain = || ImagePath {
            image: text.into(),
            selector: None,
            path: b"/".to_vec(),
            within: None,
        };
        if text.symlink_metadata().is_ok() {
            return Ok(plain());
        }
        let at = Address::parse_image(text.as_os_str(), &HostFiles::default())?;
        Ok(at.whole())
    }
}

impl ImageOptions {
    /// Open the image that `path` names, in the words of [`ImagePath::of_image`], with a
    /// kernel of its own, which `boot` starts once all files are open. An image in another
    /// one takes a kernel for each.
    ///
    /// Errors: those of [`DiskOptions::open_image`](crate::DiskOptions::open_image) and of
    /// `boot`; EINVAL options that exclude each other; of an image in another one those of
    /// [`Image::mount`].
    pub fn open(
        &self,
        path: impl AsRef<Path>,
        boot: impl FnMut(&ToBoot<'_>) -> Result<Kernel>,
    ) -> Result<Image> {
        let at = ImagePath::of_image(path)?;
        let opened = self.open_files(&at, &ImageHooks::new())?;
        opened.boot(boot)?.attach()
    }

    /// Let a jail open the image and all that belongs to it.
    pub fn allow(&self, jail: &mut Jail, at: &ImagePath) {
        let own = match at.within {
            Some(_) => self.of_outer().files(),
            None => self.files(),
        };
        own.allow(jail, &at.outermost().image);
        for image in &self.with {
            self.beside(at.within.is_some()).files().allow(jail, image);
        }
        for (image, _) in &self.lower {
            self.of_lower().files().allow(jail, image);
        }
    }

    /// Open the files of an image; of one in another image those of the outermost, and of
    /// what the one that is named comes with. Its `path` is no matter.
    ///
    /// Errors: as for [`Self::open`], but for those of booting and of what is in it.
    pub fn open_files(&self, at: &ImagePath, hooks: &ImageHooks) -> Result<OpenedImage> {
        self.check(&at.image, at.within.is_some())?;
        if at.most_kernels() > MOST {
            let text = "is in too many other images";
            return Err(Error::plain(libc::EINVAL, "open", text).with_path(&at.image));
        }
        let mut hooks = hooks.clone();
        let own = match at.within {
            Some(_) => {
                hooks.take_redo();
                self.of_outer().disk(&hooks)
            }
            None => self.disk(&hooks),
        };
        let outermost = own.open_image(&at.outermost().image)?;
        hooks.take_redo();
        let below = self.of_lower().disk(&hooks);
        let beside = self.beside(at.within.is_some()).disk(&hooks);
        let open = |path: &PathBuf| beside.open_image(path);
        let open_lower = |(path, _): &(PathBuf, _)| below.open_image(path);
        Ok(OpenedImage {
            outermost,
            with: self.with.iter().map(open).collect::<Result<_>>()?,
            lower: self.lower.iter().map(open_lower).collect::<Result<_>>()?,
            outer: at.most_kernels() - 1,
            at: at.clone(),
            options: self.clone(),
            hooks,
        })
    }
}

/// An image whose files are open, and no kernel's yet. Between this and
/// [`BootedImage::attach`] is the time to enter a [`Jail`](crate::jail::Jail).
pub struct OpenedImage {
    /// The one that the host has: the image itself, if it is not in another one.
    outermost: DiskImage,
    with: Vec<DiskImage>,
    lower: Vec<DiskImage>,
    /// Images that it may lie in.
    outer: usize,
    at: ImagePath,
    options: ImageOptions,
    hooks: ImageHooks,
}

/// What a kernel is about to be booted for.
pub struct ToBoot<'o> {
    /// Its disks and those of layers below them, as far as they are known.
    pub disks: Vec<&'o DiskImage>,
    /// They are all of them: it is not for an image that is still to be found in another.
    pub is_all: bool,
    /// It is for an image that the one that is named lies in, and not for that.
    pub is_outer: bool,
    has_lower: bool,
    has_verity: bool,
}

impl ToBoot<'_> {
    /// Whether the [`tiny_image`](crate::tiny_image) can do all with it: each of its
    /// files is an ext2, ext3 or ext4 without rare features, as
    /// [`DiskImage::is_plain`] has it. A FAT's mount options may ask for more.
    pub fn is_plain(&self) -> bool {
        let any = self.is_all && !self.has_lower && !self.has_verity;
        any && self.disks.iter().all(|disk| disk.is_plain_with_options())
    }
}

impl OpenedImage {
    /// The disks that are open: the image that the host has and those it comes with, under
    /// their names.
    pub fn disks(&self) -> impl Iterator<Item = (&Path, &DiskImage)> {
        let first = (self.at.outermost().image.as_path(), &self.outermost);
        let with = self.options.with.iter().map(PathBuf::as_path);
        std::iter::once(first).chain(with.zip(&self.with))
    }

    /// Its name has been looked up in the images that it lies in: they are as many as it says.
    pub fn resolved(mut self) -> Self {
        self.outer = self.at.layers().count() - 1;
        self
    }

    /// Boot a kernel for the image that is named, and then one for each that it may lie in.
    /// None sees anything yet.
    pub fn boot<E>(
        self,
        mut boot: impl FnMut(&ToBoot<'_>) -> std::result::Result<Kernel, E>,
    ) -> std::result::Result<BootedImage, E> {
        let outer = self.outer;
        let goes_out = self.options.has_outer_with(outer > 0);
        let own = (outer == 0).then_some(&self.outermost);
        let with = self.with.iter().filter(|_| !goes_out);
        let kernel = boot(&ToBoot {
            disks: own.into_iter().chain(with).chain(&self.lower).collect(),
            is_all: outer == 0,
            is_outer: false,
            has_lower: !self.lower.is_empty(),
            has_verity: self.options.verity.is_some(),
        })?;
        let outer = (0..outer).map(|level| {
            let own = (level == 0).then_some(&self.outermost);
            let with = self.with.iter().filter(|_| goes_out && level == 0);
            boot(&ToBoot {
                disks: own.into_iter().chain(with).collect(),
                is_all: level == 0,
                is_outer: true,
                has_lower: false,
                has_verity: false,
            })
        });
        let outer = outer.collect::<std::result::Result<_, E>>()?;
        Ok(BootedImage {
            opened: self,
            kernel,
            outer,
        })
    }
}

/// An image whose files are open, and kernels that are to serve it.
pub struct BootedImage {
    opened: OpenedImage,
    kernel: Kernel,
    /// For those that it lies in, the outermost first.
    outer: Vec<Kernel>,
}

impl BootedImage {
    /// The kernel of the image that is named.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Give it to its kernel, which only now sees what is in it.
    ///
    /// Errors: ENOSPC the kernel has as many disks as it can have; those of
    /// [`Image::mount`] of an image that it lies in.
    pub fn attach(self) -> Result<Image> {
        self.attach_by(|image, selector| {
            let options = MountOptions::new();
            let device = image.choose(selector, false)?;
            let mounted = image.mount_device(&device, selector, &options);
            mounted.map_err(|e| cannot_be_mounted(image.name(), &e))
        })
    }

    /// The same; `mount` mounts the file system of an image that another one lies in, by
    /// [`Image::mount_device`]: the image goes with its mount.
    pub fn attach_by<E: From<Error>>(
        self,
        mut mount: impl FnMut(&Image, Option<&Selector>) -> std::result::Result<Mount, E>,
    ) -> std::result::Result<Image, E> {
        let OpenedImage {
            outermost,
            with,
            lower,
            at,
            options,
            hooks,
            ..
        } = self.opened;
        let mut known = at.layers().cloned().collect::<Vec<_>>();
        let mut here = known.pop().unwrap_or_else(|| at.clone());
        let goes_out = options.has_outer_with(!known.is_empty());
        let beside = options.beside(!known.is_empty());
        let mut with = Some(with);
        let add_with = |with: Vec<DiskImage>, kernel: &Kernel, disks: &mut Vec<Disk>| {
            let options = beside.disk(&hooks);
            for opened in with {
                disks.push(kernel.add_disk_image(opened, &options)?);
            }
            Ok::<_, Error>(())
        };
        let mut has = Has::Files(outermost);
        let mut outer = None;
        let mut kernels = self.outer.into_iter();
        while !known.is_empty() {
            // The outermost comes first.
            let own = match &outer {
                None if goes_out => beside.clone(),
                _ => options.of_outer(),
            };
            let few = || Error::plain(libc::EINVAL, "open", "is in too many other images");
            let kernel = kernels.next().ok_or_else(few)?;
            let mut disks = vec![has.attach(&kernel, &here, &own, &hooks)?];
            if goes_out {
                add_with(with.take().unwrap_or_default(), &kernel, &mut disks)?;
            }
            let image = Image::new(kernel, &here, disks, outer, &own, &hooks);
            let mounted = mount(&image, here.selector.as_ref())?;
            let mut next = nested::step(&mounted, &here)?;
            let file = next.within.as_ref().map_or(&b"/"[..], |at| &at.path);
            let found = nested::open(&mounted, file, &next.image, &options, &hooks)?;
            has = Has::Bytes(found);
            outer = Some(Outer { mounted, image });
            if next.path == b"/" {
                if let Some(this) = known.pop() {
                    next.selector = next.selector.or(this.selector);
                    next.path = this.path;
                }
            }
            here = next;
        }
        let kernel = self.kernel;
        let mut disks = vec![has.attach(&kernel, &here, &options, &hooks)?];
        add_with(with.unwrap_or_default(), &kernel, &mut disks)?;
        let mut image = Image::new(kernel.clone(), &here, disks, outer, &options, &hooks);
        let below = options.of_lower();
        for (opened, (path, selector)) in lower.into_iter().zip(&options.lower) {
            let disk = kernel.add_disk_image(opened, &below.disk(&hooks))?;
            let found = below.volumes();
            image.add_lower(Layer::new(&kernel, disk, path, selector.as_ref(), &found)?);
        }
        Ok(image)
    }
}

/// What an image's disk has its bytes from.
enum Has {
    Files(DiskImage),
    Bytes(Arc<dyn Backend>),
}

impl Has {
    fn attach(
        self,
        kernel: &Kernel,
        at: &ImagePath,
        options: &ImageOptions,
        hooks: &ImageHooks,
    ) -> Result<Disk> {
        let options = options.disk(hooks);
        match self {
            Has::Files(image) => kernel.add_disk_image(image, &options),
            Has::Bytes(bytes) => {
                let disk = kernel.add_disk(bytes, &options);
                disk.map_err(|e| e.with_path(&at.image))
            }
        }
    }
}
