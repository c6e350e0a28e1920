//! tane_image_*: images as the command opens them.

use crate::error::{answer, answer64, Failure, Result};
use crate::kernel::TaneKernel;
use crate::mount::{self, RawMountOptions, Side, TaneMount};
use crate::pass::{self, give, handle, path, read_or_zero, take, text, Argument, Sized_};
use crate::worker::{self, RawWorkerOptions};
use std::ffi::{c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::{Address, HostFiles, Image, ImageHooks, ImageOptions, ImagePath, Kernel, Selector};
use tane_worker::{ImageCalls, VolumeRecord};

pub enum TaneImage {
    Local(Image),
    /// In a worker, which the image has for itself.
    Remote(tane_worker::Image),
}

#[repr(C)]
pub struct RawSecret {
    data: *const c_void,
    len: usize,
}

#[repr(C)]
pub struct RawImageOptions {
    size: usize,
    flags: u32,
    sector_size: u32,
    format: *const c_char,
    overlay: *const c_char,
    trust: *const *const c_char,
    with: *const *const c_char,
    secrets: *const RawSecret,
    secret_count: usize,
    notice: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    notice_arg: *mut c_void,
    worker: *const RawWorkerOptions,
    lower: *const *const c_char,
    verity: *const c_char,
}

// SAFETY: integers, pointers and an optional function.
unsafe impl Sized_ for RawImageOptions {}

const WRITE: u32 = 1;

/// How the image is opened: all that [`ImageOptions`] has, or this does not compile.
///
/// # Safety
/// As tane.h says.
unsafe fn options(raw: &RawImageOptions) -> Result<ImageOptions> {
    let invalid = |e: String| Failure::new(libc::EINVAL, e);
    // SAFETY: as tane.h says.
    unsafe {
        let own = |list| -> Result<Vec<PathBuf>> {
            Ok(paths(list)?.into_iter().map(Path::to_owned).collect())
        };
        let secret = |at| -> Result<Vec<u8>> {
            let secret = handle(raw.secrets.add(at))?;
            let data = handle(secret.data.cast::<u8>())?;
            Ok(std::slice::from_raw_parts(data, secret.len).to_vec())
        };
        let overlay = (!raw.overlay.is_null()).then(|| path(raw.overlay));
        let parse = |text: String| text.parse().map_err(invalid);
        let verity = |text: String| text.parse().map_err(invalid);
        Ok(ImageOptions {
            write: raw.flags & WRITE != 0,
            format: text(raw.format)?.map(parse).transpose()?,
            overlay: overlay.transpose()?.map(Path::to_owned),
            trust: own(raw.trust)?,
            with: own(raw.with)?,
            lower: paths(raw.lower)?
                .into_iter()
                .map(tane::layer_of)
                .collect::<tane::Result<_>>()?,
            secrets: (0..raw.secret_count).map(secret).collect::<Result<_>>()?,
            verity: text(raw.verity)?.map(verity).transpose()?,
            sector_size: (raw.sector_size != 0).then_some(raw.sector_size),
        })
    }
}

type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Whom the image tells what takes long or room.
fn notice(raw: &RawImageOptions) -> Option<Tell> {
    let notice = raw.notice?;
    let argument = Argument(raw.notice_arg);
    Some(Box::new(move |text| {
        let argument = &argument;
        // SAFETY: the caller's function, with its argument.
        unsafe { notice(argument.0, text.as_ptr().cast(), text.len()) }
    }))
}

/// Paths up to a NULL.
///
/// # Safety
/// As tane.h says.
pub unsafe fn paths<'a>(mut list: *const *const c_char) -> Result<Vec<&'a Path>> {
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
unsafe fn local(kernel: &TaneKernel, name: &Path, raw: &RawImageOptions) -> Result<TaneImage> {
    if !raw.worker.is_null() {
        let text = "a kernel in this process and a worker exclude each other";
        return Err(Failure::new(libc::EINVAL, text));
    }
    let kernel = kernel.local()?;
    // SAFETY: as tane.h says.
    let options = unsafe { options(raw) }?;
    let mut hooks = ImageHooks::new();
    if let Some(notice) = notice(raw) {
        hooks.notice(notice);
    }
    let opened = options.open_files(&ImagePath::of_image(name)?, &hooks)?;
    // What it lies in is served by others.
    let booted = opened.boot(|what| match what.is_outer {
        true => Kernel::boot(),
        false => Ok(kernel.clone()),
    })?;
    Ok(TaneImage::Local(booted.attach()?))
}

/// # Safety
/// As tane.h says.
unsafe fn remote(name: &Path, raw: &RawImageOptions) -> Result<TaneImage> {
    // SAFETY: as tane.h says.
    let mut how = unsafe { worker::options(raw.worker) }?;
    // SAFETY: the same.
    how.image(unsafe { options(raw) }?);
    if let Some(notice) = notice(raw) {
        how.notice(notice);
    }
    Ok(TaneImage::Remote(how.open(name)?))
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
        let (name, raw) = (path(name)?, read_or_zero(raw)?);
        give(image, || match kernel.as_ref() {
            Some(kernel) => local(kernel, name, &raw),
            None => remote(name, &raw),
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_image_kernel(
    image: *mut TaneImage,
    kernel: *mut *mut TaneKernel,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let image = handle(image)?;
        give(kernel, || {
            Ok(match image {
                TaneImage::Local(image) => TaneKernel::Local(image.kernel().clone()),
                TaneImage::Remote(image) => TaneKernel::Remote(image.clone()),
            })
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_image_worker(image: *const TaneImage) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| match unsafe { handle(image) }? {
        TaneImage::Local(_) => Ok(0),
        TaneImage::Remote(image) => Ok(image.pid() as i32),
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
        let how = mount::options(raw)?;
        give(mount, || match image {
            TaneImage::Local(image) => {
                let selector = selector.as_deref().map(Selector::parse).transpose()?;
                let mount = image.mount(selector.as_ref(), &how.options())?;
                Ok(TaneMount::local(mount))
            }
            TaneImage::Remote(image) => {
                let mount = image.mount(selector.as_deref(), &how)?;
                Ok(TaneMount::remote(mount))
            }
        })
    })
}

// SAFETY: integers.
unsafe impl Sized_ for VolumeRecord {}

#[no_mangle]
pub unsafe extern "C" fn tane_image_volumes(
    image: *mut TaneImage,
    to: *mut VolumeRecord,
    count: usize,
) -> i32 {
    answer(|| {
        // SAFETY: as tane.h says.
        let volumes = match unsafe { handle(image) }? {
            TaneImage::Local(image) => ImageCalls::volumes(image),
            TaneImage::Remote(image) => image.volumes(),
        }?;
        for (at, found) in volumes.0.iter().enumerate().take(count) {
            // SAFETY: the caller's array of `count` structures.
            unsafe { pass::write(to.wrapping_add(at), found) }?;
        }
        Ok(volumes.0.len() as i32)
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
        let mount = handle(mount)?;
        if count == 0 {
            return Ok(0);
        }
        handle(names)?;
        handle(lengths)?;
        handle(buf.cast::<u8>())?;
        let room = std::slice::from_raw_parts_mut(buf.cast::<u8>(), len);
        let name = |at| (at < count).then(|| pass::bytes(*names.add(at)));
        let each = |at: usize, fared: std::result::Result<usize, i32>| {
            *lengths.add(at) = fared.map_or_else(|errno| -i64::from(errno), |n| n as i64);
        };
        let mount = match mount.side() {
            Side::Local(mount) => mount,
            Side::Remote(mount) => return Ok(mount.read_files(name, room, each)? as i64),
        };
        let mut bad = None;
        let paths = (0..).map_while(|at| name(at)?.map_err(|e| bad = Some(e)).ok());
        let fared = mount.read_files(paths, room);
        if let Some(failure) = bad {
            return Err(failure);
        }
        for (at, one) in fared.iter().enumerate() {
            each(at, one.as_ref().map(|n| *n).map_err(tane::Error::errno));
        }
        Ok(fared.len() as i64)
    })
}
