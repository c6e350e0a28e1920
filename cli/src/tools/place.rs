//! The place that a file system is in, the image or a partition of it, made larger or
//! smaller: raw files and qcow2 grow with it.

use super::partition;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use crate::session::{container, locked, Access, Target};
use serde::{Deserialize, Serialize};
use std::fs::File;
use tane::images::{self, Format};
use tane::{ImagePath, VolumeKind};

/// What partitions start and end on.
const ALIGN: u64 = 1 << 20;

/// Where it is on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Disk,
    Partition(u32),
    /// A volume of LVM, LUKS and the like.
    Other,
}

/// What a process that looks tells another one, which believes no number of it.
#[derive(Serialize, Deserialize)]
pub struct Place {
    kind: Kind,
    /// In bytes, on its disk.
    start: u64,
    size: u64,
    /// Where the next partition starts.
    next: Option<u64>,
    is_logical: bool,
    disk: u64,
    /// Its disk is a file that has the disk's bytes as they are.
    is_raw: bool,
}

/// What there is to be done for a place to become another size, in bytes.
#[derive(Default)]
pub struct Change {
    /// The image becomes so long, or is cut there.
    pub disk: Option<u64>,
    /// This partition becomes so long.
    pub partition: Option<(u32, u64)>,
}

fn fail(at: &ImagePath, text: impl std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {text}", at.image.display()))
}

impl Place {
    pub fn of(target: &Target, at: &ImagePath, global: &Global) -> Place {
        Place {
            kind: match target.kind {
                VolumeKind::Disk => Kind::Disk,
                VolumeKind::Partition(n) => Kind::Partition(n),
                _ => Kind::Other,
            },
            start: target.start,
            size: target.size,
            next: target.next_start,
            is_logical: target.is_logical,
            disk: target.disk_size,
            is_raw: is_file(at, global, Format::Raw),
        }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its disk's bytes are those of a file.
    pub fn is_in_file(&self) -> bool {
        self.is_raw
    }

    /// An error if it can become no other size. To be asked before anything is changed.
    pub fn check(&self, at: &ImagePath) -> Result<()> {
        // Of what is no file, sfdisk sees the ends.
        match self.is_logical && !self.is_raw {
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
        let Kind::Partition(_) = self.kind else {
            return self.size;
        };
        // Behind the last one there may be the copy of a GPT.
        let last = self.disk.saturating_sub(ALIGN) / ALIGN * ALIGN;
        let end = self.next.map_or(last, |next| next / ALIGN * ALIGN);
        end.saturating_sub(self.start).max(self.size)
    }

    /// For so many bytes, which is more than it has.
    pub fn larger(&self, at: &ImagePath, size: u64) -> Result<Change> {
        let end = self.start.saturating_add(size);
        match (self.kind, self.next) {
            (Kind::Disk, _) => Ok(Change {
                disk: Some(size),
                partition: None,
            }),
            (Kind::Partition(n), None) => {
                let disk = end.saturating_add(ALIGN);
                Ok(Change {
                    disk: Some(disk).filter(|disk| *disk > self.disk),
                    partition: Some((n, size)),
                })
            }
            (Kind::Partition(n), Some(next)) if end <= next => Ok(Change {
                disk: None,
                partition: Some((n, size)),
            }),
            (Kind::Partition(n), Some(next)) => {
                let most = self.most();
                let text = format!(
                    "partition {n} can have {most} bytes where it is (max): \
                     the next one starts at byte {next}"
                );
                Err(fail(at, text))
            }
            (Kind::Other, _) => Err(fail(
                at,
                "is on no partition, nor the whole image, which could grow",
            )),
        }
    }

    /// For so many bytes, which is less: the file system has left the rest.
    pub fn smaller(&self, size: u64) -> Change {
        match self.kind {
            Kind::Disk if self.is_raw => Change {
                disk: Some(size),
                partition: None,
            },
            Kind::Partition(n) => Change {
                disk: None,
                partition: Some((n, size)),
            },
            _ => Change::default(),
        }
    }
}

fn is_file(at: &ImagePath, global: &Global, format: Format) -> bool {
    at.image.is_file() && container(at, global) == Some(format)
}

/// The image's disk gets at least so many bytes, if it is raw or a qcow2. Nobody has it open.
pub fn lengthen(at: &ImagePath, size: u64, global: &Global) -> Result<()> {
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

/// The image's file ends there: it has the disk's bytes as they are.
pub fn cut(at: &ImagePath, size: u64) -> Result<()> {
    let (file, _lock) = locked(&at.image, Access::Write)?;
    file.set_len(size).map_err(|e| fail(at, e))
}

/// In the table, if that is in a file with the disk's bytes as they are.
pub fn resize_in_file(at: &ImagePath, (number, size): (u32, u64)) -> Result<()> {
    let _locked = locked(&at.image, Access::Write)?;
    partition::resize(&at.image, number, size)
}

/// In the table, wherever that is: Linux knows.
pub fn resize_in_container(
    at: &ImagePath,
    (number, size): (u32, u64),
    global: &Global,
) -> Result<()> {
    let whole = ImagePath {
        selector: None,
        ..at.clone()
    };
    let disk = Target::open(&whole, Access::Write, true, global)?;
    disk.work_on_table(|path| partition::resize(path, number, size))
}
