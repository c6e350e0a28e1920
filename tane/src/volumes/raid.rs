//! md RAID: sets that the kernel puts together from their members.

use crate::kernel::Kernel;
use crate::path::with_cstr;
use crate::sys::SysResult;
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
    minor_version: u32,
    /// How many changes it has seen: those that are behind are left out.
    events: u64,
}

impl Member {
    /// By a superblock of version 1; None if there is none.
    pub fn read(kernel: &Kernel, device: &Path) -> SysResult<Option<Self>> {
        let end = kernel.device_size(device)? / 512;
        // 1.0 is near the end, 1.1 at the start, 1.2 at 4 KiB.
        let places = [(1, 0), (2, 4096), (0, (end.saturating_sub(16) & !7) * 512)];
        for (minor_version, at) in places {
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
                minor_version,
                events,
            }));
        }
        Ok(None)
    }
}

/// Put a set together; its node. `number` is one that no other set has.
pub(super) fn assemble(kernel: &Kernel, members: &[&Member], number: u32) -> SysResult<PathBuf> {
    let node = PathBuf::from(format!("/dev/md{number}"));
    let mode = libc::S_IFBLK | 0o600;
    let device = (MAJOR << 8) | (number & 0xff);
    let made = with_cstr(node.as_os_str().as_encoded_bytes(), |path| {
        kernel.mknodat(libc::AT_FDCWD, path, mode, device)
    });
    match made {
        Err(errno) if errno.0 != libc::EEXIST => return Err(errno),
        _ => {}
    }
    // Opening the node makes the array.
    let array = kernel.open_device(&node, libc::O_RDWR)?;
    let newest = members.iter().map(|m| m.events).max().unwrap_or(0);
    let mut info = [0u8; 72];
    info[0..4].copy_from_slice(&1u32.to_ne_bytes());
    let minor = members.first().map_or(2, |m| m.minor_version);
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
    let stat = kernel.fstatx(fd.raw)?;
    Ok((stat.stx_rdev_major, stat.stx_rdev_minor))
}
