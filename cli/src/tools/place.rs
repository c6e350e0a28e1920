//! The place that a file system is in, the image or a partition of it, made larger or
//! smaller: raw files and qcow2 grow with it.

use super::partition;
use crate::args::Global;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::{container, locked, Access, Target};
use std::fs::File;
use tane::images::{self, Format};
use tane::{ImagePath, VolumeKind};

/// What partitions start and end on.
const ALIGN: u64 = 1 << 20;

pub struct Place {
    kind: VolumeKind,
    /// In bytes, on its disk.
    start: u64,
    size: u64,
    /// Where the next partition starts.
    next: Option<u64>,
    is_logical: bool,
    disk: u64,
}

fn fail(at: &ImagePath, text: impl std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {text}", at.image.display()))
}

impl Place {
    pub fn of(target: &Target) -> Place {
        Place {
            kind: target.kind.clone(),
            start: target.start,
            size: target.size,
            next: target.next_start,
            is_logical: target.is_logical,
            disk: target.disk_size,
        }
    }

    /// An error if it can become no other size. To be asked before anything is changed.
    pub fn check(&self, at: &ImagePath, global: &Global) -> Result<()> {
        // Of what is no file, sfdisk sees the ends.
        match self.is_logical && !is_file(at, global, Format::Raw) {
            true => Err(fail(
                at,
                "is a logical partition in a container, whose size stays: resize it in a \
                 raw image (tane convert makes one)",
            )),
            false => Ok(()),
        }
    }

    /// The largest it can be while the image stays as large as it is.
    pub fn most(&self) -> u64 {
        let VolumeKind::Partition(_) = self.kind else {
            return self.size;
        };
        // Behind the last one there may be the copy of a GPT.
        let last = self.disk.saturating_sub(ALIGN) / ALIGN * ALIGN;
        let end = self.next.map_or(last, |next| next / ALIGN * ALIGN);
        end.saturating_sub(self.start).max(self.size)
    }

    /// So many bytes, which is more than it has. Nobody has the image open.
    pub fn grow(&self, at: &ImagePath, size: u64, global: &Global) -> Result<()> {
        match (&self.kind, self.next) {
            (VolumeKind::Disk, _) => lengthen(at, size, global),
            (VolumeKind::Partition(n), None) => {
                let disk = self.start + size + ALIGN;
                if disk > self.disk {
                    lengthen(at, disk, global)?;
                }
                resize_partition(at, *n, size, global)
            }
            (VolumeKind::Partition(n), Some(next)) if self.start + size <= next => {
                resize_partition(at, *n, size, global)
            }
            (VolumeKind::Partition(n), Some(next)) => {
                let (most, next) = (self.most(), next);
                let text = format!(
                    "partition {n} can have {most} bytes where it is (max): \
                     the next one starts at byte {next}"
                );
                Err(fail(at, text))
            }
            _ => Err(fail(
                at,
                "is on no partition, nor the whole image, which could grow",
            )),
        }
    }

    /// So many bytes, which is less: the file system has left the rest.
    pub fn shrink(&self, at: &ImagePath, size: u64, global: &Global) -> Result<()> {
        match self.kind {
            VolumeKind::Disk if is_file(at, global, Format::Raw) => {
                let (file, _lock) = locked(&at.image, Access::Write)?;
                file.set_len(size).map_err(|e| fail(at, e))
            }
            VolumeKind::Partition(n) => resize_partition(at, n, size, global),
            _ => Ok(()),
        }
    }
}

fn is_file(at: &ImagePath, global: &Global, format: Format) -> bool {
    at.image.is_file() && container(at, global) == Some(format)
}

fn lengthen(at: &ImagePath, size: u64, global: &Global) -> Result<()> {
    let raw = is_file(at, global, Format::Raw);
    if !raw && !is_file(at, global, Format::Qcow2) {
        let text = "only raw images and qcow2 grow: make it larger by other means, then max";
        return Err(fail(at, text));
    }
    let (file, _lock) = locked(&at.image, Access::Write)?;
    let done = match raw {
        true => longer(&file, size),
        false => images::grow_qcow2(file, size),
    };
    done.map_err(|e| fail(at, e))
}

fn longer(file: &File, size: u64) -> std::io::Result<()> {
    match file.metadata()?.len() < size {
        true => file.set_len(size),
        false => Ok(()),
    }
}

/// In the table, wherever that is.
fn resize_partition(at: &ImagePath, number: u32, size: u64, global: &Global) -> Result<()> {
    if is_file(at, global, Format::Raw) {
        let _locked = locked(&at.image, Access::Write)?;
        return partition::resize(&at.image, number, size);
    }
    let whole = ImagePath {
        selector: None,
        ..at.clone()
    };
    let disk = Target::open(&whole, Access::Write, true, global)?;
    disk.work_on_table(|path| partition::resize(path, number, size))
}
