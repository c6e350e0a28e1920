//! Disk images as people mean them: a file, what is in it, and which of the file
//! systems there is wanted.

use crate::address::Selector;
use crate::disk::{Disk, DiskOptions};
use crate::error::{Error, Result};
use crate::image_file::DiskImage;
use crate::image_jail::ImageFiles;
use crate::kernel::Kernel;
use crate::layers::{self, Layer};
use crate::mount::Mount;
use crate::mount_options::MountOptions;
use crate::volumes::{VolumeOptions, Volumes};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tane_images::{Backend, Format};
use tane_jail::Jail;

type Ask = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// How an [`Image`] is opened.
#[derive(Clone, Default)]
pub struct ImageOptions {
    files: ImageFiles,
    disk: DiskOptions,
    with: Vec<PathBuf>,
    lower: Vec<(PathBuf, Option<Selector>)>,
    secrets: Vec<Vec<u8>>,
    ask: Option<Ask>,
    /// What is written is kept in memory.
    forget: bool,
}

impl ImageOptions {
    /// For reading: no byte of the image changes, and what Linux writes while
    /// mounting (the replay of a journal) stays in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Write to the image, and lock its file against other users.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.files.write = yes;
        self
    }

    /// See [`DiskOptions::format`].
    pub fn format(&mut self, format: Format) -> &mut Self {
        self.files.format = Some(format);
        self.disk.format(format);
        self
    }

    /// See [`DiskOptions::overlay`]. `:memory:` is no file: what is written stays in
    /// memory, and is forgotten at the end.
    pub fn overlay(&mut self, file: impl Into<PathBuf>) -> &mut Self {
        let file = file.into();
        self.forget = file.as_os_str() == ":memory:";
        if self.forget {
            return self;
        }
        self.files.overlay = Some(file);
        self
    }

    /// See [`DiskOptions::trust`].
    pub fn trust(&mut self, place: impl Into<PathBuf>) -> &mut Self {
        let place = place.into();
        self.files.trust.push(place.clone());
        self.disk.trust(place);
        self
    }

    /// See [`DiskOptions::servers`].
    pub fn servers(
        &mut self,
        open: impl Fn(&str) -> io::Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.disk.servers(open);
        self
    }

    /// See [`DiskOptions::notice`].
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.disk.notice(say);
        self
    }

    /// A further image of the same machine: another disk of its LVM group, RAID
    /// set or btrfs.
    pub fn with(&mut self, image: impl Into<PathBuf>) -> &mut Self {
        self.with.push(image.into());
        self
    }

    /// An image below this one, and below those that were named before: the files of all
    /// are seen as one, for reading, as overlayfs shows them (see [`Kernel::merge`]). Of
    /// an image with several file systems the one that the selector means.
    /// [`layer_of`](crate::layer_of) reads an address.
    pub fn lower(&mut self, image: impl Into<PathBuf>, selector: Option<Selector>) -> &mut Self {
        self.lower.push((image.into(), selector));
        self
    }

    /// A passphrase, or the content of a key file: tried on each container that is
    /// encrypted, and on each LUKS volume. See [`DiskOptions::secret`] and
    /// [`VolumeOptions::secret`].
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        let secret = secret.into();
        self.disk.secret(secret.clone());
        self.secrets.push(secret);
        self
    }

    /// Asked for a secret, again and again, as long as a container or an encrypted volume
    /// is locked and no [`ImageOptions::secret`] was given; None ends it.
    pub fn ask(&mut self, ask: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static) -> &mut Self {
        let ask: Ask = Arc::new(ask);
        let asked = ask.clone();
        self.disk.ask(move || asked());
        self.ask = Some(ask);
        self
    }

    /// Open an image with a kernel of its own, which `boot` starts once all files are
    /// open.
    ///
    /// Errors: those of [`DiskOptions::open_image`] and of `boot`.
    pub fn open(
        &self,
        path: impl AsRef<Path>,
        boot: impl FnOnce() -> Result<Kernel>,
    ) -> Result<Image> {
        let path = path.as_ref();
        let opened = self.open_files(path)?;
        opened.attach(&boot()?)
    }

    /// The secrets, for volumes.
    fn given(&self) -> VolumeOptions {
        let mut options = VolumeOptions::new();
        for secret in &self.secrets {
            options.secret(secret.clone());
        }
        options
    }

    /// The image, then those it comes with.
    fn all<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        std::iter::once(path).chain(self.with.iter().map(PathBuf::as_path))
    }

    /// Let a jail open the image at `path` and all that belongs to it.
    pub fn allow(&self, jail: &mut Jail, path: impl AsRef<Path>) {
        let mut files = self.files.clone();
        files.write &= !self.forget;
        for image in self.all(path.as_ref()) {
            files.allow(jail, image);
        }
        (files.write, files.overlay) = (false, None);
        for (image, _) in &self.lower {
            files.allow(jail, image);
        }
    }

    /// Open the files of an image, for [`OpenedImage::attach`].
    ///
    /// Errors: as for [`Self::open`], but for those of booting.
    pub fn open_files(&self, path: impl AsRef<Path>) -> Result<OpenedImage> {
        let path = path.as_ref();
        if self.files.write && !self.lower.is_empty() {
            let text = "images that are seen as one can only be read; to write, open one alone";
            return Err(Error::plain(libc::EINVAL, "open", text).with_path(path));
        }
        let mut options = self.clone();
        options.disk.snapshot(!self.files.write || self.forget);
        let below = options.disk.clone();
        if let Some(file) = &self.files.overlay {
            options.disk.overlay(file);
        }
        let open = |path: &Path| options.disk.open_image(path);
        let open_lower = |(path, _): &(PathBuf, _)| below.open_image(path);
        Ok(OpenedImage {
            images: self.all(path).map(open).collect::<Result<_>>()?,
            lower: self.lower.iter().map(open_lower).collect::<Result<_>>()?,
            path: path.to_owned(),
            below,
            options,
        })
    }
}

/// An image whose files are open, and no kernel's yet. Between the two is the time to
/// enter a [`Jail`](crate::jail::Jail).
pub struct OpenedImage {
    images: Vec<DiskImage>,
    lower: Vec<DiskImage>,
    path: PathBuf,
    options: ImageOptions,
    /// Of those below it.
    below: DiskOptions,
}

impl OpenedImage {
    /// Whether the [`tiny_image`](crate::tiny_image) can do all with it: each of its
    /// files is an ext2, ext3 or ext4 without rare features, as
    /// [`DiskImage::is_plain`] has it. A FAT's mount options may ask for more.
    pub fn is_plain(&self) -> bool {
        self.lower.is_empty() && self.images.iter().all(DiskImage::is_plain_with_options)
    }

    /// Give it to a kernel, which only now sees what is in it.
    ///
    /// Errors: ENOSPC the kernel has as many disks as it can have.
    pub fn attach(self, kernel: &Kernel) -> Result<Image> {
        let disks = self.images.into_iter();
        let add = |image| kernel.add_disk_image(image, &self.options.disk);
        let secrets = self.options.given();
        let add_lower = |(opened, (path, selector)): (DiskImage, &(PathBuf, Option<Selector>))| {
            let disk = kernel.add_disk_image(opened, &self.below)?;
            Layer::new(kernel, disk, path, selector.as_ref(), &secrets)
        };
        let lower = self.lower.into_iter().zip(&self.options.lower);
        Ok(Image {
            inner: Arc::new(Inner {
                volumes: OnceLock::new(),
                search: Mutex::new(()),
                disks: disks.map(add).collect::<Result<_>>()?,
                lower: lower.map(add_lower).collect::<Result<_>>()?,
                path: self.path,
                options: self.options,
                kernel: kernel.clone(),
            }),
        })
    }
}

impl fmt::Debug for ImageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("ImageOptions")
            .field("write", &self.files.write)
            .field("disk", &self.disk)
            .field("with", &self.with)
            .field("lower", &self.lower)
            .finish_non_exhaustive()
    }
}

/// An image that a kernel has as a disk, with further images of the same machine
/// if there are any, and with the volumes on them all. What an address like
/// `disk.qcow2@2:/` means, it means here as it does to the `tane` command.
///
/// ```no_run
/// use tane::{Image, MountOptions, Selector};
///
/// let image = Image::open("disk.qcow2")?;
/// let mount = image.mount(Some(&Selector::parse("2")?), &MountOptions::new())?;
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
    /// The image that was named, then those it comes with.
    disks: Vec<Disk>,
    /// Those below it, the topmost first.
    lower: Vec<Layer>,
    path: PathBuf,
    options: ImageOptions,
    kernel: Kernel,
}

impl Image {
    /// Open an image for reading, with a new kernel. See [`ImageOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        ImageOptions::new().open(path, Kernel::boot)
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

    /// Everything that a file system can be on. Encrypted volumes are opened by the
    /// secrets that the options hold, else by those that were asked for.
    pub fn volumes(&self) -> Result<&Volumes> {
        let inner = &*self.inner;
        let _search = inner.search.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(volumes) = inner.volumes.get() {
            return Ok(volumes);
        }
        let disks: Vec<_> = inner.disks.iter().collect();
        let mut options = inner.options.given();
        let mut volumes = inner.kernel.volumes(&disks, &options)?;
        let ask = inner.options.ask.as_ref();
        if let Some(ask) = ask.filter(|_| inner.options.secrets.is_empty()) {
            while volumes.list().iter().any(|v| v.locked) {
                let Some(secret) = ask() else { break };
                drop(volumes);
                options.secret(secret);
                volumes = inner.kernel.volumes(&disks, &options)?;
            }
        }
        Ok(inner.volumes.get_or_init(|| volumes))
    }

    /// The device inside the kernel of the file system that a selector means, or
    /// without one: of the only one. Errors as for [`Volumes::choose`], whose
    /// `any_type` this is.
    pub fn choose(&self, selector: Option<&Selector>, any_type: bool) -> Result<PathBuf> {
        let volumes = self.volumes()?;
        let at = volumes.choose(&self.inner.path, selector, any_type)?;
        let device = volumes.list()[at].device.clone();
        device.ok_or_else(|| Error::plain(libc::ENXIO, "open", "is gone"))
    }

    /// Mount the file system that a selector means, with those of images below it;
    /// read-only unless the image is open for writing. Errors as for [`Image::choose`] and
    /// [`MountOptions::mount`].
    pub fn mount(&self, selector: Option<&Selector>, options: &MountOptions) -> Result<Mount> {
        let device = self.choose(selector, options.has_fstype())?;
        let mut options = options.clone();
        if !self.inner.options.files.write {
            options.read_only(true);
        }
        if let Some(subvol) = selector.and_then(|s| s.subvol.as_ref()) {
            options.option("subvol", subvol);
        }
        let mount = options.mount(&self.inner.kernel, device)?;
        let mount = layers::merge(mount, &self.inner.lower, &self.inner.kernel)?;
        Ok(mount.of_image(self.clone()))
    }

    /// Everything written so far is in the image when this returns. Not every
    /// file system asks for that when it is unmounted; [`Mount::unmount`] of a
    /// mount of this image does.
    pub fn flush(&self) -> Result<()> {
        let disks = &self.inner.disks;
        disks.iter().try_for_each(|disk| {
            disk.backend().flush().map_err(|error| {
                let errno = crate::error::errno_or_guess(&error);
                Error::from_source(errno, "flush", error).with_path(&self.inner.path)
            })
        })
    }

    pub(crate) fn is_written(&self) -> bool {
        self.inner.options.files.write
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "Image({} of {:?})", inner.path.display(), inner.kernel)
    }
}
