//! What a disk says of the volumes it has a part of: "Common RAID Disk Data Format",
//! revision 2.0, section 4. All numbers are big-endian.

use crate::kernel::Kernel;
use crate::sys::SysResult;
use std::path::{Path, PathBuf};

const HEADER: u32 = u32::from_be_bytes(MARK);
const DISKS: u32 = 0x2222_2222;
const THIS_DISK: u32 = 0x3333_3333;
const VOLUMES: u32 = 0xdddd_dddd;
const RECORD: u32 = 0xeeee_eeee;

/// A section that is longer makes no sense, in sectors.
const LONGEST: u32 = 16 << 10;
const SECTOR: u64 = 512;
/// What the last sector of a disk begins with.
pub(in crate::volumes) const MARK: [u8; 4] = [0xde, 0x11, 0xde, 0x11];
/// More volumes on a disk, or disks in a volume, are not believed.
const MOST: usize = 256;

pub(in crate::volumes) struct Member {
    pub device: PathBuf,
    /// The disk, as records name it.
    pub(super) id: u32,
    /// How many changes it has seen.
    pub(super) changes: u32,
    /// Every disk that it knows, and its state.
    pub(super) disks: Vec<(u32, u16)>,
    /// Volumes and their names.
    pub(super) names: Vec<([u8; 24], String)>,
    pub(super) records: Vec<Record>,
}

/// A volume, or of one of two levels a part of it.
#[derive(Clone)]
pub(super) struct Record {
    pub volume: [u8; 24],
    pub changes: u32,
    /// In sectors; None: it has none.
    pub chunk: Option<u64>,
    pub level: u8,
    pub qualifier: u8,
    /// How many parts there are, which this is, and what they make.
    pub parts: u8,
    pub part: u8,
    pub second_level: u8,
    /// On each disk, in sectors.
    pub len: u64,
    /// A disk, and the first sector on it.
    pub extents: Vec<(u32, u64)>,
}

/// Whether a disk ends with the mark.
pub(super) fn is_member(kernel: &Kernel, device: &Path) -> SysResult<bool> {
    let size = kernel.device_size(device)?;
    let anchor = kernel.read_device(device, last(size), SECTOR as usize)?;
    Ok(is_sound(&anchor, HEADER))
}

/// Where the last sector is.
pub(in crate::volumes) fn last(size: u64) -> u64 {
    (size / SECTOR).saturating_sub(1) * SECTOR
}

impl Member {
    /// None: all that it says is damaged.
    pub fn read(kernel: &Kernel, device: &Path) -> SysResult<Option<Self>> {
        let at = last(kernel.device_size(device)?);
        let anchor = kernel.read_device(device, at, SECTOR as usize)?;
        let read = |at, len| kernel.read_device(device, at, len).ok();
        Ok(Self::of_anchor(device, &anchor, read))
    }

    /// By the last sector, and `read`, which takes a place and a length in bytes.
    pub(super) fn of_anchor(
        device: &Path,
        anchor: &[u8],
        read: impl Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        // The second header has sections of its own.
        [96, 104].into_iter().find_map(|place| {
            let place = long(anchor, place)?.checked_mul(SECTOR)?;
            Self::of_header(device, |at, sectors| {
                let at = at.checked_mul(SECTOR)?.checked_add(place)?;
                let is_there = at < 1 << 62 && sectors <= LONGEST;
                is_there.then(|| read(at, sectors as usize * SECTOR as usize))?
            })
        })
    }

    /// Whether it has no part of any volume.
    pub fn is_spare(&self) -> bool {
        self.records.is_empty()
    }

    fn of_header(device: &Path, read: impl Fn(u64, u32) -> Option<Vec<u8>>) -> Option<Self> {
        let header = read(0, 1)?;
        let section = |at: usize| read(word(&header, at)?.into(), word(&header, at + 4)?);
        let sound = |at: usize, mark: u32| section(at).filter(|bytes| is_sound(bytes, mark));
        if !is_sound(&header, HEADER) {
            return None;
        }
        let (len, most) = (half(&header, 134)?, half(&header, 136)?);
        let record = usize::from(len) * SECTOR as usize;
        let (disks, names) = (sound(200, DISKS)?, sound(208, VOLUMES)?);
        let (records, this) = (section(216)?, sound(224, THIS_DISK)?);
        let entries = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let count = half(bytes, 10).map_or(0, usize::from);
            let entries = bytes.get(64..).unwrap_or_default().chunks_exact(64);
            entries.take(count).map(<[u8]>::to_vec).collect()
        };
        let disk = |entry: &Vec<u8>| Some((word(entry, 24)?, half(entry, 30)?));
        let name = |entry: &Vec<u8>| {
            let text = String::from_utf8_lossy(entry.get(48..64)?).into_owned();
            let text = text.trim_end_matches(['\0', ' ']).to_owned();
            Some((entry.get(..24)?.try_into().ok()?, text))
        };
        Some(Self {
            device: device.to_owned(),
            id: word(&this, 32)?,
            changes: word(&header, 40)?,
            disks: entries(&disks).iter().filter_map(disk).collect(),
            names: entries(&names).iter().filter_map(name).collect(),
            records: records
                .chunks_exact(record.max(1))
                .take(MOST)
                .filter_map(|bytes| Record::parse(bytes, most.into()))
                .collect(),
        })
    }
}

impl Record {
    /// `most`: extents there is room for.
    fn parse(bytes: &[u8], most: usize) -> Option<Self> {
        let count = usize::from(half(bytes, 64)?);
        if !is_sound(bytes, RECORD) || count > most.min(MOST) {
            return None;
        }
        let extent = |i: usize| {
            Some((
                word(bytes, 512 + 4 * i)?,
                long(bytes, 512 + 4 * most + 8 * i)?,
            ))
        };
        Some(Self {
            volume: bytes.get(8..32)?.try_into().ok()?,
            changes: word(bytes, 36)?,
            chunk: 1u64
                .checked_shl(bytes[66].into())
                .filter(|_| bytes[66] < 24),
            level: bytes[67],
            qualifier: bytes[68],
            parts: bytes[69],
            part: bytes[70],
            second_level: bytes[71],
            len: long(bytes, 72)?,
            extents: (0..count).map(extent).collect::<Option<_>>()?,
        })
    }
}

/// Whether a structure begins with its mark, and its checksum is right: of all of it,
/// with ones in the checksum's place, from nothing and not inverted, as mdadm has it.
fn is_sound(bytes: &[u8], mark: u32) -> bool {
    if bytes.len() < SECTOR as usize || word(bytes, 0) != Some(mark) {
        return false;
    }
    let mut sum = crc32fast::Hasher::new_with_initial(u32::MAX);
    sum.update(&bytes[..4]);
    sum.update(&[0xff; 4]);
    sum.update(&bytes[8..]);
    word(bytes, 4) == Some(!sum.finalize())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
