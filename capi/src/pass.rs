//! Pointers, strings and sized structures from and to C.

use crate::error::{Failure, Result};
use std::ffi::{c_char, c_void, CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn null() -> Failure {
    Failure::new(libc::EFAULT, "a needed pointer is NULL")
}

/// A structure whose first field is its size.
///
/// # Safety
/// `repr(C)`, starts with a usize, and any bytes the caller can write are valid
/// for it, zeroes included.
pub unsafe trait Sized_ {}

/// # Safety
/// NULL, or a live object.
pub unsafe fn handle<'a, T>(at: *const T) -> Result<&'a T> {
    // SAFETY: the caller's word.
    unsafe { at.as_ref() }.ok_or_else(null)
}

/// Hand an object to the caller.
///
/// # Safety
/// `to` is NULL or may be written.
pub unsafe fn give<T>(to: *mut *mut T, value: impl FnOnce() -> Result<T>) -> Result<i32> {
    if to.is_null() {
        return Err(null());
    }
    let value = Box::into_raw(Box::new(value()?));
    // SAFETY: the caller's word.
    unsafe { *to = value };
    Ok(0)
}

/// Take an object back; NULL is nothing.
///
/// # Safety
/// From [`give`], and not used any more.
pub unsafe fn take<T>(at: *mut T) -> Option<T> {
    // SAFETY: the caller's word.
    (!at.is_null()).then(|| unsafe { *Box::from_raw(at) })
}

/// # Safety
/// NULL, or a C string that stays as it is.
pub unsafe fn bytes<'a>(at: *const c_char) -> Result<&'a OsStr> {
    if at.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's word.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(at) }.to_bytes()))
}

/// # Safety
/// Like [`bytes`].
pub unsafe fn path<'a>(at: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller's word.
    unsafe { bytes(at) }.map(Path::new)
}

/// A string that may be NULL.
///
/// # Safety
/// Like [`bytes`].
pub unsafe fn text(at: *const c_char) -> Result<Option<String>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's word.
    let text = unsafe { bytes(at) }?.to_str();
    let bad = || Failure::new(libc::EINVAL, "a string is not UTF-8");
    text.map(|text| Some(text.to_owned())).ok_or_else(bad)
}

fn size_of_sized<T: Sized_>(at: *const T) -> Result<usize> {
    if at.is_null() {
        return Err(null());
    }
    // SAFETY: a Sized_ starts with its size.
    let size = unsafe { at.cast::<usize>().read() };
    if (size_of::<usize>()..=size_of::<T>()).contains(&size) {
        Ok(size)
    } else {
        let text = "the size of a structure is not one that this library knows";
        Err(Failure::new(libc::EINVAL, text))
    }
}

/// Read a structure; what the caller's version does not have is zero.
///
/// # Safety
/// NULL, or as long as it says.
pub unsafe fn read<T: Sized_>(at: *const T) -> Result<T> {
    let size = size_of_sized(at)?;
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: at most the size of T; zeroes are a valid T.
    unsafe {
        let to = value.as_mut_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(at.cast(), size);
        Ok(value.assume_init())
    }
}

/// Like [`read`], where NULL means all defaults.
///
/// # Safety
/// Like [`read`].
pub unsafe fn read_or_zero<T: Sized_>(at: *const T) -> Result<T> {
    if at.is_null() {
        // SAFETY: zeroes are a valid T.
        return Ok(unsafe { MaybeUninit::zeroed().assume_init() });
    }
    // SAFETY: the caller's word.
    unsafe { read(at) }
}

/// Write what the caller's version of a structure has of `value`; its size
/// stays.
///
/// # Safety
/// NULL, or as long as it says and writable.
pub unsafe fn write<T: Sized_>(to: *mut T, value: &T) -> Result<()> {
    let head = size_of::<usize>();
    let size = size_of_sized(to)?;
    let from = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: at most the size of T.
    unsafe {
        to.cast::<u8>()
            .add(head)
            .copy_from_nonoverlapping(from.add(head), size - head);
    }
    Ok(())
}

/// Check an output structure before doing the work.
pub fn check<T: Sized_>(to: *mut T) -> Result<()> {
    size_of_sized(to).map(drop)
}

/// Copy text like snprintf does: cut off, always with a NUL if there is room for
/// anything. Returns the whole length.
///
/// # Safety
/// `len` bytes may be written at `to`, which may be NULL if `len` is 0.
pub unsafe fn copy_text(text: &[u8], to: *mut c_char, len: usize) -> Result<i64> {
    if len > 0 {
        if to.is_null() {
            return Err(null());
        }
        let n = text.len().min(len - 1);
        // SAFETY: the caller's word.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), n);
            *to.add(n) = 0;
        }
    }
    Ok(text.len() as i64)
}

/// Text in an array of a structure, cut off at a character's end.
pub fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(text[..end].bytes()) {
        *to = from as c_char;
    }
    array
}

/// A path as C wants it.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The caller's argument, which it wants to have back on any thread.
pub struct Argument(pub *mut c_void);

// SAFETY: never looked at here.
unsafe impl Send for Argument {}
// SAFETY: the same.
unsafe impl Sync for Argument {}
