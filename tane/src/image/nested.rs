//! An image inside an image: what its disk has is read from a file of the outer one,
//! which is mounted by a kernel of its own.

use crate::address::{ImagePath, Selector};
use crate::error::{errno_or_guess, Error, Result};
use crate::file::File;
use crate::image::options::{ImageHooks, ImageOptions};
use crate::open_options::OpenOptions;
use crate::tree::Tree;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use tane_images::{buffer, gather, pieces_behind, scatter, total, Backend, Buffers};

/// Longest piece of a transfer that is zeros, in bytes.
const PIECE: u64 = 1 << 20;

impl ImagePath {
    /// The image that is the file at `path` of what this one is in, a selector in it and a
    /// path in that.
    pub fn inside(&self, path: &[u8], selector: Option<Selector>, rest: &[u8]) -> ImagePath {
        let name = [self.image.as_os_str().as_bytes(), b":", path].concat();
        ImagePath {
            image: OsString::from_vec(name).into(),
            selector,
            path: rest.to_vec(),
            within: Some(Box::new(ImagePath {
                path: path.to_vec(),
                ..self.clone()
            })),
        }
    }

    /// An image as a whole, where only that makes sense: the file that is named in another
    /// image is one.
    pub fn whole(self) -> ImagePath {
        match &self.path[..] {
            b"/" => self,
            path => self.inside(path, None, b"/"),
        }
    }

    /// How many kernels serve it at most: one for itself, and one for each image that it lies
    /// in. How many these are in fact shows when they are mounted.
    pub fn most_kernels(&self) -> usize {
        let outer = self.layers().skip(1);
        1 + outer.map(|at| 1 + colons(&at.path).count()).sum::<usize>()
    }
}

fn colons(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let pairs = path.windows(2).enumerate();
    pairs
        .filter(|(i, pair)| *i > 0 && *pair == b":/")
        .map(|(i, _)| i)
}

/// Where in a path the name of an image ends, and where the colon is: behind that, or
/// behind a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The end of the file's name.
    pub file: usize,
    /// The colon's place; the path's length if there is none.
    pub colon: usize,
}

impl Split {
    /// Whether it can be one of `path`, as far as that shows: for those that were found by
    /// somebody else. There is a colon.
    pub fn is_of(self, path: &[u8]) -> bool {
        let is_name = self.file == self.colon || path.get(self.file) == Some(&b'@');
        self.file <= self.colon && is_name && colons(path).any(|c| c == self.colon)
    }

    /// The parts of that path. EINVAL if what is behind the "@" is no selector.
    pub fn parts(self, path: &[u8]) -> Result<(&[u8], Option<Selector>, &[u8])> {
        let rest = path.get(self.colon + 1..).unwrap_or_default();
        let selector = match self.file == self.colon {
            true => None,
            false => {
                let text = String::from_utf8_lossy(&path[self.file + 1..self.colon]);
                Some(Selector::parse(&text)?)
            }
        };
        Ok((&path[..self.file], selector, rest))
    }
}

/// Whether a path of an address may lead into an image that lies there: it has a colon
/// before a slash.
pub fn may_lead_on(path: &[u8]) -> bool {
    colons(path).next().is_some()
}

/// What a path with ":/" in it means in a file system. What exists under the full name is
/// that file, as on the host, and so is something new in a directory "x:": None. Else the
/// first part that names a file is an image.
pub fn split(tree: &Tree, path: &[u8]) -> Option<Split> {
    let named = |path: &[u8]| Path::new(OsStr::from_bytes(path)).to_owned();
    if tree.symlink_metadata(named(path)).is_ok() {
        return None;
    }
    for colon in colons(path) {
        if tree.metadata(named(&path[..=colon])).is_ok() {
            return None;
        }
        if let Some(file) = image(tree, &path[..colon]) {
            return Some(Split { file, colon });
        }
    }
    None
}

/// Where the name of a file ends in `left`: at a selector, if only that makes one of it.
fn image(tree: &Tree, left: &[u8]) -> Option<usize> {
    let is_file = |end: &usize| {
        let found = tree.metadata(OsStr::from_bytes(&left[..*end]));
        found.is_ok_and(|found| found.is_file())
    };
    let marks = (1..left.len()).filter(|i| left[*i] == b'@');
    std::iter::once(left.len()).chain(marks).find(is_file)
}

/// The next image on the way from `at`, whose file system is mounted there, to the one that
/// is named: its path is "/" if it is that.
pub(super) fn step(tree: &Tree, at: &ImagePath) -> Result<ImagePath> {
    let path = &at.path;
    let found = split(tree, path).or_else(|| {
        let exists = tree.symlink_metadata(OsStr::from_bytes(path)).is_ok();
        let file = image(tree, path).filter(|_| !exists)?;
        let colon = path.len();
        Some(Split { file, colon })
    });
    let whole = Split {
        file: path.len(),
        colon: path.len(),
    };
    let (file, selector, rest) = found.unwrap_or(whole).parts(path)?;
    let rest = if rest.is_empty() { b"/" } else { rest };
    Ok(at.inside(file, selector, rest))
}

/// What the disk of an image has that is the file `path` of a file system.
pub(super) fn open(
    tree: &Tree,
    path: &[u8],
    name: &Path,
    options: &ImageOptions,
    hooks: &ImageHooks,
) -> Result<Arc<dyn Backend>> {
    let fail = |e: io::Error| {
        let text = e.to_string();
        Error::plain(errno_or_guess(&e), "open", text).with_path(name)
    };
    let write = options.write && !options.forgets();
    let path = Path::new(OsStr::from_bytes(path));
    let last = path.file_name().and_then(OsStr::to_str);
    let mut others = pieces_behind(last.unwrap_or_default()).map(|name| path.with_file_name(name));
    if options.format.is_none() && others.any(|path| tree.exists(path).unwrap_or(false)) {
        let text = "is the first piece of a disk, and pieces within an image are not joined: \
                    copy them out first (or say --format)";
        return Err(Error::plain(libc::EINVAL, "open", text).with_path(name));
    }
    let file = OpenOptions::new().read(true).write(write).open(tree, path);
    let guest = Guest::new(file.map_err(|e| fail(e.into()))?, write).map_err(fail)?;
    let mut container = tane_images::ImageOptions::new();
    container.write(write);
    if let Some(ask) = hooks.for_container() {
        container.ask(ask);
    }
    for secret in &options.secrets {
        container.secret(secret.as_slice());
    }
    if let Some(format) = options.format {
        container.format(format);
    }
    container.open_backend(Arc::new(guest)).map_err(fail)
}

/// A file inside a kernel, as what backs a disk of another kernel.
struct Guest {
    file: File,
    size: AtomicU64,
    write: bool,
}

impl Guest {
    fn new(file: File, write: bool) -> io::Result<Self> {
        let size = AtomicU64::new(file.metadata()?.len());
        Ok(Self { file, size, write })
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        match offset
            .checked_add(len)
            .is_some_and(|end| end <= self.size())
        {
            true if self.write => Ok(()),
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Backend for Guest {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; total(to)];
        // Zeros behind the end.
        let inside = self.size().saturating_sub(offset).min(bytes.len() as u64);
        self.file
            .read_exact_at(&mut bytes[..inside as usize], offset)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes, to) };
        Ok(())
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; total(from)];
        self.check(offset, bytes.len() as u64)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { gather(from, &mut bytes) };
        self.file.write_all_at(&bytes, offset)
    }

    fn flush(&self) -> io::Result<()> {
        match self.write {
            true => Ok(self.file.sync_data()?),
            false => Ok(()),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len)?;
        match self.file.punch_hole(offset, len) {
            Err(e) if e.errno() == libc::EOPNOTSUPP => Ok(()),
            done => Ok(done?),
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.check(offset, len)?;
        if may_unmap && self.file.punch_hole(offset, len).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; len.min(PIECE) as usize];
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let n = (end - at).min(PIECE) as usize;
            self.write(&[buffer(&zeros[..n])], at)?;
            at += n as u64;
        }
        Ok(())
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        if size > self.size() {
            self.check(0, 0)?;
            self.file.set_len(size)?;
            self.size.fetch_max(size, Ordering::Relaxed);
        }
        Ok(())
    }
}
