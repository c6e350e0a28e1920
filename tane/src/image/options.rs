//! How an image is opened: one description, for every language and for a worker.

use crate::address::Selector;
use crate::disk::DiskOptions;
use crate::error::{Error, Result};
use crate::image::jail::ImageFiles;
use crate::volumes::{Verity, VolumeOptions};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane_images::{Backend, Format, LockWait, Login, Redo};

/// How an [`Image`](crate::Image) is opened, by whomever: a worker is sent this, and
/// `struct tane_image_options` of C, `ImageOptions` of Python and `Options` of Go have the
/// same fields, which a test compares. What an image asks and tells its caller is in
/// [`ImageHooks`].
///
/// By default it is for reading: no byte of the image changes, and what Linux writes while
/// mounting (the replay of a journal) stays in memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ImageOptions {
    /// Write to the image, and lock its file against other users.
    pub write: bool,
    /// What it is, if its content should not tell; see [`DiskOptions::format`].
    pub format: Option<Format>,
    /// Put what is written into this qcow2 file, and leave the image as it is; see
    /// [`DiskOptions::overlay`]. `:memory:` is no file: what is written stays in memory, and
    /// is forgotten at the end. An image in another one can have that alone.
    pub overlay: Option<PathBuf>,
    /// Files and directories that the image may name as its parts, beside those in its own
    /// directory; see [`DiskOptions::trust`].
    pub trust: Vec<PathBuf>,
    /// Further images of the same machine: other disks of its LVM group, RAID set or btrfs,
    /// the one with its hashes. Of an image in another one they belong to the outermost,
    /// unless [`Self::verity`] says that they are hashes.
    pub with: Vec<PathBuf>,
    /// Images below this one, the topmost first: the files of all are seen as one, for
    /// reading, as overlayfs shows them (see [`Kernel::merge`](crate::Kernel::merge)). Of an
    /// image with several file systems the one that the selector means.
    /// [`layer_of`](crate::layer_of) reads an address.
    pub lower: Vec<(PathBuf, Option<Selector>)>,
    /// Passphrases, and contents of key files: each is tried on every container that is
    /// encrypted, and on every LUKS and BitLocker volume; of an image in another one, also
    /// on those of that. See [`VolumeOptions::secret`].
    pub secrets: Vec<Vec<u8>>,
    /// Let dm-verity check what this root hash is of; see [`VolumeOptions::verity`].
    pub verity: Option<Verity>,
    /// The disk's sectors, in bytes, if they are not 512; see [`DiskOptions::sector_size`].
    pub sector_size: Option<u32>,
}

impl ImageOptions {
    /// For reading.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is written is forgotten at the end.
    pub fn forgets(&self) -> bool {
        let overlay = self.overlay.as_deref();
        overlay.is_some_and(|file| file.as_os_str() == ":memory:")
    }

    /// Whether what is written stays in memory.
    pub(super) fn is_snapshot(&self) -> bool {
        !self.write || self.forgets()
    }

    /// What a jail must leave open for it, but for `with` and `lower`.
    pub(super) fn files(&self) -> ImageFiles {
        ImageFiles {
            write: self.write && !self.forgets(),
            format: self.format,
            overlay: self.overlay.clone().filter(|_| !self.forgets()),
            trust: self.trust.clone(),
        }
    }

    /// How the image that this one lies in is opened.
    pub(super) fn of_outer(&self) -> ImageOptions {
        ImageOptions {
            write: self.write && !self.forgets(),
            overlay: None,
            with: Vec::new(),
            lower: Vec::new(),
            verity: None,
            ..self.clone()
        }
    }

    /// Whether [`Self::with`] belongs to the outermost of the images that the named one
    /// lies in: both are what the host has. Hashes are those of the named one.
    pub(super) fn has_outer_with(&self, is_in_another: bool) -> bool {
        is_in_another && self.verity.is_none()
    }

    /// How those of [`Self::with`] are opened, and the image that they belong to.
    pub(super) fn beside(&self, is_in_another: bool) -> ImageOptions {
        match self.has_outer_with(is_in_another) {
            false => self.clone(),
            true => ImageOptions {
                with: self.with.clone(),
                ..self.of_outer()
            },
        }
    }

    /// How one below it is opened.
    pub(super) fn of_lower(&self) -> ImageOptions {
        ImageOptions {
            write: false,
            ..self.of_outer()
        }
    }

    /// The same, as far as it is about a disk.
    pub(super) fn disk(&self, hooks: &ImageHooks) -> DiskOptions {
        let mut disk = DiskOptions::new();
        disk.snapshot(self.is_snapshot());
        if let Some(format) = self.format {
            disk.format(format);
        }
        if let Some(file) = self.overlay.as_ref().filter(|_| !self.forgets()) {
            disk.overlay(file);
        }
        for place in &self.trust {
            disk.trust(place);
        }
        for secret in &self.secrets {
            disk.secret(secret.as_slice());
        }
        if let Some(bytes) = self.sector_size {
            disk.sector_size(bytes);
        }
        hooks.for_disk(&mut disk);
        disk
    }

    /// The same, as far as it is about volumes.
    pub(super) fn volumes(&self) -> VolumeOptions {
        let mut options = VolumeOptions::new();
        for secret in &self.secrets {
            options.secret(secret.clone());
        }
        if let Some(verity) = &self.verity {
            options.verity(verity.root.clone(), verity.offset);
        }
        options
    }

    /// EINVAL if no image can be opened like this.
    pub(super) fn check(&self, name: &Path, is_inner: bool) -> Result<()> {
        let text = if self.write && !self.lower.is_empty() {
            "images that are seen as one can only be read; to write, open one alone"
        } else if is_inner && self.overlay.is_some() && !self.forgets() {
            "an overlay in a file is for images that are files; :memory: is for any"
        } else if !matches!(self.sector_size, None | Some(512 | 1024 | 2048 | 4096)) {
            "disks have sectors of 512, 1024, 2048 or 4096 bytes"
        } else {
            return Ok(());
        };
        Err(Error::plain(libc::EINVAL, "open", text).with_path(name))
    }
}

impl fmt::Debug for ImageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("ImageOptions")
            .field("write", &self.write)
            .field("format", &self.format)
            .field("overlay", &self.overlay)
            .field("with", &self.with)
            .field("lower", &self.lower)
            .finish_non_exhaustive()
    }
}

type Ask = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;
type Notice = Arc<dyn Fn(&str) + Send + Sync>;
type Servers = Arc<dyn Fn(&str, bool) -> io::Result<Arc<dyn Backend>> + Send + Sync>;

/// What an image that is opened asks and tells its caller. Nothing, by default.
#[derive(Clone, Default)]
pub struct ImageHooks {
    ask: Option<Ask>,
    notice: Option<Notice>,
    servers: Option<Servers>,
    logins: Vec<Login>,
    lock_wait: Option<LockWait>,
    redo: Option<Arc<Redo>>,
}

impl ImageHooks {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked for a secret of what it names ("the encrypted image", "the encrypted volume"),
    /// again and again, as long as that is locked and no [`ImageOptions::secrets`] were
    /// given; None ends it.
    pub fn ask(
        &mut self,
        ask: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.ask = Some(Arc::new(ask));
        self
    }

    /// See [`DiskOptions::notice`].
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.notice = Some(Arc::new(say));
        self
    }

    /// See [`DiskOptions::servers`].
    pub fn servers(
        &mut self,
        open: impl Fn(&str, bool) -> io::Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.servers = Some(Arc::new(open));
        self
    }

    /// See [`DiskOptions::login`].
    pub fn login(&mut self, login: Login) -> &mut Self {
        self.logins.push(login);
        self
    }

    /// See [`DiskOptions::wait`].
    pub fn wait(&mut self, lock_wait: LockWait) -> &mut Self {
        self.lock_wait = Some(lock_wait);
        self
    }

    /// See [`DiskOptions::redo`]. Not of images that come with another one, or are in one.
    pub fn redo(&mut self, redo: Arc<Redo>) -> &mut Self {
        self.redo = Some(redo);
        self
    }

    pub(super) fn take_redo(&mut self) -> Option<Arc<Redo>> {
        self.redo.take()
    }

    /// A secret of a volume, from whoever is asked.
    pub(super) fn ask_for_volume(&self) -> Option<Vec<u8>> {
        self.ask.as_ref()?("the encrypted volume")
    }

    /// Asks for that of a container.
    pub(super) fn for_container(&self) -> Option<impl Fn() -> Option<Vec<u8>> + Send + Sync> {
        let ask = self.ask.clone()?;
        Some(move || ask("the encrypted image"))
    }

    fn for_disk(&self, disk: &mut DiskOptions) {
        if let Some(ask) = self.for_container() {
            disk.ask(ask);
        }
        if let Some(notice) = self.notice.clone() {
            disk.notice(move |text| notice(text));
        }
        if let Some(servers) = self.servers.clone() {
            disk.servers(move |address, write| servers(address, write));
        }
        for login in &self.logins {
            disk.login(login.clone());
        }
        if let Some(lock_wait) = &self.lock_wait {
            disk.wait(lock_wait.clone());
        }
        if let Some(redo) = &self.redo {
            disk.redo(redo.clone());
        }
    }
}

impl fmt::Debug for ImageHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageHooks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let options = ImageOptions {
            secrets: vec![b"open sesame".to_vec()],
            ..Default::default()
        };
        assert!(!format!("{options:?}").contains("sesame"));
    }
}
