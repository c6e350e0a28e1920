//! Disk images as people mean them: a file, what is in it, and which of the file
//! systems there is wanted.

use crate::address::Selector;
use crate::disk::{Disk, DiskOptions};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::mount::Mount;
use crate::mount_options::MountOptions;
use crate::volumes::{VolumeOptions, Volumes};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tane_images::Format;

type Ask = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// How an [`Image`] is opened.
#[derive(Clone, Default)]
pub struct ImageOptions {
    write: bool,
    disk: DiskOptions,
    with: Vec<PathBuf>,
    secrets: Vec<Vec<u8>>,
    ask: Option<Ask>,
}

impl ImageOptions {
    /// For reading: no byte of the image changes, and what Linux writes while
    /// mounting (the replay of a journal) stays in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Write to the image, and lock its file against other users.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// See [`DiskOptions::format`].
    pub fn format(&mut self, format: Format) -> &mut Self {
        self.disk.format(format);
        self
    }

    /// See [`DiskOptions::overlay`].
    pub fn overlay(&mut self, file: impl Into<PathBuf>) -> &mut Self {
        self.disk.overlay(file);
        self
    }

    /// See [`DiskOptions::trust`].
    pub fn trust(&mut self, place: impl Into<PathBuf>) -> &mut Self {
        self.disk.trust(place);
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

    /// See [`VolumeOptions::secret`].
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        self.secrets.push(secret.into());
        self
    }

    /// Asked for a secret, again and again, as long as a LUKS volume is locked and
    /// no [`ImageOptions::secret`] was given; None ends it.
    pub fn ask(&mut self, ask: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static) -> &mut Self {
        self.ask = Some(Arc::new(ask));
        self
    }

    /// Open an image with a kernel of its own, which `boot` starts once the files
    /// are known to be there.
    ///
    /// Errors: those of `boot`; ENOENT, EISDIR, EINVAL it cannot be an image;
    /// EBUSY another program writes it, or uses it while this one would write;
    /// what opening the container says.
    pub fn open(
        &self,
        path: impl AsRef<Path>,
        boot: impl FnOnce() -> Result<Kernel>,
    ) -> Result<Image> {
        let path = path.as_ref();
        let all = || std::iter::once(path).chain(self.with.iter().map(PathBuf::as_path));
        all().try_for_each(check)?;
        let kernel = boot()?;
        let mut options = self.disk.clone();
        options.snapshot(!self.write);
        let open = |path: &Path| {
            let disk = kernel.open_disk(path, &options);
            disk.map_err(|error| explain(path, self.write, error))
        };
        let disks = all().map(open).collect::<Result<_>>()?;
        Ok(Image {
            inner: Arc::new(Inner {
                volumes: OnceLock::new(),
                search: Mutex::new(()),
                disks,
                path: path.to_owned(),
                options: self.clone(),
                kernel,
            }),
        })
    }
}

impl fmt::Debug for ImageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("ImageOptions")
            .field("write", &self.write)
            .field("disk", &self.disk)
            .field("with", &self.with)
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

    /// Everything that a file system can be on. LUKS volumes are opened by the
    /// secrets that the options hold, else by those that were asked for.
    pub fn volumes(&self) -> Result<&Volumes> {
        let inner = &*self.inner;
        let _search = inner.search.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(volumes) = inner.volumes.get() {
            return Ok(volumes);
        }
        let disks: Vec<_> = inner.disks.iter().collect();
        let mut options = VolumeOptions::new();
        for secret in &inner.options.secrets {
            options.secret(secret.clone());
        }
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

    /// Mount the file system that a selector means; read-only unless the image is
    /// open for writing. Errors as for [`Image::choose`] and
    /// [`MountOptions::mount`].
    pub fn mount(&self, selector: Option<&Selector>, options: &MountOptions) -> Result<Mount> {
        let device = self.choose(selector, options.has_fstype())?;
        let mut options = options.clone();
        if !self.inner.options.write {
            options.read_only(true);
        }
        if let Some(subvol) = selector.and_then(|s| s.subvol.as_ref()) {
            options.option("subvol", subvol);
        }
        let mount = options.mount(&self.inner.kernel, device)?;
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
        self.inner.options.write
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "Image({} of {:?})", inner.path.display(), inner.kernel)
    }
}

/// Says what is wrong before a kernel is booted for it.
fn check(path: &Path) -> Result<()> {
    let fail = |errno, text: String| Err(Error::plain(errno, "open", text).with_path(path));
    match path.metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => fail(libc::ENOENT, "no such file".into()),
        Err(e) => fail(crate::error::errno_or_guess(&e), e.to_string()),
        Ok(m) if m.is_dir() => fail(libc::EISDIR, "is a directory, not an image".into()),
        Ok(m) if m.is_file() && m.len() == 0 => fail(
            libc::EINVAL,
            "is empty: make a file system in it first".into(),
        ),
        Ok(_) => Ok(()),
    }
}

/// The usual reasons, in words for whoever named the image.
fn explain(path: &Path, write: bool, error: Error) -> Error {
    let by_host = error.to_string().contains("(os error ");
    let text = match error.errno() {
        libc::EBUSY | libc::EAGAIN => {
            let who = locker(path).map_or(String::new(), |pid| format!(" (pid {pid})"));
            format!("is in use by another program{who}: wait until it ends")
        }
        // What the host's kernel refused; else the container's own reason.
        libc::EACCES | libc::EPERM if by_host => {
            let verb = if write { "write to" } else { "read" };
            format!("permission denied: you may not {verb} this file")
        }
        libc::EROFS if by_host => "is on a read-only file system: copy it elsewhere first".into(),
        _ => return error,
    };
    Error::plain(error.errno(), "open", text).with_path(path)
}

/// Who holds the lock: `1: FLOCK ADVISORY WRITE pid major:minor:inode …`.
fn locker(image: &Path) -> Option<u32> {
    let inode = format!(":{}", image.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().filter(|f| *f != "->").skip(1);
        let kind = fields.next()?;
        let pid = fields.nth(2)?;
        let is_it = kind == "FLOCK" && fields.next()?.ends_with(&inode);
        is_it.then(|| pid.parse().ok())?
    })
}
