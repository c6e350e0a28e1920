//! How an image file is opened, and what is put above it.

use crate::backend::Backend;
use crate::crypt::Encryption;
use crate::detect::detect;
use crate::errors::{named, other};
use crate::format::Format;
use crate::http::Login;
use crate::lock::LockWait;
use crate::neighbours::Opens;
use crate::open::Opener;
use crate::overlay::Overlay;
use crate::qcow2::{self, Opening};
use crate::raw::{Access, Raw};
use crate::redo::{self, Redo};
use crate::remote::is_remote;
use crate::secrets::Secrets;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server may be silent, if [`ImageOptions::timeout`] does not say it.
pub const SILENCE: Duration = Duration::from_secs(30);

type Notice = dyn Fn(&str) + Send + Sync;
type Servers = dyn Fn(&str, bool) -> io::Result<Arc<dyn Backend>> + Send + Sync;

/// How an image file is opened.
#[derive(Clone, Default)]
pub struct ImageOptions {
    write: bool,
    pub(crate) direct: bool,
    format: Option<Format>,
    pub(crate) trusted: Vec<PathBuf>,
    overlay: Option<PathBuf>,
    in_memory: bool,
    pub(crate) secrets: Secrets,
    pub(crate) logins: Vec<Login>,
    timeout: Option<Duration>,
    pub(crate) lock_wait: Option<LockWait>,
    notice: Option<Arc<Notice>>,
    pub(crate) servers: Option<Arc<Servers>>,
    redo: Option<Arc<Redo>>,
}

/// A file that is part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub path: PathBuf,
    pub format: Format,
    /// How what is in it is encrypted, if it is.
    pub encryption: Option<Encryption>,
    /// It holds a part of the disk that is written, and is open for that.
    pub write: bool,
}

/// An image that is open.
pub struct Image {
    pub backend: Arc<dyn Backend>,
    /// The files that it consists of, the one that was named first; a file
    /// whose content is a container in another one appears once for each.
    pub layers: Vec<Layer>,
}

impl ImageOptions {
    /// For reading, by content, following only what lies beside the image.
    pub fn new() -> Self {
        Self::default()
    }

    /// For writing too. Compressed streams and stream-optimised VMDK cannot be.
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// Past the host's page cache; O_DIRECT in open(2).
    pub fn direct(&mut self, yes: bool) -> &mut Self {
        self.direct = yes;
        self
    }

    /// Take the file for this, whatever it looks like. A raw disk whose user is
    /// not to be trusted can look like anything: give `Format::Raw` then.
    pub fn format(&mut self, format: Format) -> &mut Self {
        self.format = Some(format);
        self
    }

    /// A file, or a directory with all below it, that an image may name as its
    /// backing file, its extent or the parent that it is a difference from, wherever it is.
    pub fn trust(&mut self, place: impl Into<PathBuf>) -> &mut Self {
        self.trusted.push(place.into());
        self
    }

    /// Put what is written into this file, and leave the image as it is. The
    /// file is a qcow2 with the image as its backing file; it is made if there
    /// is none, and used again if it belongs to this image. Without `write` it is
    /// read, if it is there.
    pub fn overlay(&mut self, file: impl Into<PathBuf>) -> &mut Self {
        self.overlay = Some(file.into());
        self
    }

    /// Keep what is written in memory, until the image is closed.
    pub fn overlay_in_memory(&mut self, yes: bool) -> &mut Self {
        self.in_memory = yes;
        self
    }

    /// A passphrase, or the content of a key file, for containers that are encrypted:
    /// every secret is tried on each of them. An error of opening one that none fits has
    /// [`Locked`](crate::Locked) within it. QEMU's first encryption
    /// ([`Encryption::Aes`]) takes the first, and cannot tell whether it is right.
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        self.secrets.given.push(secret.into());
        self
    }

    /// Asked for a secret, again and again, as long as a container is locked and no
    /// [`Self::secret`] was given; None ends it.
    pub fn ask(&mut self, ask: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static) -> &mut Self {
        self.secrets.ask = Some(Arc::new(ask));
        self
    }

    /// For images on that server.
    pub fn login(&mut self, login: Login) -> &mut Self {
        self.logins.push(login);
        self
    }

    /// How long a server may be silent before it is asked again; it is given up
    /// after the fifth time. Half a minute, if nothing is said. A server of NBD is asked
    /// once: when it is opened an answer may take as long, one to a request five times that,
    /// to a flush twenty times.
    pub fn timeout(&mut self, silence: Duration) -> &mut Self {
        self.timeout = Some(silence);
        self
    }

    /// Wait for other programs that have a lock on a file of it, rather than fail.
    pub fn wait(&mut self, lock_wait: LockWait) -> &mut Self {
        self.lock_wait = Some(lock_wait);
        self
    }

    /// Called for the bytes of an address on a server ([`is_remote`](crate::is_remote)), and
    /// whether they are to be written, in the stead of connections of this process.
    pub fn servers(
        &mut self,
        open: impl Fn(&str, bool) -> io::Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.servers = Some(Arc::new(open));
        self
    }

    /// Changes are made as a whole while this records them.
    pub fn redo(&mut self, redo: Arc<Redo>) -> &mut Self {
        self.redo = Some(redo);
        self
    }

    /// Called with a sentence for the user about what takes long or room.
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.notice = Some(Arc::new(say));
        self
    }

    /// Open it: a file or block device of the host; what an address that
    /// starts with `http://` or `https://` means, for reading, by requests for
    /// ranges; or an export of an NBD server (`nbd://HOST/EXPORT`,
    /// `nbd+unix:///EXPORT?socket=PATH`), which nobody can lock. An address of the web may
    /// have a name and password, as [`Self::login`] has.
    /// Errors name the file and, where there is one, the remedy.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<Image> {
        let path = path.as_ref();
        if let Some((bare, login)) = path.to_str().and_then(Login::take) {
            return self.clone().login(login).open(bare);
        }
        let over = self.overlay.is_some() || self.in_memory;
        let opener = Opener::new(self);
        let write = self.write && !over;
        let mut backend = opener.file(path, write, self.format, 0)?;
        if let Some(file) = &self.overlay {
            let size = backend.size();
            let format = opener.format();
            let is_encrypted = opener.is_encrypted();
            let opened = self.over(file, path, (format, is_encrypted), size, backend);
            backend = opened.map_err(|e| named(file, e))?;
        }
        if self.write && !self.in_memory {
            let written = self.overlay.as_deref().unwrap_or(path);
            if redo::finish(written, &*backend).map_err(|e| named(written, e))? {
                self.say(written, "a change that was interrupted has been finished");
            }
            if let Some(redo) = &self.redo {
                backend = redo.over(backend);
            }
        }
        if self.in_memory {
            backend = Arc::new(Overlay::new(backend));
        }
        let layers = opener.into_layers();
        Ok(Image { backend, layers })
    }

    /// Open the container that is in `bytes`, which is no file and can name none: what
    /// refers to other files is refused. Overlays are for files.
    pub fn open_backend(&self, bytes: Arc<dyn Backend>) -> io::Result<Arc<dyn Backend>> {
        Opener::new(self).nameless(bytes, self.write, self.format)
    }

    /// The files of the host that the image at `path` consists of, so that a jail can let
    /// them be opened: as far as they can be found without unpacking a compressed stream,
    /// up to one that cannot be opened. None is written or locked. An overlay is none of
    /// them.
    pub fn files(&self, path: impl AsRef<Path>) -> Vec<Layer> {
        let path = path.as_ref();
        if is_remote(path) {
            return Vec::new();
        }
        let opener = Opener::looking(self);
        let over = self.overlay.is_some() || self.in_memory;
        // Whoever opens it says what is wrong.
        let _ = opener.file(path, self.write && !over, self.format, 0);
        opener.into_layers()
    }

    pub(crate) fn silence(&self) -> Duration {
        self.timeout.unwrap_or(SILENCE)
    }

    /// Tell the user, if anybody listens.
    pub(crate) fn say(&self, path: &Path, text: &str) {
        if let Some(notice) = &self.notice {
            notice(&format!("{}: {text}", path.display()));
        }
    }

    fn over(
        &self,
        file: &Path,
        image: &Path,
        (format, is_encrypted): (Format, bool),
        size: u64,
        below: Arc<dyn Backend>,
    ) -> io::Result<Arc<dyn Backend>> {
        let name = match is_remote(image) {
            true => image.to_owned(),
            false => std::path::absolute(image)?,
        };
        let text = name.to_str();
        let text = text.ok_or_else(|| other("the image's name is not UTF-8, as qcow2 needs it"))?;
        let is_there = file.exists();
        // It was made before a jail closed, or by somebody who could not go on.
        let is_empty = file.metadata().is_ok_and(|f| f.is_file() && f.len() == 0);
        if !self.write && (!is_there || is_empty) {
            return Ok(below);
        }
        if !is_there {
            std::fs::File::create_new(file)?;
        }
        if !is_there || is_empty {
            if is_encrypted {
                self.say(file, "is not encrypted, as what is below it is");
            }
            let access = Access {
                write: true,
                direct: false,
            };
            let empty = Arc::new(Raw::open(file, access)?);
            // QEMU shall refuse what it cannot read rather than take it for raw.
            let format = match format {
                Format::Vhd => "vpc",
                format => format.name(),
            };
            qcow2::create(empty, size, Some((text, format)))?;
        }
        let access = Access {
            write: self.write,
            direct: self.direct,
        };
        let raw = Raw::open_when_free(file, access, self.lock_wait.as_ref())?;
        let raw: Arc<dyn Backend> = Arc::new(raw);
        if !self.write {
            redo::check(file)?;
        }
        if detect(&*raw)? != Format::Qcow2 {
            return Err(other("exists already and is no overlay; name another file"));
        }
        let opening = Opening::new(raw, self.write, Some(&self.secrets))?;
        let names = opening.names();
        if names.backing.as_deref() != Some(text) || names.data.is_some() {
            return Err(other(format!(
                "is an overlay of {}; name another file, or remove it",
                names.backing.as_deref().unwrap_or("nothing")
            )));
        }
        let image = opening.finish(Some(below), None)?;
        if image.size() != size {
            return Err(other("is an overlay of an image of another size"));
        }
        Ok(image)
    }
}

impl std::fmt::Debug for ImageOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageOptions")
            .field("write", &self.write)
            .field("direct", &self.direct)
            .field("format", &self.format)
            .field("trusted", &self.trusted)
            .field("overlay", &self.overlay)
            .field("in_memory", &self.in_memory)
            .field("logins", &self.logins)
            .field("timeout", &self.timeout)
            .field("lock_wait", &self.lock_wait)
            .finish_non_exhaustive()
    }
}
