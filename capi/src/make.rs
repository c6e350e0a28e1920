//! tane_make_image: an image of a directory's or archive's files.

use crate::copy::{Arg, Told};
use crate::error::{done, Failure, Result};
use crate::image::paths;
use crate::pass::{self, path, read_or_zero, text, Sized_};
use std::ffi::{c_char, c_void, CString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tane::images::Format;
use tane_copy::{Owner, Tally};
use tane_make::table::Table;
use tane_make::{Direct, Error, Spec, Terms};

const STRICT: u32 = 1;
const FORCE: u32 = 2;
const ALL_TIMES: u32 = 4;
const EPOCH: u32 = 8;
/// Between two calls of the progress function while there is no progress to tell.
const PAUSE: Duration = Duration::from_millis(50);
/// Room for a UUID and a NUL.
const UUID: usize = 40;

#[repr(C)]
pub struct RawMakeOptions {
    size: usize,
    flags: u32,
    sector_size: u32,
    fs: *const c_char,
    image_size: u64,
    epoch: u64,
    label: *const c_char,
    uuid: *const c_char,
    partition_table: *const c_char,
    format: *const c_char,
    compression: *const c_char,
    owner: *const c_char,
    reference: *const c_char,
    options: *const c_char,
    layers: *const *const c_char,
    metadata: *const *const c_char,
    xattrs: *const *const c_char,
    selinux: *const *const c_char,
    progress: Option<unsafe extern "C" fn(*mut c_void, u64, u64, u64, u64) -> i32>,
    loss: Option<Told>,
    failure: Option<Told>,
    arg: *mut c_void,
}

// SAFETY: integers, pointers and optional functions.
unsafe impl Sized_ for RawMakeOptions {}

#[repr(C)]
pub struct RawMade {
    size: usize,
    image_size: u64,
    epoch: u64,
    files: u64,
    bytes: u64,
    losses: u64,
    failures: u64,
    uuid: [u8; UUID],
}

// SAFETY: integers.
unsafe impl Sized_ for RawMade {}

fn failed(e: &Error) -> Failure {
    Failure::new(e.errno(), e.to_string())
}

fn invalid(e: String) -> Failure {
    Failure::new(libc::EINVAL, e)
}

/// # Safety
/// As tane.h says.
unsafe fn spec(source: &Path, image: &Path, raw: &RawMakeOptions) -> Result<Spec> {
    let table = |name: String| match &*name {
        "gpt" => Ok(Table::Gpt),
        "mbr" => Ok(Table::Mbr),
        other => Err(invalid(format!(
            "no partition table is called {other:?}: there are gpt and mbr"
        ))),
    };
    let owner = |name: String| name.parse().map_err(invalid);
    // SAFETY: as tane.h says.
    unsafe {
        let own = |list| -> Result<Vec<PathBuf>> {
            Ok(paths(list)?.into_iter().map(Path::to_owned).collect())
        };
        Ok(Spec {
            layer: own(raw.layers)?,
            reference: text(raw.reference)?,
            size: (raw.image_size != 0).then_some(raw.image_size),
            label: text(raw.label)?,
            uuid: text(raw.uuid)?,
            partition_table: text(raw.partition_table)?.map(table).transpose()?,
            compression: text(raw.compression)?,
            owner: text(raw.owner)?.map_or(Ok(Owner::Keep), owner)?,
            metadata: own(raw.metadata)?,
            xattrs: own(raw.xattrs)?,
            selinux: own(raw.selinux)?,
            epoch: (raw.flags & EPOCH != 0).then_some(raw.epoch),
            all_times: raw.flags & ALL_TIMES != 0,
            sector_size: (raw.sector_size != 0).then_some(raw.sector_size),
            options: text(raw.options)?,
            ..Spec::new(source, image)
        })
    }
}

/// # Safety
/// As tane.h says.
unsafe fn make(
    source: *const c_char,
    image: *const c_char,
    raw: *const RawMakeOptions,
    made: *mut RawMade,
) -> Result<()> {
    // SAFETY: as tane.h says.
    let (source, image, raw) = unsafe { (path(source)?, path(image)?, read_or_zero(raw)?) };
    // To the engine that is an image without files.
    if source.as_os_str().is_empty() {
        return Err(Failure::new(libc::ENOENT, "source: is an empty name"));
    }
    if !made.is_null() {
        pass::check(made)?;
    }
    // SAFETY: the same.
    let (spec, kind, format) = unsafe {
        let parse = |text: String| text.parse::<Format>().map_err(invalid);
        (
            spec(source, image, &raw)?,
            text(raw.fs)?,
            text(raw.format)?.map(parse).transpose()?,
        )
    };
    let terms = Terms {
        force: raw.flags & FORCE != 0,
        strict: raw.flags & STRICT != 0,
        format,
    };
    let (arg, progress) = (Arg(raw.arg), raw.progress);
    let totals = Mutex::new((0, 0));
    let tell = |files, bytes| {
        let Some(progress) = progress else {
            return true;
        };
        let (all, total) = *totals.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: as tane.h says: from any thread.
        0 == unsafe { progress(arg.get(), files, bytes, all, total) }
    };
    let tally = Tally::telling(tell).strict(terms.strict);
    let begin = |files, bytes| {
        *totals.lock().unwrap_or_else(|e| e.into_inner()) = (files, bytes);
        tally.tell();
    };
    // Nothing is copied while files are looked for, and while programs run.
    let last = Mutex::new(None::<Instant>);
    let means = Direct::stopping(|| {
        let mut last = last.lock().unwrap_or_else(|e| e.into_inner());
        if last.is_none_or(|last| last.elapsed() >= PAUSE) {
            *last = Some(Instant::now());
            drop(last);
            tally.tell();
        }
        tally.is_cancelled()
    });
    let kind = kind.as_deref();
    let outcome = tane_make::image(&spec, kind, terms, &tally, &means, begin);
    let (counts, losses, failures) = (tally.counts(), tally.losses(), tally.failures());
    let string = |bytes: &[u8]| {
        let bytes: Vec<u8> = bytes.iter().copied().filter(|b| *b != 0).collect();
        CString::new(bytes).unwrap_or_default()
    };
    let tell = |to: Option<Told>, path: &[u8], what: &str, error: i32| {
        if let Some(to) = to {
            let path = path.strip_prefix(b"/").unwrap_or(path);
            let (path, what) = (string(path), string(what.as_bytes()));
            // SAFETY: as tane.h says; both strings live until it returns.
            unsafe { to(arg.get(), path.as_ptr(), what.as_ptr(), error) };
        }
    };
    for lost in &losses {
        tell(raw.loss, &lost.path, &lost.what(), lost.error.0);
    }
    for failure in &failures {
        let error = failure.error.map_or(libc::EIO, |e| e.0);
        tell(raw.failure, &failure.path, &failure.why, error);
    }
    let outcome = outcome.map_err(|e| match tally.is_cancelled() {
        true => Failure::new(libc::ECANCELED, "the image was not made: it was stopped"),
        false => failed(&e),
    });
    if !made.is_null() {
        let mut value = RawMade {
            files: counts.files,
            bytes: counts.bytes,
            losses: losses.len() as u64,
            failures: failures.len() as u64,
            size: 0,
            image_size: 0,
            epoch: 0,
            uuid: [0; UUID],
        };
        if let Ok(image) = &outcome {
            (value.image_size, value.epoch) = (image.size, image.time);
            for (to, from) in value.uuid[..UUID - 1].iter_mut().zip(image.uuid.bytes()) {
                *to = from;
            }
        }
        // SAFETY: as tane.h says.
        unsafe { pass::write(made, &value)? };
    }
    outcome.map(drop)
}

#[no_mangle]
pub unsafe extern "C" fn tane_make_image(
    source: *const c_char,
    image: *const c_char,
    options: *const RawMakeOptions,
    made: *mut RawMade,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { make(source, image, options, made) })
}
