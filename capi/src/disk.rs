//! tane_disk_*, tane_probe.

use crate::block::{backend, BlockOps};
use crate::error::{answer, answer64, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, array, c_path, give, handle, path, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use tane::{Disk, DiskOptions};

pub struct TaneDisk {
    disk: Disk,
    device: CString,
}

impl TaneDisk {
    fn new(disk: Disk) -> Self {
        let device = c_path(&disk.device());
        TaneDisk { disk, device }
    }
}

#[repr(C)]
pub struct RawDiskOptions {
    size: usize,
    flags: u32,
    reserved: u32,
    serial: *const c_char,
}

// SAFETY: integers and a pointer.
unsafe impl Sized_ for RawDiskOptions {}

const READ_ONLY: u32 = 1;
const SNAPSHOT: u32 = 2;
const DIRECT: u32 = 4;

/// # Safety
/// As tane.h says.
unsafe fn options(at: *const RawDiskOptions) -> Result<DiskOptions> {
    // SAFETY: as tane.h says.
    let (raw, serial) = unsafe {
        let raw = read_or_zero(at)?;
        let serial = text(raw.serial)?;
        (raw, serial)
    };
    let mut options = DiskOptions::new();
    options
        .read_only(raw.flags & READ_ONLY != 0)
        .snapshot(raw.flags & SNAPSHOT != 0)
        .direct(raw.flags & DIRECT != 0)
        .serial(serial.unwrap_or_default());
    Ok(options)
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_open(
    kernel: *mut TaneKernel,
    file: *const c_char,
    raw: *const RawDiskOptions,
    disk: *mut *mut TaneDisk,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (kernel, file, options) = (handle(kernel)?.local()?, path(file)?, options(raw)?);
        give(disk, || {
            Ok(TaneDisk::new(kernel.open_disk(file, &options)?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_add(
    kernel: *mut TaneKernel,
    ops: *const BlockOps,
    raw: *const RawDiskOptions,
    disk: *mut *mut TaneDisk,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (kernel, options) = (handle(kernel)?.local()?, options(raw)?);
        let ops = pass::read(ops)?;
        give(disk, || {
            let (backend, owner) = backend(ops)?;
            let disk = kernel.add_disk(backend, &options)?;
            owner.take_over();
            Ok(TaneDisk::new(disk))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_ram(
    kernel: *mut TaneKernel,
    size: u64,
    raw: *const RawDiskOptions,
    disk: *mut *mut TaneDisk,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (kernel, options) = (handle(kernel)?.local()?, options(raw)?);
        give(disk, || {
            Ok(TaneDisk::new(kernel.add_ram_disk_with(size, &options)?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_device(disk: *const TaneDisk) -> *const c_char {
    // SAFETY: as tane.h says.
    match unsafe { handle(disk) } {
        Ok(disk) => disk.device.as_ptr(),
        Err(_) => std::ptr::null(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_size(disk: *const TaneDisk) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| Ok(unsafe { handle(disk) }?.disk.size()? as i64))
}

#[repr(C)]
pub struct RawPartition {
    size: usize,
    number: u32,
    read_only: u32,
    start: u64,
    length: u64,
    device: [c_char; 64],
    name: [c_char; 128],
}

// SAFETY: integers.
unsafe impl Sized_ for RawPartition {}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_partitions(
    disk: *const TaneDisk,
    partitions: *mut RawPartition,
    count: usize,
) -> i32 {
    answer(|| {
        // SAFETY: as tane.h says.
        let found = unsafe { handle(disk) }?.disk.partitions()?;
        if count > 0 {
            pass::check(partitions)?;
        }
        // An array's stride is the size its maker knows.
        let stride = match count {
            0 => 0,
            // SAFETY: checked above, if anything is written.
            _ => unsafe { (*partitions).size },
        };
        for (i, partition) in found.iter().take(count).enumerate() {
            let raw = RawPartition {
                size: 0,
                number: partition.number,
                read_only: partition.read_only.into(),
                start: partition.start,
                length: partition.size,
                device: array(&partition.device().to_string_lossy()),
                name: array(partition.name.as_deref().unwrap_or_default()),
            };
            let to = partitions.wrapping_byte_add(i * stride);
            // SAFETY: an element of the caller's array.
            unsafe { pass::write(to, &raw) }?;
        }
        Ok(found.len() as i32)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_disk_close(disk: *mut TaneDisk) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(disk) });
        Ok(0)
    });
}

#[repr(C)]
pub struct RawFilesystem {
    size: usize,
    fstype: [c_char; 32],
    label: [c_char; 256],
    uuid: [c_char; 64],
}

// SAFETY: integers.
unsafe impl Sized_ for RawFilesystem {}

#[no_mangle]
pub unsafe extern "C" fn tane_probe(
    kernel: *mut TaneKernel,
    device: *const c_char,
    filesystem: *mut RawFilesystem,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        pass::check(filesystem)?;
        let Some(found) = handle(kernel)?.local()?.probe(path(device)?)? else {
            return Ok(0);
        };
        let raw = RawFilesystem {
            size: 0,
            fstype: array(&found.fstype),
            label: array(found.label.as_deref().unwrap_or_default()),
            uuid: array(found.uuid.as_deref().unwrap_or_default()),
        };
        pass::write(filesystem, &raw)?;
        Ok(1)
    })
}
