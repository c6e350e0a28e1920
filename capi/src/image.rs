//! tane_image_*: images as the command opens them.

use crate::error::{answer, answer64, Failure, Result};
use crate::kernel::TaneKernel;
use crate::mount::{self, RawMountOptions, TaneMount};
use crate::pass::{self, array, give, handle, path, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, c_void, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::{Address, HostFiles, Image, ImageOptions, ImagePath, Selector, Volume, VolumeKind};

pub struct TaneImage(Image);

#[repr(C)]
pub struct RawSecret {
    data: *const c_void,
    len: usize,
}

#[repr(C)]
pub struct RawImageOptions {
    size: usize,
    flags: u32,
    reserved: u32,
    format: *const c_char,
    overlay: *const c_char,
    trust: *const *const c_char,
    with: *const *const c_char,
    secrets: *const RawSecret,
    secret_count: usize,
    notice: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    notice_arg: *mut c_void,
}

// SAFETY: integers, pointers and an optional function.
unsafe impl Sized_ for RawImageOptions {}

const WRITE: u32 = 1;

/// The caller's argument, which it wants to have back on any thread.
struct Argument(*mut c_void);

// SAFETY: never looked at here.
unsafe impl Send for Argument {}
unsafe impl Sync for Argument {}

/// Paths up to a NULL.
///
/// # Safety
/// As tane.h says.
unsafe fn paths<'a>(mut list: *const *const c_char) -> Result<Vec<&'a Path>> {
    let mut paths = Vec::new();
    // SAFETY: the caller's list, which ends with a NULL.
    unsafe {
        while !list.is_null() && !(*list).is_null() {
            paths.push(path(*list)?);
            list = list.add(1);
        }
    }
    Ok(paths)
}

/// # Safety
/// As tane.h says.
unsafe fn options(raw: &RawImageOptions) -> Result<ImageOptions> {
    let mut options = ImageOptions::new();
    options.write(raw.flags & WRITE != 0);
    // SAFETY: as tane.h says.
    unsafe {
        if let Some(format) = text(raw.format)? {
            let format = format.parse();
            options.format(format.map_err(|e: String| Failure::new(libc::EINVAL, &e))?);
        }
        if !raw.overlay.is_null() {
            options.overlay(path(raw.overlay)?);
        }
        for place in paths(raw.trust)? {
            options.trust(place);
        }
        for image in paths(raw.with)? {
            options.with(image);
        }
        for at in 0..raw.secret_count {
            let secret = handle(raw.secrets.add(at))?;
            let data = handle(secret.data.cast::<u8>())?;
            options.secret(std::slice::from_raw_parts(data, secret.len));
        }
    }
    if let Some(notice) = raw.notice {
        let argument = Argument(raw.notice_arg);
        options.notice(move |text| {
            let argument = &argument;
            // SAFETY: the caller's function, with its argument.
            unsafe { notice(argument.0, text.as_ptr().cast(), text.len()) }
        });
    }
    Ok(options)
}

#[no_mangle]
pub unsafe extern "C" fn tane_image_open(
    kernel: *mut TaneKernel,
    name: *const c_char,
    raw: *const RawImageOptions,
    image: *mut *mut TaneImage,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (kernel, name, raw) = (handle(kernel)?, path(name)?, read_or_zero(raw)?);
        let options = options(&raw)?;
        give(image, || {
            Ok(TaneImage(options.open(name, || Ok(kernel.0.clone()))?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_image_close(image: *mut TaneImage) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(image) });
        Ok(0)
    });
}

#[no_mangle]
pub unsafe extern "C" fn tane_image_mount(
    image: *mut TaneImage,
    selector: *const c_char,
    raw: *const RawMountOptions,
    mount: *mut *mut TaneMount,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (image, selector) = (handle(image)?, text(selector)?);
        let selector = selector.as_deref().map(Selector::parse).transpose()?;
        let options = mount::options(raw)?;
        give(mount, || {
            Ok(TaneMount::new(image.0.mount(selector.as_ref(), &options)?))
        })
    })
}

#[repr(C)]
pub struct RawVolume {
    size: usize,
    kind: u32,
    flags: u32,
    partition: u32,
    reserved: u32,
    start: u64,
    length: u64,
    selector: [c_char; 320],
    fstype: [c_char; 32],
    label: [c_char; 256],
    uuid: [c_char; 64],
    name: [c_char; 320],
    note: [c_char; 256],
}

// SAFETY: integers.
unsafe impl Sized_ for RawVolume {}

const MOUNTABLE: u32 = 1;
const LOCKED: u32 = 2;

fn volume(volume: &Volume, selector: Option<&str>) -> RawVolume {
    let (kind, partition) = match volume.kind {
        VolumeKind::Disk => (0, 0),
        VolumeKind::Partition(number) => (1, number),
        VolumeKind::Luks => (2, 0),
        VolumeKind::Logical { .. } => (3, 0),
        VolumeKind::Raid => (4, 0),
        VolumeKind::Verity => (5, 0),
    };
    let found = volume.found.as_ref();
    let label = found.and_then(|f| f.label.as_deref());
    let uuid = found.and_then(|f| f.uuid.as_deref());
    let flag = |is: bool, bit: u32| if is { bit } else { 0 };
    RawVolume {
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

#[no_mangle]
pub unsafe extern "C" fn tane_image_volumes(
    image: *mut TaneImage,
    to: *mut RawVolume,
    count: usize,
) -> i32 {
    answer(|| {
        // SAFETY: as tane.h says.
        let volumes = unsafe { handle(image) }?.0.volumes()?;
        for (at, found) in volumes.list().iter().enumerate().take(count) {
            let raw = volume(found, volumes.selector(found).as_deref());
            // SAFETY: the caller's array of `count` structures.
            unsafe { pass::write(to.wrapping_add(at), &raw) }?;
        }
        Ok(volumes.list().len() as i32)
    })
}

#[repr(C)]
pub struct RawAddress {
    size: usize,
    image_len: usize,
    selector: usize,
    selector_len: usize,
    path: usize,
}

// SAFETY: integers.
unsafe impl Sized_ for RawAddress {}

const IMAGES_ONLY: u32 = 1;

/// Where the parts of an address are in its text.
fn parts(text: &[u8], at: &ImagePath) -> RawAddress {
    let image_len = at.image.as_os_str().len();
    // `IMAGE` alone means `IMAGE:/`, which its text does not end with.
    let has_path = text[image_len..].len() > at.path.len() && text.ends_with(&at.path);
    let path = match has_path {
        true => text.len() - at.path.len(),
        false => text.len(),
    };
    let mut raw = RawAddress {
        size: 0,
        image_len,
        selector: path,
        selector_len: 0,
        path,
    };
    if at.selector.is_some() {
        raw.selector = image_len + 1;
        raw.selector_len = path - usize::from(has_path) - raw.selector;
    }
    raw
}

#[no_mangle]
pub unsafe extern "C" fn tane_address(
    argument: *const c_char,
    flags: u32,
    address: *mut RawAddress,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let argument = pass::bytes(argument)?;
        let files = HostFiles::default();
        let found = match flags & IMAGES_ONLY {
            0 => Address::parse(argument, &files)?,
            _ => Address::Image(Address::parse_image(argument, &files)?),
        };
        match found {
            Address::Host(_) => Ok(0),
            Address::Image(at) => {
                pass::write(address, &parts(argument.as_bytes(), &at))?;
                Ok(1)
            }
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_read_files(
    mount: *mut TaneMount,
    names: *const *const c_char,
    count: usize,
    buf: *mut c_void,
    len: usize,
    lengths: *mut i64,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let tree = &handle(mount)?.mount;
        if count == 0 {
            return Ok(0);
        }
        handle(names)?;
        handle(lengths)?;
        handle(buf.cast::<u8>())?;
        let mut free = std::slice::from_raw_parts_mut(buf.cast::<u8>(), len);
        for at in 0..count {
            let name = pass::bytes(*names.add(at))?;
            match read_file(tree, name, free) {
                Ok(Some(n)) => {
                    *lengths.add(at) = n as i64;
                    free = &mut free[n..];
                }
                Ok(None) => return Ok(at as i64),
                Err(errno) => *lengths.add(at) = -i64::from(errno),
            }
        }
        Ok(count as i64)
    })
}

/// None: it is longer than `to`, or may be.
fn read_file(
    tree: &tane::Tree,
    name: &OsStr,
    to: &mut [u8],
) -> std::result::Result<Option<usize>, i32> {
    let mut options = tane::OpenOptions::new();
    // A FIFO must not keep the others waiting.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(tree, name).map_err(|e| e.errno())?;
    let mut done = 0;
    while done < to.len() {
        match file.read_at(&mut to[done..], done as u64) {
            Ok(0) => return Ok(Some(done)),
            Ok(n) => done += n,
            Err(e) => return Err(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
    Ok(None)
}
