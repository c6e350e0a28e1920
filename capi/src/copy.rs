//! tane_copy_out, tane_copy_in, tane_copy_across: files and trees with all that belongs
//! to them.

use crate::error::{done, Failure, Result};
use crate::mount::{Side, TaneMount};
use crate::pass::{self, bytes, handle, read_or_zero, Sized_};
use std::ffi::{c_char, c_void, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use tane_copy::{tree, End, Owner, Settings, SparseMode, Tally};
use tane_linux::Errno;

const STRICT: u32 = 1;
const NO_CLOBBER: u32 = 2;
const DEVICES: u32 = 4;

pub type Told = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, i32);

#[repr(C)]
pub struct RawCopyOptions {
    size: usize,
    flags: u32,
    reserved: u32,
    progress: Option<unsafe extern "C" fn(*mut c_void, u64, u64, u64, u64) -> i32>,
    loss: Option<Told>,
    failure: Option<Told>,
    arg: *mut c_void,
}

// SAFETY: integers, pointers and optional functions.
unsafe impl Sized_ for RawCopyOptions {}

#[repr(C)]
#[derive(Default)]
pub struct RawCopied {
    size: usize,
    files: u64,
    directories: u64,
    links: u64,
    others: u64,
    bytes: u64,
    by_host: u64,
    skipped: u64,
    losses: u64,
    failures: u64,
    stopped: i32,
    reserved: u32,
}

// SAFETY: integers.
unsafe impl Sized_ for RawCopied {}

/// The caller's word that any thread may call its functions with this.
#[derive(Clone, Copy)]
pub struct Arg(pub *mut c_void);

// SAFETY: as tane.h says.
unsafe impl Send for Arg {}
// SAFETY: the same.
unsafe impl Sync for Arg {}

impl Arg {
    pub fn get(self) -> *mut c_void {
        self.0
    }
}

fn end(mount: &TaneMount) -> Result<End<'_>> {
    let end = match mount.side() {
        Side::Local(mount) => End::mount(mount.kernel(), mount.root_fd(), mount.host_blocks()),
        Side::Remote(mount) => End::mount(mount, mount.root_fd(), None),
    };
    end.map_err(|e| Failure::of_errno(e.0, "open the root"))
}

/// A string of C's without the NULs that a name cannot have.
fn text(bytes: &[u8]) -> CString {
    let bytes: Vec<u8> = bytes.iter().copied().filter(|b| *b != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The path below what is copied, which is called `name` there.
fn below<'p>(path: &'p [u8], name: &[u8]) -> &'p [u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    match path.strip_prefix(name) {
        Some([]) => b"",
        Some([b'/', rest @ ..]) => rest,
        _ => path,
    }
}

/// # Safety
/// As tane.h says.
unsafe fn copy(
    (from, source): (&End, *const c_char),
    (to, target): (&End, *const c_char),
    raw: *const RawCopyOptions,
    copied: *mut RawCopied,
) -> Result<()> {
    // SAFETY: as tane.h says.
    let (source, target, raw) = unsafe { (bytes(source)?, bytes(target)?, read_or_zero(raw)?) };
    if !copied.is_null() {
        pass::check(copied)?;
    }
    let name = tane_linux::base_name(target.as_bytes()).unwrap_or_default();
    let settings = Settings {
        owner: Owner::Keep,
        sparse: SparseMode::Auto,
        no_clobber: raw.flags & NO_CLOBBER != 0,
        devices: raw.flags & DEVICES != 0,
        duplicates: false,
        empty: false,
        // That of the calling process stays as it is.
        no_umask: false,
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
    let tally = Tally::telling(tell).strict(raw.flags & STRICT != 0);
    let mut begin = |files, bytes| {
        *totals.lock().unwrap_or_else(|e| e.into_inner()) = (files, bytes);
        tally.tell();
    };
    let begin: Option<&mut dyn FnMut(u64, u64)> = match progress {
        Some(_) => Some(&mut begin),
        None => None,
    };
    let (source, target) = (source.as_bytes(), target.as_bytes());
    let outcome = tree((from, source), (to, target), settings, &tally, begin);
    let (counts, losses, failures) = (tally.counts(), tally.losses(), tally.failures());
    if !copied.is_null() {
        let value = RawCopied {
            files: counts.files,
            directories: counts.directories,
            links: counts.links,
            others: counts.others,
            bytes: counts.bytes,
            by_host: counts.by_host,
            skipped: counts.skipped,
            losses: losses.len() as u64,
            failures: failures.len() as u64,
            stopped: tally.stop_reason().map_or(0, |e| e.0),
            ..RawCopied::default()
        };
        // SAFETY: as tane.h says.
        unsafe { pass::write(copied, &value)? };
    }
    let tell = |to: Option<Told>, path: &[u8], what: &str, error: i32| {
        if let Some(to) = to {
            let (path, what) = (text(below(path, name)), text(what.as_bytes()));
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
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let cancelled = Errno(libc::ECANCELED);
    if tally.is_cancelled() && outcome == Err(cancelled) {
        return Err(Failure::new(cancelled.0, "the copy was stopped"));
    }
    outcome.map_err(|e| Failure::of_errno(e.0, &format!("copy {}", shown(source))))?;
    if let Some(first) = failures.first() {
        let more = match failures.len() {
            1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        let text = format!("not copied: {}: {}{more}", shown(&first.path), first.why);
        return Err(Failure::new(first.error.map_or(libc::EIO, |e| e.0), text));
    }
    match losses.first().filter(|_| raw.flags & STRICT != 0) {
        Some(lost) => {
            let (path, what) = (shown(&lost.path), lost.what());
            let text = format!("{path}: {what} not kept: {}", lost.error);
            Err(Failure::new(lost.error.0, text))
        }
        None => Ok(()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_copy_out(
    mount: *mut TaneMount,
    source: *const c_char,
    to: *const c_char,
    options: *const RawCopyOptions,
    copied: *mut RawCopied,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let from = end(handle(mount)?)?;
        copy((&from, source), (&End::host(), to), options, copied)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_copy_in(
    mount: *mut TaneMount,
    source: *const c_char,
    to: *const c_char,
    options: *const RawCopyOptions,
    copied: *mut RawCopied,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let into = end(handle(mount)?)?;
        copy((&End::host(), source), (&into, to), options, copied)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_copy_across(
    from: *mut TaneMount,
    source: *const c_char,
    mount: *mut TaneMount,
    to: *const c_char,
    options: *const RawCopyOptions,
    copied: *mut RawCopied,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let (first, second) = (end(handle(from)?)?, end(handle(mount)?)?);
        copy((&first, source), (&second, to), options, copied)
    })
}
