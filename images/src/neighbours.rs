//! What an image names: which files those are, and whether they may be opened.
//!
//! Containers can name other files: a qcow2 its backing file, a VMDK its extents.
//! An image may come from anybody, so what it names is opened only if it lies in
//! the directory of the file that names it (not below: that could be a home), all
//! symlinks resolved; or in a place that the caller has named. It has to be an
//! ordinary file, and is opened for reading unless it holds a part of a disk that
//! is opened for writing: that too is said by the image, so its name has to be one of
//! the image's own, or one that the caller has named.

use crate::backend::Backend;
use crate::errors::other;
use crate::family::{is_hidden, is_part};
use crate::format::Format;
use crate::http::Url;
use crate::remote::{is_nbd, is_remote};
use crate::secrets::Secrets;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who opens the files that images name.
pub(crate) trait Opens {
    /// By content, unless its format is known. `depth`: how many files lie above it.
    fn file(
        &self,
        path: &Path,
        write: bool,
        format: Option<Format>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>>;

    /// For reading, if `check` has nothing against it.
    fn known(
        &self,
        path: &Path,
        format: Format,
        check: &dyn Fn(&dyn Backend) -> io::Result<()>,
        depth: usize,
    ) -> io::Result<Arc<dyn Backend>>;

    /// Whether it is only to be known which files there are.
    fn looks(&self) -> bool;

    /// What opens an image that is encrypted.
    fn secrets(&self) -> &Secrets;

    /// The places that may be named, wherever they are.
    fn trusted(&self) -> &[PathBuf];
}

/// Opens what the image at `path` names.
pub(crate) struct Neighbours<'a> {
    pub opener: &'a dyn Opens,
    pub path: &'a Path,
    pub depth: usize,
    /// It was in a compressed stream.
    pub packed: bool,
}

impl Neighbours<'_> {
    /// A file below this one: for reading, by content unless its format is known.
    pub fn open_parent(&self, name: &str, format: Option<Format>) -> io::Result<Arc<dyn Backend>> {
        let path = self.resolve(name)?;
        self.opener.file(&path, false, format, self.depth + 1)
    }

    /// A file below this one, for reading, if `check` has nothing against it.
    pub fn open_known(
        &self,
        name: &str,
        format: Format,
        check: &dyn Fn(&dyn Backend) -> io::Result<()>,
    ) -> io::Result<Arc<dyn Backend>> {
        let path = self.resolve(name)?;
        self.opener.known(&path, format, check, self.depth + 1)
    }

    /// A file with a part of the disk.
    pub fn open_raw(&self, name: &str, write: bool) -> io::Result<Arc<dyn Backend>> {
        let path = self.resolve(name)?;
        if write {
            self.may_write(name, &path)?;
        }
        self.opener
            .file(&path, write, Some(Format::Raw), self.depth + 1)
    }

    /// Whether it is only to be known which files there are.
    pub fn looks(&self) -> bool {
        self.opener.looks()
    }

    /// How an image is decrypted; none if it is only to be known which files there are.
    pub fn keys(&self) -> Option<&Secrets> {
        (!self.looks()).then(|| self.opener.secrets())
    }

    /// What this image is called.
    pub fn names(&self) -> Vec<String> {
        names_of(self.path)
    }

    /// Whether there is a file of this name beside it; on a server, nobody knows.
    pub fn has(&self, name: &str) -> bool {
        !is_remote(self.path) && self.resolve(name).is_ok()
    }

    /// An error unless a file that this image names is one of its own.
    fn may_write(&self, name: &str, found: &Path) -> io::Result<()> {
        let real = self.path.canonicalize()?;
        let is_part = [self.path, &*real].iter().any(|own| is_part(own, found));
        let is_hidden = is_hidden(found);
        if !is_hidden && (is_part || self.trusts(found)) {
            return Ok(());
        }
        let own = Path::new(self.path.file_stem().unwrap_or_default());
        let remedy = match is_hidden {
            true => String::new(),
            false => format!(
                "; name it too if it may be written (--trust {})",
                found.display()
            ),
        };
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "would have {name} written, whose name is not that of a part of it (as \
                 {}-flat.vmdk and {0}.raw are){remedy}",
                own.display()
            ),
        ))
    }

    fn trusts(&self, found: &Path) -> bool {
        let trusted = self.opener.trusted().iter();
        let mut trusted = trusted.filter_map(|place| place.canonicalize().ok());
        trusted.any(|place| found.starts_with(place))
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
        if is_nbd(self.path) {
            return Err(other(format!(
                "names the file {name}, and an NBD server has no files beside an export"
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
        // What a stream holds is known when it has been unpacked: too late for a jail.
        let beside = [&*home, &*here].map(Some).contains(&found.parent()) && !self.packed;
        if !beside && !self.trusts(&found) {
            let why = match self.packed {
                true => format!("is compressed, and names the file {name}"),
                false => format!("names the file {name}, which is not beside it"),
            };
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{why}; name its place too if it may be read (--trust {})",
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

/// The file's name, and what it is called where a symlink leads to.
pub(crate) fn names_of(path: &Path) -> Vec<String> {
    let paths = std::iter::once(path.to_owned()).chain(path.canonicalize());
    let names = paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    names.collect()
}
