//! A partition of a disk, as the kernel found it.

use crate::error::Result;
use crate::table::Table;
use crate::tree::Tree;
use std::path::{Path, PathBuf};

/// Linux counts disks in these units whatever the disk's own are.
pub(crate) const SECTOR: u64 = 512;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number in the table, from 1.
    pub number: u32,
    /// The kernel's name for it, such as "vda1".
    pub device_name: String,
    /// Where it starts on the disk, in bytes.
    pub start: u64,
    /// In bytes.
    pub size: u64,
    /// The kernel refuses writes to it.
    pub read_only: bool,
    /// The name that a GPT gives it; not that of the file system on it.
    pub name: Option<String>,
    /// Its identity in the table, as blkid(8) writes PARTUUID.
    pub uuid: Option<String>,
    /// Its type in the table: a GUID in a GPT, like 0x83 in an MBR.
    pub kind: Option<String>,
}

impl Partition {
    /// Its device node inside the kernel: what
    /// [`MountOptions::mount`](crate::MountOptions::mount) takes.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.device_name)
    }

    /// The partition that a directory in sysfs describes; None if it describes
    /// something else.
    pub(crate) fn from_sysfs(
        sysfs: &Tree,
        dir: &Path,
        device_name: &str,
        table: &Table,
    ) -> Result<Option<Self>> {
        let Some(number) = number(sysfs, &dir.join("partition"))? else {
            return Ok(None);
        };
        let identity = table.identity(number as u32);
        let uevent = sysfs.read(dir.join("uevent"))?;
        let uevent = String::from_utf8_lossy(&uevent);
        let name = uevent
            .lines()
            .find_map(|line| line.strip_prefix("PARTNAME="));
        Ok(Some(Partition {
            number: number as u32,
            device_name: device_name.to_owned(),
            start: number_or_0(sysfs, &dir.join("start"))?.saturating_mul(SECTOR),
            size: number_or_0(sysfs, &dir.join("size"))?.saturating_mul(SECTOR),
            read_only: number_or_0(sysfs, &dir.join("ro"))? != 0,
            name: name.map(str::to_owned),
            uuid: identity.uuid,
            kind: identity.kind,
        }))
    }
}

/// The number that a file in sysfs says; None if there is no such file.
pub(crate) fn number(sysfs: &Tree, path: &Path) -> Result<Option<u64>> {
    match sysfs.read_to_string(path) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if matches!(error.errno(), libc::ENOENT | libc::ENOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn number_or_0(sysfs: &Tree, path: &Path) -> Result<u64> {
    Ok(number(sysfs, path)?.unwrap_or(0))
}
