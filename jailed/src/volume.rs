//! What a file system can be on, as the process that serves the image says it.

use tane::VolumeKind;
use tane_worker::VolumeRecord;

/// A disk, a partition, or a volume on them: see [`tane::Volume`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Volume {
    /// What it is.
    pub kind: VolumeKind,
    /// What means it behind the `@` of an address, as text for
    /// [`Selector`](crate::Selector); None if nothing does.
    pub selector: Option<String>,
    /// The type of what is on it; None if nothing known.
    pub fstype: Option<String>,
    /// That one's label.
    pub label: Option<String>,
    /// That one's UUID; else the one that the table, the group or the set gives.
    pub uuid: Option<String>,
    /// The name in a GPT, of a logical volume ("group/name"), of a set.
    pub name: Option<String>,
    /// Why nothing that lies on it is shown, though something may; or what it does without.
    pub note: Option<String>,
    /// Of a partition: where it starts, in bytes.
    pub start: u64,
    /// In bytes.
    pub size: u64,
    /// It is a LUKS or BitLocker volume that none of the secrets opens.
    pub locked: bool,
    mountable: bool,
}

/// struct tane_volume's flags.
const MOUNTABLE: u32 = 1;
const LOCKED: u32 = 2;

/// Up to the NUL that ends it; None if it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

impl Volume {
    pub(crate) fn of(record: &VolumeRecord) -> Volume {
        let name = text(&record.name);
        let logical = || {
            let (group, name) = name.as_deref()?.split_once('/')?;
            Some((group.to_owned(), name.to_owned()))
        };
        let kind = match record.kind {
            1 => VolumeKind::Partition(record.partition),
            2 => VolumeKind::Luks,
            3 => {
                let (group, name) = logical().unwrap_or_default();
                VolumeKind::Logical { group, name }
            }
            4 => VolumeKind::Raid,
            5 => VolumeKind::Verity,
            6 => VolumeKind::BitLocker,
            _ => VolumeKind::Disk,
        };
        Volume {
            kind,
            selector: text(&record.selector),
            fstype: text(&record.fstype),
            label: text(&record.label),
            uuid: text(&record.uuid),
            name,
            note: text(&record.note),
            start: record.start,
            size: record.length,
            locked: record.flags & LOCKED != 0,
            mountable: record.flags & MOUNTABLE != 0,
        }
    }

    /// Whether a file system that can be mounted is on it, rather than what holds others
    /// or nothing.
    pub fn is_mountable(&self) -> bool {
        self.mountable
    }
}
