//! `OUTER:/INNER:/path`: an image inside an image. Each is served by a kernel of
//! its own; what the inner one's disk has is read from a file of the outer one.

use super::prepared::Prepared;
use super::{apart, jail, open_prepared, secrets, Access, Opened, Session};
use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::sys::{Kind, Root};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use tane::images::{buffer, gather, pieces_behind, scatter, total};
use tane::images::{Backend, Buffers, ImageOptions};
use tane::{errno_or_guess, File, ImagePath, OpenOptions, Selector};

/// Longest piece of a transfer that is zeros, in bytes.
const PIECE: u64 = 1 << 20;

/// What an address with one more `:/` in its path means. What exists under the
/// full name is that file, as on the host; else the first part that names a file
/// is an image.
pub fn resolve(mut at: ImagePath, global: &Global) -> Result<ImagePath> {
    while let Some(inner) = step(&at, global)? {
        at = inner;
    }
    Ok(at)
}

fn colons(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let pairs = path.windows(2).enumerate();
    pairs
        .filter(|(i, pair)| *i > 0 && *pair == b":/")
        .map(|(i, _)| i)
}

fn step(at: &ImagePath, global: &Global) -> Result<Option<ImagePath>> {
    if colons(&at.path).next().is_none() {
        return Ok(None);
    }
    // A session has one jail for all its kernels.
    let split = match jail::is_off(global) || global.kept.is_session() {
        true => look(at, global)?,
        false => look_apart(at, global)?,
    };
    let Some(Split { file, colon }) = split else {
        return Ok(None);
    };
    let (left, rest) = (&at.path[..colon], &at.path[colon + 1..]);
    let selector = match file == colon {
        true => None,
        false => {
            let text = String::from_utf8_lossy(&left[file + 1..]);
            Some(Selector::parse(&text).map_err(|e| Failure::address(OsStr::new(&*text), &e))?)
        }
    };
    Ok(Some(inside(at, &left[..file], selector, rest)))
}

/// Where in the path the image's name ends, and where the colon is: behind that, or
/// behind a selector.
struct Split {
    file: usize,
    colon: usize,
}

/// Looks into the outer image.
fn look(at: &ImagePath, global: &Global) -> Result<Option<Split>> {
    let session = Session::open(at, Access::Read, global)?;
    let root = session.root()?;
    if root.stat(&at.path, false).is_ok() {
        return Ok(None);
    }
    for colon in colons(&at.path) {
        if root.stat(&at.path[..=colon], true).is_ok() {
            // A directory "x:", in which something new is to be.
            return Ok(None);
        }
        if let Some(file) = image(&root, &at.path[..colon]) {
            return Ok(Some(Split { file, colon }));
        }
    }
    Ok(None)
}

/// The same, while this process still has to do what its jail will not allow.
fn look_apart(at: &ImagePath, global: &Global) -> Result<Option<Split>> {
    if global.passphrase_file.as_deref() == Some(Path::new("-")) {
        let text = "the passphrase of an image that another is in is needed twice: use a file";
        return Err(Failure::usage(text));
    }
    let said = apart::ask("the outer image", || {
        let found = look(at, global)?;
        let numbers = found.map(|split| [split.file as u64, split.colon as u64]);
        Ok(numbers.map_or(Vec::new(), |n| n.map(u64::to_le_bytes).concat()))
    })?;
    let number = |at: usize| {
        let bytes = said.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (Some(file), Some(colon)) = (number(0), number(8)) else {
        return Ok(None);
    };
    // Whoever looked has met what is in the image.
    let is_name = file == colon || at.path.get(file) == Some(&b'@');
    match file <= colon && is_name && colons(&at.path).any(|c| c == colon) {
        true => Ok(Some(Split { file, colon })),
        false => Err(Failure::image("what looked into the outer image lies")),
    }
}

/// Where the name of a file ends in `left`: at a selector, if only that makes one of
/// it.
fn image(root: &Root, left: &[u8]) -> Option<usize> {
    let is_file = |end: &usize| {
        let found = root.stat(&left[..*end], true);
        found.is_ok_and(|found| matches!(found.kind(), Kind::File))
    };
    let marks = (1..left.len()).filter(|i| left[*i] == b'@');
    std::iter::once(left.len()).chain(marks).find(is_file)
}

/// The image that is the file at `path` of what `at` is in.
pub fn inside(at: &ImagePath, path: &[u8], selector: Option<Selector>, rest: &[u8]) -> ImagePath {
    let name = [at.image.as_os_str().as_bytes(), b":", path].concat();
    ImagePath {
        image: std::ffi::OsString::from_vec(name).into(),
        selector,
        path: rest.to_vec(),
        within: Some(Box::new(ImagePath {
            path: path.to_vec(),
            ..at.clone()
        })),
    }
}

/// How the outer image of one that is opened like this is opened.
pub fn of_outer(access: Access, global: &Global) -> Access {
    match access == Access::Write && !global.forgets() {
        true => Access::Write,
        false => Access::Read,
    }
}

/// The outer image, mounted, and the inner one's disk.
pub fn open(
    outer: &ImagePath,
    prepared: Prepared,
    access: Access,
    global: &Global,
) -> Result<(Opened, Arc<dyn Backend>)> {
    if global.overlay.is_some() && !global.forgets() {
        let text = "an overlay in a file is for images that are files; :memory: is for any";
        return Err(Failure::usage(format!("{}: {text}", outer.image.display())));
    }
    let access = of_outer(access, global);
    let write = access == Access::Write;
    let mut options = ImageOptions::new();
    options
        .write(write)
        .ask(|| secrets::ask("the encrypted image"));
    for secret in prepared.machine.secrets() {
        options.secret(secret);
    }
    if let Some(format) = global.format {
        options.format(format);
    }
    let opened = open_prepared(prepared, outer, access, global)?;
    let path = Path::new(std::ffi::OsStr::from_bytes(&outer.path));
    let name = format!("{}:{}", outer.image.display(), path.display());
    let fail = |e: io::Error| {
        let failure = Failure::image(format!("{name}: {e}"));
        failure.with_key(errno_or_guess(&e))
    };
    let mount = opened
        .mount()
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let last = path.file_name().and_then(std::ffi::OsStr::to_str);
    let mut others = pieces_behind(last.unwrap_or_default()).map(|name| path.with_file_name(name));
    if global.format.is_none() && others.any(|path| mount.exists(path).unwrap_or(false)) {
        let text = "is the first piece of a disk, and pieces within an image are not joined: \
                    copy them out first (or say --format)";
        return Err(Failure::image(format!("{name}: {text}")));
    }
    let file = OpenOptions::new().read(true).write(write).open(mount, path);
    let guest = Guest::new(file.map_err(|e| fail(e.into()))?, write).map_err(fail)?;
    let disk = options.open_backend(Arc::new(guest)).map_err(fail)?;
    Ok((opened, disk))
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
