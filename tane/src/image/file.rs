//! An image's files, opened for a disk: what they are, and why they cannot be one.

use crate::address::is_remote;
use crate::disk::{Disk, DiskOptions};
use crate::error::{errno_or_guess, Error, Result};
use crate::kernel::Kernel;
use crate::probe;
use crate::volumes::marks_at_end;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An image that is open, and no kernel's disk yet. Between the two is the time to
/// enter a [`Jail`](crate::jail::Jail).
pub struct DiskImage {
    pub(crate) path: PathBuf,
    pub(crate) image: tane_images::Image,
}

impl DiskImage {
    /// Bytes of the disk that it is of.
    pub fn size(&self) -> u64 {
        self.image.backend.size()
    }

    /// The files that it consists of, the one that was named first.
    pub fn layers(&self) -> &[tane_images::Layer] {
        &self.image.layers
    }

    /// Whether the whole of it is a file system that every kernel image can read and
    /// write, the [`tiny_image`](crate::tiny_image) too: an ext2, ext3 or ext4
    /// without rare features, or a FAT; and it is no member of a RAID set, whose
    /// superblock may be at the end. False if it cannot be read.
    pub fn is_plain(&self) -> bool {
        let mut marks = marks_at_end(self.image.backend.size()).into_iter();
        let is_member = |(at, mark, _): (u64, [u8; 4], _)| {
            let found = self.read(at, mark.len() as u64);
            found.is_none_or(|found| found == mark)
        };
        self.head().is_some_and(|head| probe::is_plain(&head)) && !marks.any(is_member)
    }

    /// The same, whatever options it is mounted with: those of a FAT name character
    /// sets, which not every kernel image has.
    pub(crate) fn is_plain_with_options(&self) -> bool {
        self.is_plain() && self.head().is_some_and(|head| probe::is_ext(&head))
    }

    fn head(&self) -> Option<Vec<u8>> {
        self.read(0, probe::HEAD as u64)
    }

    /// Fewer bytes at its end.
    fn read(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let backend = &self.image.backend;
        let len = len.min(backend.size().saturating_sub(at));
        let mut bytes = vec![0; len as usize];
        let read = backend.read(&[tane_images::buffer_mut(&mut bytes)], at);
        read.is_ok().then_some(bytes)
    }
}

impl DiskOptions {
    /// Open an image and all files that it consists of, for
    /// [`Kernel::add_disk_image`](crate::Kernel::add_disk_image); with an error for
    /// whoever named it, as the `tane` command tells it.
    ///
    /// Errors: ENOENT, EISDIR, EINVAL it cannot be an image; EBUSY another program
    /// writes it, or uses it while this one would write, or the host has it mounted;
    /// EINTR the wait for that was given up; ENOKEY it is encrypted, and no secret fits;
    /// what opening the container says.
    pub fn open_image(&self, path: impl AsRef<Path>) -> Result<DiskImage> {
        let path = path.as_ref();
        check(path)?;
        let opened = self.open_files(path);
        opened.map_err(|error| explain(path, self.writes(), &error))
    }

    fn writes(&self) -> bool {
        !self.read_only && !self.snapshot
    }

    pub(crate) fn open_files(&self, path: &Path) -> std::io::Result<DiskImage> {
        let mut image = self.image.clone();
        Ok(DiskImage {
            path: path.to_owned(),
            image: image.write(self.writes()).open(path)?,
        })
    }
}

impl Kernel {
    /// Give the kernel a disk image: a file or block device of the host, one on
    /// a web server (`https://…`), which can only be read, or an export of an NBD server
    /// (`nbd://…`). What it is (a raw disk,
    /// one of the [`Format`](tane_images::Format)s) is told by its content, and no file that it names is
    /// opened unless it lies beside it.
    ///
    /// Errors: what opening it says; ENOSPC no device slot is free.
    pub fn open_disk(&self, path: impl AsRef<Path>, options: &DiskOptions) -> Result<Disk> {
        let image = options.open_files(path.as_ref());
        let image =
            image.map_err(|error| Error::from_source(errno_or_guess(&error), "open", error))?;
        self.add_disk_image(image, options)
    }

    /// Give the kernel an image that was opened by the same options: the second
    /// half of [`Self::open_disk`]. Only now does it see what is in the image.
    pub fn add_disk_image(&self, image: DiskImage, options: &DiskOptions) -> Result<Disk> {
        self.add_image(image.image.backend, image.image.layers, options)
            .map_err(|error| error.with_path(&image.path))
    }
}

fn fail(errno: i32, path: &Path, text: impl Into<String>) -> Error {
    Error::plain(errno, "open", text).with_path(path)
}

fn check(path: &Path) -> Result<()> {
    if is_remote(path) {
        return Ok(());
    }
    let fail = |errno, text: &str| Err(fail(errno, path, text));
    match path.metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => fail(libc::ENOENT, "no such file"),
        Err(e) => fail(errno_or_guess(&e), &e.to_string()),
        Ok(m) if m.is_dir() => fail(libc::EISDIR, "is a directory, not an image"),
        Ok(m) if m.is_file() && m.len() == 0 => {
            fail(libc::EINVAL, "is empty: make a file system in it first")
        }
        Ok(_) => Ok(()),
    }
}

/// The usual reasons, in words for whoever named the image.
fn explain(path: &Path, write: bool, error: &std::io::Error) -> Error {
    let (errno, text) = (errno_or_guess(error), error.to_string());
    let name = path.display().to_string();
    // Of this file, and not of its overlay or what it names.
    let by_host = text.contains("(os error ") && text.contains(&name);
    let text = match errno {
        // What the host's kernel refused; else the container's own reason.
        libc::EACCES | libc::EPERM if by_host => {
            let verb = if write { "write to" } else { "read" };
            format!("permission denied: you may not {verb} this file")
        }
        libc::EROFS if by_host => "is on a read-only file system: copy it elsewhere first".into(),
        _ => {
            let own = text.strip_prefix(&name).and_then(|t| t.strip_prefix(": "));
            own.unwrap_or(&text).to_owned()
        }
    };
    fail(errno, path, text)
}
