//! What a volume is, and how volumes are looked for.

use super::{Protector, Verity};
use crate::probe::FileSystem;
use std::path::PathBuf;

/// What a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A whole disk.
    Disk,
    /// A partition, with its number in the table.
    Partition(u32),
    /// What is inside a LUKS volume, unlocked.
    Luks,
    /// What is inside a BitLocker volume, unlocked.
    BitLocker,
    /// An LVM2 logical volume.
    Logical {
        /// Its volume group's name.
        group: String,
        /// Its own.
        name: String,
    },
    /// An md RAID set.
    Raid,
    /// What dm-verity lets through: what its root hash is of, or EIO.
    Verity,
}

impl VolumeKind {
    /// Whether it is what a key has opened.
    pub fn is_unlocked(&self) -> bool {
        matches!(self, Self::Luks | Self::BitLocker)
    }
}

/// A place where a file system can be.
#[derive(Clone, Debug)]
pub struct Volume {
    /// What it is.
    pub kind: VolumeKind,
    /// Its node inside the kernel; None if the kernel could not be given it, for
    /// the reason in `note`.
    pub device: Option<PathBuf>,
    /// What it lies on: places in [`Volumes::list`].
    pub on: Vec<usize>,
    /// Of a partition: where it starts, in bytes.
    pub start: Option<u64>,
    /// In bytes.
    pub size: u64,
    /// The name in a GPT, of a logical volume ("group/name"), of a set.
    pub name: Option<String>,
    /// The identity that the table, the group or the set gives it.
    pub uuid: Option<String>,
    /// Of a partition: its type in the table, a GUID in a GPT, like 0x83 in an MBR.
    pub part_type: Option<String>,
    /// What is on it; None if nothing known.
    pub found: Option<FileSystem>,
    /// Why nothing that lies on it is shown, though something may; or, if it has a
    /// device, what it does without.
    pub note: Option<String>,
    /// It is a LUKS or BitLocker volume that none of the secrets opens.
    pub locked: bool,
    /// Of a BitLocker volume: what opens it.
    pub protectors: Vec<Protector>,
}

impl Volume {
    /// Whether a file system that can be mounted is on it, rather than what holds others
    /// or nothing.
    pub fn is_mountable(&self) -> bool {
        let found = self.found.as_ref();
        self.device.is_some() && found.is_some_and(FileSystem::is_mountable)
    }

    /// Whether it is a btrfs on several devices, and not all of them are there: the note
    /// says how many.
    pub fn is_short(&self) -> bool {
        let is_btrfs = self.found.as_ref().is_some_and(|f| f.fstype == "btrfs");
        is_btrfs && self.note.is_some()
    }
}

/// How volumes are looked for.
#[derive(Clone, Default)]
pub struct VolumeOptions {
    pub(super) read_only: bool,
    pub(super) secrets: Vec<Vec<u8>>,
    pub(super) verity: Option<Verity>,
}

impl VolumeOptions {
    /// Writable, without secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Let nothing be written to what is put together.
    pub fn read_only(&mut self, yes: bool) -> &mut Self {
        self.read_only = yes;
        self
    }

    /// A passphrase or the content of a key file, for any LUKS or BitLocker volume
    /// that it opens. Bytes, without a newline that is not part of it. For BitLocker it
    /// is a password in UTF-8, the 48 digits of a recovery password, or the content of
    /// the file of a startup key (.BEK).
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        self.secrets.push(secret.into());
        self
    }

    /// Let dm-verity check what this root hash is of: it is an error if nothing
    /// here is. The hashes are a volume of their own, as veritysetup(8) makes
    /// them, on any of the disks; or on the same volume as the data, `offset`
    /// bytes from its start.
    pub fn verity(&mut self, root: impl Into<Vec<u8>>, offset: Option<u64>) -> &mut Self {
        let root = root.into();
        self.verity = Some(Verity { root, offset });
        self
    }
}

impl std::fmt::Debug for VolumeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeOptions")
            .field("read_only", &self.read_only)
            .field("secrets", &self.secrets.len())
            .field("verity", &self.verity)
            .finish()
    }
}
