//! Structures of the protocol. They are those of tane.h, and consist of integers and
//! characters, so that any bytes are one: what they say may be wrong, and no more.

use tane::{Metadata, SetTime, Timestamp, Volume, VolumeKind};

/// A structure that crosses as its bytes.
///
/// # Safety
/// `repr(C)`, without padding; every bit pattern is a valid value.
pub(crate) unsafe trait Record: Copy {
    /// After it came from a process that may be hostile.
    fn tidy(&mut self) {}
}

/// struct tane_timestamp.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
    pub reserved: u32,
}

/// UTIME_NOW, for [`Time::nanoseconds`].
pub const NOW: u32 = 0x3fff_ffff;
/// UTIME_OMIT.
pub const KEEP: u32 = 0x3fff_fffe;

// SAFETY: integers without a gap.
unsafe impl Record for Time {}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Time {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
            reserved: 0,
        }
    }
}

impl From<Time> for SetTime {
    fn from(time: Time) -> Self {
        match time.nanoseconds {
            NOW => SetTime::Now,
            KEEP => SetTime::Keep,
            nanoseconds => SetTime::To(Timestamp {
                seconds: time.seconds,
                nanoseconds,
            }),
        }
    }
}

/// struct tane_stat.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The C structure's; 0 here.
    pub size: usize,
    pub ino: u64,
    pub dev: u64,
    pub rdev: u64,
    pub length: u64,
    pub blocks: u64,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub block_size: u32,
    pub has_btime: u32,
    pub attributes: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
}

// SAFETY: integers without a gap.
unsafe impl Record for Stat {
    fn tidy(&mut self) {
        for time in [
            &mut self.atime,
            &mut self.mtime,
            &mut self.ctime,
            &mut self.btime,
        ] {
            time.nanoseconds = time.nanoseconds.min(999_999_999);
        }
    }
}

impl From<Metadata> for Stat {
    fn from(m: Metadata) -> Self {
        Stat {
            size: 0,
            ino: m.ino(),
            dev: m.dev(),
            rdev: m.rdev(),
            length: m.len(),
            blocks: m.blocks(),
            mode: m.mode(),
            nlink: m.nlink(),
            uid: m.uid(),
            gid: m.gid(),
            block_size: m.blksize(),
            has_btime: m.btime().is_some().into(),
            attributes: m.attributes(),
            atime: m.atime().into(),
            mtime: m.mtime().into(),
            ctime: m.ctime().into(),
            btime: m.btime().unwrap_or_default().into(),
        }
    }
}

/// struct tane_statfs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// The C structure's; 0 here.
    pub size: usize,
    pub magic: u64,
    pub block_size: u64,
    pub total: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_max: u32,
    pub read_only: u32,
}

// SAFETY: integers without a gap.
unsafe impl Record for StatFs {
    fn tidy(&mut self) {
        // Callers divide by it.
        self.block_size = self.block_size.max(1);
    }
}

impl From<tane::StatFs> for StatFs {
    fn from(found: tane::StatFs) -> Self {
        StatFs {
            size: 0,
            magic: found.magic,
            block_size: found.block_size,
            total: found.total,
            free: found.free,
            available: found.available,
            files: found.files,
            files_free: found.files_free,
            name_max: found.name_max as u32,
            read_only: found.read_only.into(),
        }
    }
}

/// struct tane_shared_part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedPart {
    pub start: u64,
    pub len: u64,
    pub physical: u64,
}

// SAFETY: integers without a gap.
unsafe impl Record for SharedPart {}

impl From<tane::SharedPart> for SharedPart {
    fn from(part: tane::SharedPart) -> Self {
        SharedPart {
            start: part.start,
            len: part.len,
            physical: part.physical,
        }
    }
}

/// struct tane_volume. Texts end with a NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VolumeRecord {
    /// The C structure's; 0 here.
    pub size: usize,
    pub kind: u32,
    pub flags: u32,
    pub partition: u32,
    pub reserved: u32,
    pub start: u64,
    pub length: u64,
    pub selector: [u8; 320],
    pub fstype: [u8; 32],
    pub label: [u8; 256],
    pub uuid: [u8; 64],
    pub name: [u8; 320],
    pub note: [u8; 256],
}

const KINDS: u32 = 7;
const MOUNTABLE: u32 = 1;
const LOCKED: u32 = 2;

// SAFETY: integers without a gap.
unsafe impl Record for VolumeRecord {
    fn tidy(&mut self) {
        self.kind = if self.kind < KINDS { self.kind } else { 0 };
        let texts: [&mut [u8]; 6] = [
            &mut self.selector,
            &mut self.fstype,
            &mut self.label,
            &mut self.uuid,
            &mut self.name,
            &mut self.note,
        ];
        for text in texts {
            if let Some(last) = text.last_mut() {
                *last = 0;
            }
        }
    }
}

/// Text in an array, cut off at a character's end.
fn array<const N: usize>(text: &str) -> [u8; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    array[..end].copy_from_slice(&text.as_bytes()[..end]);
    array
}

impl VolumeRecord {
    pub fn new(volume: &Volume, selector: Option<&str>) -> Self {
        let (kind, partition) = match volume.kind {
            VolumeKind::Disk => (0, 0),
            VolumeKind::Partition(number) => (1, number),
            VolumeKind::Luks => (2, 0),
            VolumeKind::Logical { .. } => (3, 0),
            VolumeKind::Raid => (4, 0),
            VolumeKind::Verity => (5, 0),
            VolumeKind::BitLocker => (6, 0),
        };
        let found = volume.found.as_ref();
        let label = found.and_then(|f| f.label.as_deref());
        let uuid = found.and_then(|f| f.uuid.as_deref());
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        VolumeRecord {
            size: 0,
            kind,
            flags: flag(volume.is_mountable(), MOUNTABLE) | flag(volume.locked, LOCKED),
            partition,
            reserved: 0,
            start: volume.start.unwrap_or(0),
            length: volume.size,
            selector: array(selector.unwrap_or_default()),
            fstype: array(found.map_or("", |f| f.fstype.as_str())),
            label: array(label.unwrap_or_default()),
            uuid: array(uuid.or(volume.uuid.as_deref()).unwrap_or_default()),
            name: array(volume.name.as_deref().unwrap_or_default()),
            note: array(volume.note.as_deref().unwrap_or_default()),
        }
    }
}

/// struct tane_mount_options, as far as it crosses.
#[derive(Clone, Debug, Default)]
pub struct MountHow {
    /// TANE_MOUNT_ bits.
    pub flags: u32,
    pub fstype: Option<String>,
    pub options: String,
}

impl TryFrom<&tane::MountOptions> for MountHow {
    type Error = tane::Error;

    fn try_from(options: &tane::MountOptions) -> tane::Result<MountHow> {
        let (fstype, options, bits) = options.words()?;
        let flags = bits.into_iter().zip([DEVICES, EXEC, ATIME]);
        Ok(MountHow {
            flags: flags.map(|(is, bit)| u32::from(is) * bit).sum(),
            fstype: fstype.map(str::to_owned),
            options,
        })
    }
}

const READ_ONLY: u32 = 1;
const DEVICES: u32 = 2;
const EXEC: u32 = 4;
const ATIME: u32 = 8;

impl MountHow {
    pub fn options(&self) -> tane::MountOptions {
        let mut options = tane::MountOptions::new();
        options
            .options(&self.options)
            .devices(self.flags & DEVICES != 0)
            .exec(self.flags & EXEC != 0)
            .atime(self.flags & ATIME != 0);
        if self.flags & READ_ONLY != 0 {
            options.read_only(true);
        }
        if let Some(fstype) = &self.fstype {
            options.fstype(fstype.as_str());
        }
        options
    }
}
