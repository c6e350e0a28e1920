//! md RAID: sets that the kernel puts together from their members.

use super::{Made, VolumeKind, VolumeOptions, Volumes};
use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::path::with_cstr;
use crate::probe::{hyphenated, FileSystem};
use crate::sys::SysResult;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SET_ARRAY_INFO: u64 = 0x4048_0923;
const ADD_NEW_DISK: u64 = 0x4014_0921;
const RUN_ARRAY: u64 = 0x400c_0930;
const STOP_ARRAY: u64 = 0x0932;
const MAJOR: u32 = 9;

/// What a member says of its set.
pub(super) struct Member {
    pub device: PathBuf,
    pub set: [u8; 16],
    pub name: Option<String>,
    /// Of its superblock: 0.90, or 1 with 0 to 2.
    version: (u32, u32),
    /// How many changes it has seen: those that are behind are left out.
    events: u64,
    /// What the set uses of it, in bytes.
    size: u64,
}

/// What a superblock begins with.
pub(super) const MARK: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

/// Where a device of `size` bytes has superblocks at its end: of version 1.0, and of
/// 0.90, in the last whole 64 KiB but one.
pub(super) fn places_at_end(size: u64) -> [u64; 2] {
    let end = size / 512;
    [
        (end.saturating_sub(16) & !7) * 512,
        (end & !127).saturating_sub(128) * 512,
    ]
}

impl Member {
    /// By its superblock; None if there is none.
    pub fn read(kernel: &Kernel, device: &Path) -> SysResult<Option<Self>> {
        // 1.1 is at the start, 1.2 at 4 KiB.
        match Self::version_1(kernel, device, &[(1, 0), (2, 4096)])? {
            Some(member) => Ok(Some(member)),
            None => Self::at_end(kernel, device),
        }
    }

    /// By one at the end of the device.
    fn at_end(kernel: &Kernel, device: &Path) -> SysResult<Option<Self>> {
        let [one, zero] = places_at_end(kernel.device_size(device)?);
        match Self::version_1(kernel, device, &[(0, one)])? {
            Some(member) => Ok(Some(member)),
            None => Self::version_0(kernel, device, zero),
        }
    }

    fn version_0(kernel: &Kernel, device: &Path, at: u64) -> SysResult<Option<Self>> {
        let bytes = kernel.read_device(device, at, 4096)?;
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if words.len() < 1024 || words[..3] != [0xa92b_4efc, 0, 90] {
            return Ok(None);
        }
        let all = words.iter().enumerate().filter(|(i, _)| *i != 38);
        let sum: u64 = all.map(|(_, word)| u64::from(*word)).sum();
        if (sum as u32).wrapping_add((sum >> 32) as u32) != words[38] {
            return Ok(None);
        }
        let mut set = [0; 16];
        for (to, word) in set.chunks_exact_mut(4).zip([5, 13, 14, 15]) {
            to.copy_from_slice(&words[word].to_be_bytes());
        }
        Ok(Some(Self {
            device: device.to_owned(),
            set,
            name: None,
            version: (0, 90),
            events: u64::from(words[40]) << 32 | u64::from(words[39]),
            size: u64::from(words[8]) * 1024,
        }))
    }

    fn version_1(kernel: &Kernel, device: &Path, places: &[(u32, u64)]) -> SysResult<Option<Self>> {
        for (minor, at) in places.iter().copied() {
            let bytes = kernel.read_device(device, at, 256)?;
            let word = |at: usize| {
                let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
                Some(u64::from_le_bytes(bytes))
            };
            let is_here = word(0) == Some(0x1_a92b_4efc) && word(144) == Some(at / 512);
            let (true, Some(events)) = (is_here, word(200)) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes[32..64]);
            let name = text.trim_end_matches('\0');
            return Ok(Some(Self {
                device: device.to_owned(),
                set: bytes[16..32].try_into().unwrap_or_default(),
                name: (!name.is_empty()).then(|| name.to_owned()),
                version: (1, minor),
                events,
                size: word(80).unwrap_or(0).saturating_mul(512),
            }));
        }
        Ok(None)
    }
}

/// What a superblock at the end of a device says. One of version 0.90 there can
/// also be that of the last partition, which ends where the disk does: it is the
/// disk's only if it is about as much as the disk has.
pub(super) fn at_end(
    kernel: &Kernel,
    device: &Path,
    has_partitions: bool,
) -> SysResult<Option<FileSystem>> {
    let size = kernel.device_size(device)?;
    let member = Member::at_end(kernel, device)?;
    let fits = |m: &Member| !has_partitions || m.version.0 > 0 || m.size + (1 << 20) > size;
    Ok(member.filter(fits).map(|member| FileSystem {
        fstype: "linux_raid_member".into(),
        also: Vec::new(),
        uuid: Some(hyphenated(&member.set)),
        label: member.name,
    }))
}

/// Put a set together; its node. `number` is one that no other set has.
pub(super) fn assemble(kernel: &Kernel, members: &[&Member], number: u32) -> SysResult<PathBuf> {
    let node = PathBuf::from(format!("/dev/md{number}"));
    let mode = libc::S_IFBLK | 0o600;
    let device = (MAJOR << 8) | (number & 0xff);
    let made = with_cstr(node.as_os_str().as_encoded_bytes(), |path| {
        kernel
            .sys()
            .mknod(libc::AT_FDCWD, path, mode, device.into())
    });
    match made {
        Err(errno) if errno.0 != libc::EEXIST => return Err(errno),
        _ => {}
    }
    // Opening the node makes the array.
    let array = kernel.open_device(&node, libc::O_RDWR)?;
    let newest = members.iter().map(|m| m.events).max().unwrap_or(0);
    let mut info = [0u8; 72];
    let (major, minor) = members.first().map_or((1, 2), |m| m.version);
    info[0..4].copy_from_slice(&major.to_ne_bytes());
    info[4..8].copy_from_slice(&minor.to_ne_bytes());
    kernel.ioctl(&array, SET_ARRAY_INFO, &mut info)?;
    let run = || {
        for member in members.iter().filter(|m| m.events + 1 >= newest) {
            let mut disk = [0u8; 20];
            let (major, minor) = numbers(kernel, &member.device)?;
            disk[4..8].copy_from_slice(&major.to_ne_bytes());
            disk[8..12].copy_from_slice(&minor.to_ne_bytes());
            kernel.ioctl(&array, ADD_NEW_DISK, &mut disk)?;
        }
        kernel.ioctl(&array, RUN_ARRAY, &mut [0; 12])
    };
    if let Err(errno) = run() {
        let _ = kernel.ioctl_number(&array, STOP_ARRAY, 0);
        return Err(errno);
    }
    Ok(node)
}

pub(super) fn stop(kernel: &Kernel, node: &Path) -> SysResult<()> {
    let array = kernel.open_device(node, libc::O_RDWR)?;
    kernel.ioctl_number(&array, STOP_ARRAY, 0).map(drop)
}

fn numbers(kernel: &Kernel, device: &Path) -> SysResult<(u32, u32)> {
    let fd = kernel.open_device(device, libc::O_RDONLY | libc::O_PATH)?;
    let stat = kernel.fstatx(fd.raw())?;
    Ok((stat.stx_rdev_major, stat.stx_rdev_minor))
}

impl Volumes {
    pub(super) fn add_sets(&mut self, members: &[Member], _: &VolumeOptions) -> Result<()> {
        let mut sets: BTreeMap<[u8; 16], Vec<&Member>> = BTreeMap::new();
        for member in members {
            sets.entry(member.set).or_default().push(member);
        }
        for (set, members) in sets {
            let on: Vec<_> = members
                .iter()
                .filter_map(|m| self.index_of(&m.device))
                .collect();
            let name = members.first().and_then(|m| m.name.clone());
            let free = |n: &u32| self.index_of(Path::new(&format!("/dev/md{n}"))).is_none();
            let number = (0..128).find(free).unwrap_or(0);
            match assemble(&self.kernel, &members, number) {
                Ok(node) => {
                    let size = self.kernel.device_size(&node);
                    let size = size.map_err(|errno| errno.on("measure", &node))?;
                    self.made.push(Made::Raid(node.clone()));
                    let uuid = Some(hyphenated(&set));
                    self.push(VolumeKind::Raid, node, on, size, name, uuid)?;
                }
                Err(errno) => {
                    let what = name.as_deref().unwrap_or("a set without a name");
                    let error: Error = errno.on("assemble", Path::new(what));
                    let why = format!("{error}; are members missing (--with)?");
                    for index in on {
                        self.list[index].note = Some(why.clone());
                    }
                }
            }
        }
        Ok(())
    }
}
