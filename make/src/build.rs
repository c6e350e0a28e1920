//! A tree to an image: an empty file system by its mkfs, filled by Linux; or a
//! read-only one by its own program; and a partition table around it.

use super::file::{copy_data, Unfinished};
use super::fill::{fill, Filling};
use super::order::Order;
use super::plan::Identity;
use super::table::{Purpose, Slot, Table, ALIGNMENT};
use super::{readonly, settle};
use crate::error::{Error, Result};
use crate::means::{By, Means, Wanted};
use crate::mkfs::{self, Fixed, Wish};
use std::fs::File;
use std::path::{Path, PathBuf};

/// All that an image of one file system follows from.
pub struct Recipe<'a> {
    /// What is put in.
    pub filling: Filling<'a>,
    /// Bytes of the file system, of one that has a size before it is made.
    pub size: u64,
    /// Of a file system that has a number of them.
    pub inodes: u64,
    /// Bytes of Linux's memory that filling it takes.
    pub working_set: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// The file system's name.
    pub label: Option<&'a str>,
    /// The file system's, as UUIDs are written.
    pub uuid: &'a str,
    /// What else would come from chance.
    pub identity: &'a Identity,
    /// Around the file system.
    pub table: Option<Table>,
    /// Of squashfs and erofs, as their programs call it; or `none`.
    pub compression: Option<&'a str>,
}

/// Whether Linux reads this kind, and does not write it.
pub fn is_read_only(kind: &str) -> bool {
    ["squashfs", "erofs"].contains(&kind)
}

/// Whether its program reads an archive, and meanwhile that is written.
pub fn is_fed(kind: &str) -> bool {
    kind == "squashfs"
}

/// Files that an image is made in. They are there before anything is looked at: a jail
/// then knows them.
pub struct Files {
    /// Of the file system alone.
    pub part: Unfinished,
    /// Of a disk with a partition table.
    pub disk: Option<Unfinished>,
    /// What an erofs is made of.
    pub shown: Option<Unfinished>,
}

impl Files {
    /// Beside the image, and empty. `kind`: the file system's.
    pub fn create(image: &Path, table: Option<Table>, kind: &str) -> Result<Files> {
        let disk = table.map(|_| Unfinished::create(image, "disk"));
        Ok(Files {
            part: Unfinished::create(image, "part")?,
            disk: disk.transpose()?,
            shown: shown(image, [kind])?,
        })
    }

    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let all = std::iter::once(&self.part).chain(&self.disk);
        all.chain(&self.shown).map(|file| file.path.as_path())
    }

    /// What an erofs is made of.
    pub fn shown(&self) -> Option<&Path> {
        self.shown.as_ref().map(|file| file.path.as_path())
    }

    /// What Linux fills, if this kind is made so: the disk, or all of the image; or what an
    /// erofs is made of.
    pub fn filled(&self, kind: &str) -> Result<Option<(PathBuf, File)>> {
        let whole = self.disk.as_ref().unwrap_or(&self.part);
        let file = filled_in(kind, whole, self.shown.as_ref());
        file.map(|file| Ok((file.path.clone(), file.open()?)))
            .transpose()
    }
}

/// What an erofs is made of, one after the other, if there is one among these kinds.
pub(crate) fn shown<'k>(
    image: &Path,
    kinds: impl IntoIterator<Item = &'k str>,
) -> Result<Option<Unfinished>> {
    let is_one = kinds.into_iter().any(|kind| kind == "erofs");
    is_one
        .then(|| Unfinished::create(image, "ext4"))
        .transpose()
}

/// Where Linux writes for a file system of this kind in the file `whole`.
pub(crate) fn filled_in<'f>(
    kind: &str,
    whole: &'f Unfinished,
    shown: Option<&'f Unfinished>,
) -> Option<&'f Unfinished> {
    match kind {
        "squashfs" => None,
        "erofs" => shown,
        _ => Some(whole),
    }
}

/// The image under its temporary name, and its size in bytes. It is complete if
/// nothing was reported.
pub fn build(recipe: &Recipe, files: Files, by: By) -> Result<(Unfinished, u64)> {
    let made = files.part;
    begin(recipe, &made, files.shown.as_ref(), by)?;
    let (Some(table), Some(new)) = (recipe.table, files.disk) else {
        end(recipe, &made, 0, by)?;
        made.sync()?;
        let size = made.size()?;
        return Ok((made, size));
    };
    let (before, after) = table.room();
    let size = made.size()?.next_multiple_of(ALIGNMENT);
    new.resize(before + size + after)?;
    copy_data(&made.open()?, &new.open()?, before).map_err(|e| new.fail(&e))?;
    made.resize(0)?;
    let slot = Slot {
        start: before,
        size,
        purpose: Purpose::of(Some(recipe.filling.kind)),
        name: recipe.label.unwrap_or_default(),
        guid: recipe.identity.named("partition"),
    };
    let sector = recipe.filling.sector_size.unwrap_or(512);
    table
        .write(
            &mut new.open()?,
            &[slot],
            sector,
            recipe.identity.named("disk"),
        )
        .map_err(|e| new.fail(&e))?;
    end(recipe, &new, before, by)?;
    new.sync()?;
    Ok((new, before + size + after))
}

/// What is made before it has its place: an empty file system, or all of one that
/// Linux does not write; `shown`: what an erofs is made of.
pub fn begin(recipe: &Recipe, made: &Unfinished, shown: Option<&Unfinished>, by: By) -> Result<()> {
    let kind = recipe.filling.kind;
    match kind {
        "squashfs" => {
            let (filling, time) = (&recipe.filling, recipe.time);
            readonly::squashfs(&made.path, filling, time, recipe.compression, by)
        }
        "erofs" => {
            by.means.command(readonly::EROFS)?;
            let ext4 = Filling {
                kind: "ext4",
                ..recipe.filling
            };
            let shown = shown.ok_or_else(|| Error::failed("an erofs is made of an ext4"))?;
            // Of the one before.
            shown.resize(0)?;
            shown.resize(recipe.size)?;
            empty(shown, "ext4", recipe, by.means)?;
            filled(shown, &ext4, 0, recipe, by)?;
            let (uuid, latest) = (recipe.uuid, recipe.filling.times.latest);
            let has_one = recipe.filling.tree.find(b"lost+found").is_some();
            readonly::erofs(
                &made.path,
                &shown.path,
                has_one,
                (uuid, latest, recipe.compression),
                by.means,
            )
        }
        _ => {
            made.resize(recipe.size)?;
            empty(made, kind, recipe, by.means)
        }
    }
}

/// The files, into what is empty yet.
pub fn end(recipe: &Recipe, file: &Unfinished, start: u64, by: By) -> Result<()> {
    match is_read_only(recipe.filling.kind) {
        true => Ok(()),
        false => filled(file, &recipe.filling, start, recipe, by),
    }
}

/// The file becomes an empty file system.
fn empty(new: &Unfinished, kind: &str, recipe: &Recipe, means: &dyn Means) -> Result<()> {
    let wish = Wish {
        label: recipe.label,
        uuid: Some(recipe.uuid),
        fixed: Some(Fixed {
            time: recipe.time,
            hash_seed: recipe.identity.hash_seed.clone(),
            inodes: recipe.inodes,
            size: recipe.size,
            sector: recipe.filling.sector_size.unwrap_or(512),
        }),
        sector: None,
        extra: &[],
    };
    mkfs::make(means, kind, &new.path, &wish)?;
    settle::after_mkfs(kind, &new.open()?, recipe.time, recipe.identity).map_err(|e| new.fail(&e))
}

/// The empty file system at `start` of the file gets the files.
fn filled(new: &Unfinished, filling: &Filling, start: u64, recipe: &Recipe, by: By) -> Result<()> {
    let plain = filling.kind.starts_with("ext") || filling.kind == "vfat";
    let order = Order {
        kind: filling.kind.to_owned(),
        start,
        size: recipe.size,
        sector_size: filling.sector_size,
        options: filling.options.map(str::to_owned),
        wanted: Wanted {
            time: recipe.time,
            seed: recipe.identity.seed,
            plain,
            working_set: recipe.working_set,
        },
    };
    fill(new.open()?, &new.path, &order, filling, by)?;
    settle::after_mount(filling.kind, &new.open()?, start, recipe.time).map_err(|e| new.fail(&e))
}
