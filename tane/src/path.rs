//! Names and paths: bytes without NUL, handed to the kernel as C strings.

use crate::error::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

/// Shorter paths need no allocation.
const ON_STACK: usize = 384;

/// Call `f` with the bytes as a C string. A NUL inside is EINVAL.
#[inline]
pub(crate) fn with_cstr<T>(
    bytes: &[u8],
    f: impl FnOnce(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    if bytes.len() >= ON_STACK {
        return with_long_cstr(bytes, f);
    }
    let mut buffer = MaybeUninit::<[u8; ON_STACK]>::uninit();
    let start = buffer.as_mut_ptr().cast::<u8>();
    // SAFETY: bytes and the NUL fit, and that much of the buffer is then set.
    let written = unsafe {
        start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        start.add(bytes.len()).write(0);
        std::slice::from_raw_parts(start, bytes.len() + 1)
    };
    match CStr::from_bytes_with_nul(written) {
        Ok(string) => f(string),
        Err(_) => Err(Errno(libc::EINVAL)),
    }
}

#[cold]
fn with_long_cstr<T>(bytes: &[u8], f: impl FnOnce(&CStr) -> Result<T, Errno>) -> Result<T, Errno> {
    match CString::new(bytes) {
        Ok(string) => f(&string),
        Err(_) => Err(Errno(libc::EINVAL)),
    }
}

/// Like [`with_cstr`], for the name of a directory's entry: one component, and
/// neither "." nor "..", which are not entries to act upon.
#[inline]
pub(crate) fn with_name<T>(
    name: &OsStr,
    f: impl FnOnce(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let bytes = name.as_bytes();
    if !is_name(bytes) {
        return Err(Errno(libc::EINVAL));
    }
    with_cstr(bytes, f)
}

fn is_name(bytes: &[u8]) -> bool {
    !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&b'/')
}

/// The directory part of a path and its last component, which the caller means
/// itself and not what it may link to. None for a path that ends in the root,
/// in "." or in "..".
pub(crate) fn split(path: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&b| b != b'/')? + 1;
    let bytes = &bytes[..end];
    let (parent, name) = match bytes.iter().rposition(|&b| b == b'/') {
        None => (&b"."[..], bytes),
        Some(0) => (&b"/"[..], &bytes[1..]),
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
    };
    is_name(name).then(|| (OsStr::from_bytes(parent), OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Option<(&str, &str)> {
        split(OsStr::new(path)).map(|(a, b)| (a.to_str().unwrap(), b.to_str().unwrap()))
    }

    #[test]
    fn a_path_splits_at_its_last_name() {
        assert_eq!(parts("/a/b"), Some(("/a", "b")));
        assert_eq!(parts("a/b//"), Some(("a", "b")));
        assert_eq!(parts("a"), Some((".", "a")));
        assert_eq!(parts("/a"), Some(("/", "a")));
        for none in ["", "/", "//", ".", "..", "a/.", "a/.."] {
            assert_eq!(parts(none), None, "{none}");
        }
    }

    #[test]
    fn a_name_is_one_component() {
        let check = |name: &str| with_name(OsStr::new(name), |_| Ok(())).is_ok();
        assert!(check("a b"));
        assert!(check("..."));
        for bad in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(!check(bad), "{bad:?}");
        }
    }

    #[test]
    fn long_and_short_paths_arrive_whole() {
        for len in [0, 1, ON_STACK - 1, ON_STACK, ON_STACK + 1, 4095] {
            let bytes = vec![b'x'; len];
            let same = with_cstr(&bytes, |c| Ok(c.to_bytes() == bytes));
            assert_eq!(same, Ok(true));
        }
    }
}
