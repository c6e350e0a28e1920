//! An image file, opened by what is in it, with whatever it consists of.

use crate::backend::Backend;
use crate::crypt::Encryption;
use crate::detect::detect;
use crate::errors::{named, other};
use crate::format::Format;
use crate::host_files::open_host_file;
use crate::host_use;
use crate::http::{self, Url};
use crate::nbd::NbdConnection;
use crate::neighbours::{names_of, Neighbours, Opens};
use crate::options::{ImageOptions, Layer};
use crate::raw::{Access, Raw};
use crate::remote::{is_nbd, is_netfs, is_remote};
use crate::secrets::Secrets;
use crate::{android, dmg, ewf, qcow, qcow2, qed, redo, split, stream, vdi, vhd, vhdx, vmdk};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Most files that lie one above the other.
const DEPTH: usize = 32;
/// Most files that a disk consists of: descriptors are limited, and each takes two.
/// Evidence of a terabyte is in hundreds.
const FILES: usize = 2048;

pub(crate) struct Opener<'a> {
    options: &'a ImageOptions,
    layers: Mutex<Vec<Layer>>,
    /// Nothing is written, locked or unpacked: it is to be known which files there are.
    looks: bool,
}

impl<'a> Opener<'a> {
    pub fn new(options: &'a ImageOptions) -> Self {
        Self {
            options,
            layers: Mutex::default(),
            looks: false,
        }
    }

    /// For [`Self::into_layers`] alone.
    pub fn looking(options: &'a ImageOptions) -> Self {
        Self {
            looks: true,
            ..Self::new(options)
        }
    }

    /// That of the file that was opened first.
    pub fn format(&self) -> Format {
        let layers = self.layers.lock().unwrap_or_else(|e| e.into_inner());
        layers.first().map_or(Format::Raw, |layer| layer.format)
    }

    /// Whether any of the files is.
    pub fn is_encrypted(&self) -> bool {
        let layers = self.layers.lock().unwrap_or_else(|e| e.into_inner());
        layers.iter().any(|layer| layer.encryption.is_some())
    }

    pub fn into_layers(self) -> Vec<Layer> {
        self.layers.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn bytes(&self, path: &Path, write: bool, depth: usize) -> io::Result<Arc<dyn Backend>> {
        if is_remote(path) && path.to_str().is_none() {
            return Err(other("is an address that is not UTF-8: write %XX in it"));
        }
        if is_netfs(path) {
            let text = "these are files of a server, and no image: the command reads and writes \
                        them, and so does Kernel::mount_netfs() of Rust's library";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(match Url::of(path) {
            Some(url) => self.remote(url, write)?,
            None if is_nbd(path) => self.export(path, write)?,
            None if self.looks => {
                // Opening a FIFO would wait, and a tape move; who opens it says what it is.
                let kind = path.metadata()?.file_type();
                if !kind.is_file() && !kind.is_block_device() {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Arc::new(Raw::from_file(
                    open_host_file(path, false, 0)?,
                    Access::default(),
                )?)
            }
            None => {
                let direct = self.options.direct;
                let access = Access { write, direct };
                let lock_wait = self.options.lock_wait.as_ref();
                let raw = Arc::new(Raw::open_when_free(path, access, lock_wait)?);
                // Who writes finishes it.
                if !write || depth > 0 {
                    redo::check(path).map_err(|e| named(path, e))?;
                }
                self.warn(path, write);
                raw
            }
        })
    }

    /// Of what the host may write meanwhile.
    fn warn(&self, path: &Path, write: bool) {
        let used = path.metadata().ok().filter(|_| !write);
        let used = used.and_then(|found| host_use::of(&found, false));
        if let Some(text) = used.and_then(|used| used.warning()) {
            self.options.say(path, &text);
        }
    }

    fn remote(&self, url: Url, write: bool) -> io::Result<Arc<dyn Backend>> {
        if write {
            return Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                format!(
                    "{url}: is on a server, and can only be read; put an overlay above it \
                     (--overlay)"
                ),
            ));
        }
        let options = self.options;
        if let Some(servers) = &options.servers {
            return servers(url.as_str(), false);
        }
        let login = options.logins.iter().find(|login| login.is_for(&url));
        let name = url.to_string();
        let say = |text: &str| options.say(Path::new(&name), text);
        http::open(url, login, options.silence(), &say)
    }

    fn export(&self, path: &Path, write: bool) -> io::Result<Arc<dyn Backend>> {
        let options = self.options;
        let address = path.to_str().unwrap_or_default();
        if let Some(servers) = &options.servers {
            return servers(address, write);
        }
        let say = |text: &str| options.say(path, text);
        let connection = NbdConnection::new(address, options.silence())?;
        connection.open()?.disk(write, &say)
    }

    /// A container that is no file: it can name none.
    pub fn nameless(
        &self,
        bytes: Arc<dyn Backend>,
        write: bool,
        format: Option<Format>,
    ) -> io::Result<Arc<dyn Backend>> {
        self.content(bytes, Path::new(""), write, Found::of(format), 0)
    }

    fn content(
        &self,
        bytes: Arc<dyn Backend>,
        path: &Path,
        write: bool,
        Found { format, packed }: Found,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        if depth > DEPTH {
            return Err(other(
                "its chain of backing files is too long, or has no end",
            ));
        }
        let format = match format {
            Some(format) => format,
            None if is_split(path) => Format::Split,
            None => detect(&*bytes)?,
        };
        {
            let mut layers = self.layers.lock().unwrap_or_else(|e| e.into_inner());
            if layers.len() >= FILES {
                return Err(other("consists of too many files"));
            }
            layers.push(Layer {
                path: path.to_owned(),
                format,
                encryption: Encryption::of(&*bytes, format)?,
                write,
            });
        }
        let others = Neighbours {
            opener: self,
            path,
            depth,
            packed,
        };
        match format {
            Format::Raw => Ok(bytes),
            Format::Qcow2 | Format::Vmdk | Format::Vhd | Format::Vhdx if write && is_nbd(path) => {
                Err(grows(format))
            }
            Format::Qcow2 => qcow2::open(bytes, write, &others),
            Format::Vmdk => vmdk::open(bytes, write, &others),
            Format::Vhd => vhd::open(bytes, write && !self.looks, &others),
            Format::Vhdx => vhdx::open(bytes, write && !self.looks, &others),
            Format::Split => {
                let whole = split::open(bytes, write, &others)?;
                self.inner(whole, path, (write, false), depth)
            }
            // They name no files.
            Format::Vdi | Format::Dmg | Format::AndroidSparse if self.looks => Ok(bytes),
            _ if format.is_stream() && self.looks => Ok(bytes),
            _ if write => Err(only_read(format)),
            Format::Vdi => vdi::open(bytes),
            Format::Qed => qed::open(bytes, &others),
            Format::Qcow => qcow::open(bytes, &others),
            Format::Dmg => dmg::open(bytes),
            Format::Ewf => ewf::open(bytes, &others),
            Format::AndroidSparse => android::open(bytes, &others),
            Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2 => {
                let say = |text: &str| self.options.say(path, text);
                let unpacked = stream::open(bytes, format, &say)?;
                // No further stream.
                match detect(&*unpacked)? {
                    inner if inner.is_stream() => Ok(unpacked),
                    _ => self.inner(unpacked, path, (false, true), depth),
                }
            }
        }
    }

    /// What is in a stream (it was `packed`), or in the pieces of a disk: it may be another
    /// container.
    fn inner(
        &self,
        bytes: Arc<dyn Backend>,
        path: &Path,
        (write, packed): (bool, bool),
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        match detect(&*bytes)? {
            Format::Raw => Ok(bytes),
            // It would have to grow.
            inner if write => Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                format!(
                    "is {inner} in pieces, and can only be read; put an overlay above it, \
                     or join them first"
                ),
            )),
            inner => {
                let found = Found {
                    format: Some(inner),
                    packed,
                };
                self.content(bytes, path, write, found, depth + 1)
            }
        }
    }
}

impl Opens for Opener<'_> {
    fn file(
        &self,
        path: &Path,
        write: bool,
        format: Option<Format>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        let raw = self.bytes(path, write, depth)?;
        self.content(raw, path, write, Found::of(format), depth)
            .map_err(|e| named(path, e))
    }

    fn known(
        &self,
        path: &Path,
        format: Format,
        check: &dyn Fn(&dyn Backend) -> io::Result<()>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        let bytes = self.bytes(path, false, depth)?;
        let opened = check(&*bytes)
            .and_then(|()| self.content(bytes, path, false, Found::of(Some(format)), depth));
        opened.map_err(|e| named(path, e))
    }

    fn looks(&self) -> bool {
        self.looks
    }

    fn secrets(&self) -> &Secrets {
        &self.options.secrets
    }

    fn trusted(&self) -> &[PathBuf] {
        &self.options.trusted
    }
}

/// On a server only the attempt to open the others tells.
fn is_split(path: &Path) -> bool {
    match Url::of(path) {
        _ if is_nbd(path) => false,
        Some(_) => names_of(path).iter().any(|name| split::is_first(name)),
        None => std::iter::once(path.to_owned())
            .chain(path.canonicalize())
            .any(|path| split::is_first_piece(&path)),
    }
}

/// What is known of bytes that are to be opened.
struct Found {
    format: Option<Format>,
    /// They were in a compressed stream.
    packed: bool,
}

impl Found {
    fn of(format: Option<Format>) -> Found {
        Found {
            format,
            packed: false,
        }
    }
}

/// What could be written in a file, on a server that has blocks, and as many as it has.
fn grows(format: Format) -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        format!(
            "is {format}, whose file may have to grow, and can only be read; put an overlay \
             above it, or have the server open it (qemu-nbd --format)"
        ),
    )
}

fn only_read(format: Format) -> io::Error {
    let text = match format.is_stream() {
        true => format!(
            "is compressed by {format}, and can only be read; put an overlay above it, \
             or unpack it first"
        ),
        false => format!(
            "is in the format {format}, and can only be read; put an overlay above it, \
             or convert it with qemu-img convert"
        ),
    };
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)
}
