//! Resizing by Linux itself, of what is mounted: each file system's own system call.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use tane::{Kernel, Mount};

const EXT4_IOC_RESIZE_FS: u64 = 0x4008_6610;
const XFS_IOC_FSGEOMETRY_V1: u64 = 0x8070_5864;
const XFS_IOC_FSGROWFSDATA: u64 = 0x4010_586e;
const BTRFS_IOC_RESIZE: u64 = 0x5000_9403;
const NILFS_IOCTL_RESIZE: u64 = 0x4008_6e8b;

/// Those that grow so.
pub const GROW: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "nilfs2"];
/// Those that shrink so; nilfs2 where its end is free.
pub const SHRINK: [&str; 2] = ["btrfs", "nilfs2"];

/// linux/fs.h: the name of a file system, in FSLABEL_MAX bytes.
const FS_IOC_SETFSLABEL: u64 = 0x4100_9432;
const FSLABEL_MAX: usize = 256;

/// Those whose name Linux itself changes.
pub const NAMED: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// Another name for what is mounted; EINVAL if it is too long.
pub fn set_label(kernel: &Kernel, mount: &Mount, label: &str) -> io::Result<()> {
    let mut text = [0u8; FSLABEL_MAX];
    if label.len() >= FSLABEL_MAX || label.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    text[..label.len()].copy_from_slice(label.as_bytes());
    let known = |e: tane::Error| io::Error::from_raw_os_error(e.errno());
    let root = mount.open(".").map_err(known)?;
    let args = [
        root.kernel_fd() as u64,
        FS_IOC_SETFSLABEL,
        text.as_ptr() as u64,
        0,
        0,
        0,
    ];
    // SAFETY: the request reads that many bytes of ours.
    result(unsafe { kernel.syscall(libc::SYS_ioctl, args) })
}

/// So many bytes, in a device that has them.
pub fn resize(kernel: &Kernel, mount: &Mount, kind: &str, size: u64) -> io::Result<()> {
    let known = |e: tane::Error| io::Error::from_raw_os_error(e.errno());
    let block = mount.statfs().map_err(known)?.block_size.max(1);
    if kind == "jfs" {
        return remount(kernel, mount, &format!("resize={}", size / block));
    }
    let root = mount.open(".").map_err(known)?;
    let fd = root.kernel_fd() as u64;
    let ioctl = |request: u64, argument: u64| {
        // SAFETY: the argument points to what the request reads or writes.
        unsafe { kernel.syscall(libc::SYS_ioctl, [fd, request, argument, 0, 0, 0]) }
    };
    result(match kind {
        "xfs" => {
            // struct xfs_fsop_geom_v1; the share of inodes is its eighth number.
            let mut geometry = [0u32; 28];
            let known = ioctl(XFS_IOC_FSGEOMETRY_V1, geometry.as_mut_ptr() as u64);
            let new = [size / u64::from(geometry[0].max(1)), geometry[7].into()];
            let have = u64::from(geometry[8]) | u64::from(geometry[9]) << 32;
            match known {
                0 if new[0] <= have => 0,
                0 => ioctl(XFS_IOC_FSGROWFSDATA, new.as_ptr() as u64),
                e => e,
            }
        }
        "btrfs" => {
            let mut args = [0u8; 4096];
            let text = size.to_string();
            args[8..8 + text.len()].copy_from_slice(text.as_bytes());
            ioctl(BTRFS_IOC_RESIZE, args.as_ptr() as u64)
        }
        "nilfs2" => ioctl(NILFS_IOCTL_RESIZE, (&raw const size) as u64),
        _ => {
            let blocks = size / block;
            ioctl(EXT4_IOC_RESIZE_FS, (&raw const blocks) as u64)
        }
    })
}

fn remount(kernel: &Kernel, mount: &Mount, options: &str) -> io::Result<()> {
    let place = CString::new(mount.mount_point().as_os_str().as_bytes())?;
    let options = CString::new(options)?;
    let [place, options] = [&place, &options].map(|text| text.as_ptr() as u64);
    let args = [place, place, 0, libc::MS_REMOUNT, options, 0];
    // SAFETY: strings that outlive the call.
    result(unsafe { kernel.syscall(libc::SYS_mount, args) })
}

fn result(done: i64) -> io::Result<()> {
    match done {
        0.. => Ok(()),
        e => Err(io::Error::from_raw_os_error(-e as i32)),
    }
}
