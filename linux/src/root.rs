//! Where a path starts, and what it may reach.

use crate::errno::{Errno, Result};
use crate::{Fd, Name, Sys};
use std::ffi::{CStr, CString};
use std::rc::Rc;

/// The start of the paths a user types: the host's working directory, or the
/// root of an image, which no symlink and no ".." can leave.
#[derive(Clone)]
pub struct Root<'a> {
    sys: Sys<'a>,
    /// None: the host's root and working directory.
    image: Option<Rc<Fd<'a>>>,
}

impl<'a> Root<'a> {
    /// The root and the working directory of this process in the kernel.
    pub fn host(sys: Sys<'a>) -> Self {
        Root { sys, image: None }
    }

    /// A directory that no path leads out of.
    pub fn image(dir: Fd<'a>) -> Self {
        Root {
            sys: dir.sys(),
            image: Some(Rc::new(dir)),
        }
    }

    /// The kernel.
    pub fn sys(&self) -> Sys<'a> {
        self.sys
    }

    /// Opens a path; symlinks are followed within the root unless the flags
    /// say O_NOFOLLOW.
    pub fn open(&self, path: &[u8], flags: i32) -> Result<Fd<'a>> {
        let path = Name::new(path)?;
        match &self.image {
            None => self.sys.openat_raw(libc::AT_FDCWD, &path, flags, 0),
            Some(root) => self.sys.openat2(root, &path, flags, libc::RESOLVE_IN_ROOT),
        }
    }

    /// [`Self::open`] of a directory, to be listed.
    pub fn open_dir(&self, path: &[u8]) -> Result<Fd<'a>> {
        self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)
    }

    /// The directory that holds a path's last component, and that component.
    /// A path without one (the root, "..") gives EINVAL.
    pub fn parent(&self, path: &[u8]) -> Result<(Fd<'a>, CString)> {
        let (parent, name) = split(path).ok_or(Errno(libc::EINVAL))?;
        let dir = self.open(parent, libc::O_PATH | libc::O_DIRECTORY)?;
        let name = CString::new(name).map_err(|_| Errno(libc::EINVAL))?;
        Ok((dir, name))
    }

    /// lstat of a path, or stat with `follow`.
    pub fn stat(&self, path: &[u8], follow: bool) -> Result<crate::Stat> {
        let nofollow = if follow { 0 } else { libc::O_NOFOLLOW };
        let fd = self.open(path, libc::O_PATH | nofollow)?;
        self.sys.fstatat(&fd, c"", libc::AT_EMPTY_PATH)
    }
}

/// Splits a path into parent and last component; trailing slashes and "/."
/// are not part of a name.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut path = path;
    loop {
        path = match path {
            [rest @ .., b'/'] => rest,
            [rest @ .., b'/', b'.'] => rest,
            _ => break,
        };
    }
    let at = path.iter().rposition(|&b| b == b'/');
    let (parent, name) = match at {
        None => (&b"."[..], path),
        Some(0) => (&b"/"[..], &path[1..]),
        Some(i) => (&path[..i], &path[i + 1..]),
    };
    (!matches!(name, b"" | b"." | b"..")).then_some((parent, name))
}

/// The last component of a path as bytes, if it has one.
pub fn base_name(path: &[u8]) -> Option<&[u8]> {
    split(path).map(|(_, name)| name)
}

/// A path below another: "/a" + "b" = "/a/b".
pub fn join(dir: &[u8], name: &CStr) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_ignores_trailing_slashes_and_dots() {
        assert_eq!(split(b"/a/b"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split(b"/a/b//"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split(b"/a/."), Some((&b"/"[..], &b"a"[..])));
        assert_eq!(split(b"a"), Some((&b"."[..], &b"a"[..])));
        for none in [&b"/"[..], b"", b".", b"..", b"a/..", b"/."] {
            assert_eq!(split(none), None, "{none:?}");
        }
    }
}
