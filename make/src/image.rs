//! An image, from a specification to its name: what a program asks for that is no command.

use crate::build::{build, Files};
use crate::container::Container;
use crate::error::{Error, Result};
use crate::file::{exists, replaceable, Unfinished};
use crate::gather::{Gathered, Spec};
use crate::layout::{is_layout, Layout};
use crate::means::{By, Means};
use crate::partitions::{Disk, DiskFiles, Placed};
use crate::plan::uuid_text;
use crate::table::Table;
use tane::images::{Format, Lock};
use tane_copy::Tally;

/// What becomes of an image that is not as it was wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Replace the image if there is one: a file, or the one that a link leads to.
    pub force: bool,
    /// An error if anything had to be left behind.
    pub strict: bool,
    /// What it is in, whatever its name ends with: raw or qcow2.
    pub format: Option<Format>,
}

/// An image that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Bytes of the disk.
    pub size: u64,
    /// The file system's; of a squashfs, which has none, what would be its. Of a disk with
    /// several partitions that of its table.
    pub uuid: String,
    /// The time that it was for its Linux, in seconds since 1970; of several the newest.
    pub time: u64,
    /// Of a disk that was described by a file, in their order on it.
    pub partitions: Vec<Placed>,
}

/// Makes an image with a file system of this kind (`ext2` to `ext4`, `xfs`, `btrfs`, `f2fs`,
/// `vfat`, `squashfs`, `erofs`), which appears under its name when it is complete and
/// durable, and not at all otherwise. The same input gives the same bytes. An image that is
/// in its own source is not in itself.
///
/// What was left behind is in the tally afterwards. `begin` is told how many files and
/// bytes there will be.
///
/// Errors: EEXIST if the image is there and is not to be replaced; EINVAL if it is no file
/// that could be, but a device for one; that of the first file
/// that could not be read or written, all of which are in the tally; EINTR if the means or
/// the tally said stop; ENOENT if a program is missing.
///
/// A source `NAME.toml` describes a disk with several partitions; `kind` is then None, which
/// else means ext4.
pub fn image(
    spec: &Spec,
    kind: Option<&str>,
    terms: Terms,
    tally: &Tally,
    means: &dyn Means,
    begin: impl FnOnce(u64, u64),
) -> Result<Made> {
    let layout = match is_layout(&spec.source) {
        true if kind.is_some() => {
            let text = "--fs is said of each partition, in the TOML file";
            return Err(Error::Usage(text.into()));
        }
        true => Some(Disk::layout(spec)?),
        false => None,
    };
    let kind = kind.unwrap_or("ext4");
    if layout.is_none() {
        spec.check(kind)?;
    }
    // A link that leads nowhere is there, too.
    if !terms.force && spec.image.symlink_metadata().is_ok() {
        return Err(exists(&spec.image));
    }
    let spec = &Spec {
        image: replaceable(&spec.image)?,
        ..spec.clone()
    };
    let path = &spec.image;
    // Nobody else uses what is replaced.
    let _lock = match path.is_file() {
        true => Some(locked(spec)?),
        false => None,
    };
    let container = Container::of(path, terms.format)?;
    let by = By {
        observer: tally,
        means,
    };
    let (new, made) = match &layout {
        Some(layout) => disk(spec, layout, by, begin)?,
        None => file_system(spec, kind, by, begin)?,
    };
    judge(tally, terms, means)?;
    let new = match container {
        Some(container) => container.fill(&new)?,
        None => new,
    };
    match terms.force {
        true => new.finish(path)?,
        false => new.finish_new(path)?,
    }
    Ok(made)
}

/// A file system, alone or in the one partition of a disk.
fn file_system(
    spec: &Spec,
    kind: &str,
    by: By,
    begin: impl FnOnce(u64, u64),
) -> Result<(Unfinished, Made)> {
    let files = Files::create(&spec.image, spec.partition_table, kind)?;
    let found = Gathered::of(spec, kind, by.means)?;
    let (before, after) = spec.partition_table.map_or((0, 0), Table::room);
    let size = match spec.size {
        Some(size) => size.checked_sub(before + after).filter(|size| *size > 0),
        None => Some(found.plan.size),
    };
    let size = size.ok_or_else(|| {
        let text = "the size leaves no room for a partition";
        Error::Usage(text.into())
    })?;
    begin(found.plan.files, found.plan.bytes);
    found.complain(by.observer);
    let identity = found.identity(spec, kind, size, "");
    let recipe = found.recipe(spec, kind, size, &identity);
    let (new, size) = build(&recipe, files, by)?;
    let made = Made {
        size,
        uuid: recipe.uuid.to_owned(),
        time: recipe.time,
        partitions: Vec::new(),
    };
    Ok((new, made))
}

/// A disk with several partitions.
fn disk(
    spec: &Spec,
    layout: &Layout,
    by: By,
    begin: impl FnOnce(u64, u64),
) -> Result<(Unfinished, Made)> {
    let files = DiskFiles::create(&spec.image, layout)?;
    let disk = Disk::of(layout, spec, files, by.means)?;
    let (files, bytes) = disk.total();
    begin(files, bytes);
    for found in disk.gathered() {
        found.complain(by.observer);
    }
    let (time, uuid) = (disk.time(), uuid_text(u128::from_be_bytes(disk.id())));
    let (new, partitions) = disk.build(by)?;
    let made = Made {
        size: new.size()?,
        uuid,
        time,
        partitions,
    };
    Ok((new, made))
}

fn locked(spec: &Spec) -> Result<Lock> {
    let file = std::fs::File::open(&spec.image).map_err(|e| Error::of(&spec.image, &e))?;
    let lock = Lock::take(&file, &spec.image, true, None);
    lock.map_err(|e| Error::Failed(e.to_string(), libc::EBUSY))
}

/// An error unless all that was asked for is in the image.
fn judge(tally: &Tally, terms: Terms, means: &dyn Means) -> Result<()> {
    if tally.is_cancelled() || means.interrupted() {
        return Err(Error::Interrupted);
    }
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    if let Some(first) = tally.failures().first() {
        let text = format!("{}: {}", shown(&first.path), first.why);
        let errno = first.error.map_or(libc::EIO, |e| e.0);
        return Err(Error::Failed(text, errno));
    }
    match tally.losses().first().filter(|_| terms.strict) {
        Some(lost) => {
            let (path, what) = (shown(&lost.path), lost.what());
            let text = format!("{path}: {what} not kept: {}", lost.error);
            Err(Error::Failed(text, lost.error.0))
        }
        None => Ok(()),
    }
}
