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
use crate::http::{self, Url};
use crate::options::{ImageOptions, Layer};
use crate::qcow2::Opening;
use crate::raw::{Access, Raw};
use crate::{redo, stream, vhd, vhdx, vmdk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Most files that lie one above the other.
const DEPTH: usize = 32;
/// Most files that a disk consists of: their descriptors are limited.
const FILES: usize = 512;

/// Open the container that is in `bytes`, which is no file and can name none:
/// what refers to other files is refused.
pub fn open_backend(
    bytes: Arc<dyn Backend>,
    write: bool,
    format: Option<Format>,
) -> io::Result<Arc<dyn Backend>> {
    let options = ImageOptions::default();
    let opener = Opener::new(&options);
    opener.content(bytes, Path::new(""), write, format, 0)
}

pub(crate) fn other(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// An error about a file, which it names unless it does so already.
pub(crate) fn named(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let name = path.display().to_string();
    if name.is_empty() || text.starts_with(&name) || text.starts_with('/') {
        return error;
    }
    io::Error::new(error.kind(), format!("{name}: {text}"))
}

pub(crate) struct Opener<'a> {
    options: &'a ImageOptions,
    layers: Mutex<Vec<Layer>>,
}

impl<'a> Opener<'a> {
    pub fn new(options: &'a ImageOptions) -> Self {
        Self {
            options,
            layers: Mutex::default(),
        }
    }

    /// That of the file that was opened first.
    pub fn format(&self) -> Format {
        let layers = self.layers.lock().unwrap_or_else(|e| e.into_inner());
        layers.first().map_or(Format::Raw, |layer| layer.format)
    }

    pub fn into_layers(self) -> Vec<Layer> {
        self.layers.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    /// `format`: what the file has to be; else its content tells.
    pub fn file(
        &self,
        path: &Path,
        write: bool,
        format: Option<Format>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>> {
        let raw: Arc<dyn Backend> = match Url::of(path) {
            Some(url) => self.remote(url, write)?,
            None => {
                // Who writes finishes it, once it is open.
                if !write || depth > 0 {
                    redo::check(path).map_err(|e| named(path, e))?;
                }
                let direct = self.options.direct;
                Arc::new(Raw::open(path, Access { write, direct })?)
            }
        };
        self.content(raw, path, write, format, depth)
            .map_err(|e| named(path, e))
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
            return servers(url.as_str());
        }
        let login = options.logins.iter().find(|login| login.is_for(&url));
        let name = url.to_string();
        let say = |text: &str| options.say(Path::new(&name), text);
        http::open(url, login, options.patience(), &say)
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
                let say = |text: &str| self.options.say(path, text);
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
        if let Some(url) = Url::of(self.path) {
            return url.beside(plain).map(|url| url.to_string().into());
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
