//! An image file, opened by what is in it, with whatever it consists of.
//!
//! Containers can name other files: a qcow2 its backing file, a VMDK its extents.
//! An image may come from anybody, so what it names is opened only if it lies in
//! the directory of the file that names it (not below: that could be a home), all
//! symlinks resolved; or in a place that the caller has named. It has to be an
//! ordinary file, and is opened for reading unless it holds a part of a disk that
//! is opened for writing.

use crate::backend::Backend;
use crate::format::{detect, Format};
use crate::overlay::Overlay;
use crate::qcow2::{self, Opening};
use crate::raw::{Access, Raw};
use crate::{stream, vhd, vhdx, vmdk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Most files that lie one above the other.
const DEPTH: usize = 32;
/// Most files that a disk consists of: their descriptors are limited.
const FILES: usize = 512;

type Notice = dyn Fn(&str) + Send + Sync;

/// How an image file is opened.
#[derive(Clone, Default)]
pub struct ImageOptions {
    write: bool,
    direct: bool,
    format: Option<Format>,
    trusted: Vec<PathBuf>,
    overlay: Option<PathBuf>,
    in_memory: bool,
    notice: Option<Arc<Notice>>,
}

/// A file that is part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub path: PathBuf,
    pub format: Format,
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
    /// backing file or extent, wherever it is.
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

    /// Called with a sentence for the user about what takes long or room.
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.notice = Some(Arc::new(say));
        self
    }

    /// Open it. Errors name the file and, where there is one, the remedy.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<Image> {
        let path = path.as_ref();
        let over = self.overlay.is_some() || self.in_memory;
        let opener = Opener {
            options: self,
            layers: Mutex::default(),
        };
        let write = self.write && !over;
        let mut backend = opener.file(path, write, self.format, 0)?;
        if let Some(file) = &self.overlay {
            let size = backend.size();
            let layers = opener.layers.lock().unwrap_or_else(|e| e.into_inner());
            let format = layers.first().map_or(Format::Raw, |layer| layer.format);
            drop(layers);
            let opened = self.over(file, path, format, size, backend);
            backend = opened.map_err(|e| named(file, e))?;
        }
        if self.in_memory {
            backend = Arc::new(Overlay::new(backend));
        }
        let layers = opener.layers.into_inner();
        Ok(Image {
            backend,
            layers: layers.unwrap_or_else(|e| e.into_inner()),
        })
    }

    fn over(
        &self,
        file: &Path,
        image: &Path,
        format: Format,
        size: u64,
        below: Arc<dyn Backend>,
    ) -> io::Result<Arc<dyn Backend>> {
        let name = std::path::absolute(image)?;
        let text = name.to_str();
        let text = text.ok_or_else(|| other("the image's name is not UTF-8, as qcow2 needs it"))?;
        if !self.write && !file.exists() {
            return Ok(below);
        }
        if !file.exists() {
            std::fs::File::create_new(file)?;
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
            qcow2::create(empty, size, text, format)?;
        }
        let access = Access {
            write: self.write,
            direct: self.direct,
        };
        let raw: Arc<dyn Backend> = Arc::new(Raw::open(file, access)?);
        if detect(&*raw)? != Format::Qcow2 {
            return Err(other("exists already and is no overlay; name another file"));
        }
        let opening = Opening::new(raw, self.write)?;
        let names = opening.names();
        if names.backing.as_deref() != Some(text) || names.data.is_some() {
            return Err(other(format!(
                "is an overlay of {}; name another file, or remove it",
                names.backing.as_deref().unwrap_or("nothing")
            )));
        }
        let image: Arc<dyn Backend> = Arc::new(opening.finish(Some(below), None)?);
        if image.size() != size {
            return Err(other("is an overlay of an image of another size"));
        }
        Ok(image)
    }
}

/// Open the container that is in `bytes`, which is no file and can name none:
/// what refers to other files is refused.
pub fn open_backend(
    bytes: Arc<dyn Backend>,
    write: bool,
    format: Option<Format>,
) -> io::Result<Arc<dyn Backend>> {
    let options = ImageOptions::default();
    let opener = Opener {
        options: &options,
        layers: Mutex::default(),
    };
    opener.content(bytes, Path::new(""), write, format, 0)
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
            .finish_non_exhaustive()
    }
}

fn other(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// An error about a file, which it names unless it does so already.
fn named(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let name = path.display().to_string();
    if name.is_empty() || text.starts_with(&name) || text.starts_with('/') {
        return error;
    }
    io::Error::new(error.kind(), format!("{name}: {text}"))
}

struct Opener<'a> {
    options: &'a ImageOptions,
    layers: Mutex<Vec<Layer>>,
}

impl Opener<'_> {
    /// `format`: what the file has to be; else its content tells.
    fn file(
        &self,
        path: &Path,
        write: bool,
        format: Option<Format>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        let access = Access {
            write,
            direct: self.options.direct,
        };
        let raw: Arc<dyn Backend> = Arc::new(Raw::open(path, access)?);
        self.content(raw, path, write, format, depth)
            .map_err(|e| named(path, e))
    }

    fn content(
        &self,
        bytes: Arc<dyn Backend>,
        path: &Path,
        write: bool,
        format: Option<Format>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        if depth > DEPTH {
            return Err(other(
                "its chain of backing files is too long, or has no end",
            ));
        }
        let format = match format {
            Some(format) => format,
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
            });
        }
        let others = Neighbours {
            opener: self,
            path,
            depth,
        };
        match format {
            Format::Raw => Ok(bytes),
            Format::Qcow2 => others.qcow2(bytes, write),
            Format::Vmdk => vmdk::open(bytes, write, &others),
            Format::Vhd => vhd::open(bytes, write),
            Format::Vhdx => vhdx::open(bytes, write),
            _ if write => Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                format!(
                    "is compressed by {format}, and can only be read; \
                     put an overlay above it, or unpack it first"
                ),
            )),
            _ => {
                let say = |text: &str| {
                    if let Some(notice) = &self.options.notice {
                        notice(&format!("{}: {text}", path.display()));
                    }
                };
                let unpacked = stream::open(bytes, format, &say)?;
                // A stream may hold another container, but no further stream.
                match detect(&*unpacked)? {
                    Format::Raw => Ok(unpacked),
                    inner if inner.is_stream() => Ok(unpacked),
                    inner => self.content(unpacked, path, false, Some(inner), depth + 1),
                }
            }
        }
    }
}

/// Opens what the image at `path` names.
pub(crate) struct Neighbours<'a> {
    opener: &'a Opener<'a>,
    path: &'a Path,
    depth: usize,
}

impl Neighbours<'_> {
    /// A file below this one: for reading, by content.
    pub fn open_parent(&self, name: &str) -> io::Result<Arc<dyn Backend>> {
        let path = self.resolve(name)?;
        self.opener.file(&path, false, None, self.depth + 1)
    }

    /// A file with a part of the disk.
    pub fn open_raw(&self, name: &str, write: bool) -> io::Result<Arc<dyn Backend>> {
        let path = self.resolve(name)?;
        self.opener
            .file(&path, write, Some(Format::Raw), self.depth + 1)
    }

    fn qcow2(&self, file: Arc<dyn Backend>, write: bool) -> io::Result<Arc<dyn Backend>> {
        let opening = Opening::new(file, write)?;
        let names = opening.names();
        let data = match (&names.data, opening.needs_data_file()) {
            (Some(name), true) => Some(self.open_raw(name, write)?),
            (None, true) => return Err(other("does not name the file that has its data")),
            _ => None,
        };
        let backing = match &names.backing {
            None => None,
            Some(name) => {
                let format = names.backing_format.as_deref();
                let format = format.map(str::parse).transpose().map_err(other)?;
                let path = self.resolve(name)?;
                Some(self.opener.file(&path, false, format, self.depth + 1)?)
            }
        };
        Ok(Arc::new(opening.finish(backing, data)?))
    }

    /// The file that a name in this image means, if it may be opened.
    fn resolve(&self, name: &str) -> io::Result<PathBuf> {
        // "file:" is QEMU's way to say so; other words ask for its drivers.
        let plain = name.strip_prefix("file:").unwrap_or(name);
        let directory = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if self.path.as_os_str().is_empty() {
            return Err(other(format!(
                "names the file {name}, and is no file itself"
            )));
        }
        let home = directory(&self.path.canonicalize()?);
        // What lies beside a symlink to the image is as good a neighbour.
        let here = directory(self.path).canonicalize()?;
        let mut candidates = vec![here.join(plain), home.join(plain)];
        candidates.dedup();
        let found = candidates.iter().find_map(|path| path.canonicalize().ok());
        let found = found.ok_or_else(|| {
            let kind = io::ErrorKind::NotFound;
            io::Error::new(kind, format!("names the file {name}, which is not there"))
        })?;
        let trusted = self.opener.options.trusted.iter();
        let mut trusted = trusted.filter_map(|place| place.canonicalize().ok());
        let beside = [&*home, &*here].map(Some).contains(&found.parent());
        if !beside && !trusted.any(|place| found.starts_with(place)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "names the file {name}, which is not beside it; name its place too \
                     if it may be read (--trust {})",
                    found.display()
                ),
            ));
        }
        if !found.metadata()?.is_file() {
            return Err(other(format!("names {name}, which is no ordinary file")));
        }
        Ok(found)
    }
}
