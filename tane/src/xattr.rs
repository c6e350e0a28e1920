//! Extended attributes: xattr(7). ACLs, capabilities and labels are some.
//!
//! Until Linux 6.13 there are only calls by descriptor and by path. What cannot
//! be opened (links, device nodes) is reached by a path all the same: one that
//! starts at a descriptor of its directory, in /proc/self/fd.

use crate::dir::Dir;
use crate::error::{Context, Errno, Result};
use crate::file::File;
use crate::kernel::Kernel;
use crate::path::{with_cstr, with_name};
use crate::sys::SysResult;
use crate::tree::Tree;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use tane_linux::{grow, names, with_proc_path, XattrOf};

const GET: &str = "get an attribute of";
const SET: &str = "set an attribute of";
const LIST: &str = "list the attributes of";
const REMOVE: &str = "remove an attribute of";

/// A kernel and the thing whose attributes are meant.
struct Target<'a>(&'a Kernel, XattrOf<'a>);

impl Target<'_> {
    fn get(&self, key: &OsStr) -> SysResult<Option<Vec<u8>>> {
        let get = |to: &mut [u8]| self.get_into(key, to);
        match grow(get) {
            Ok(value) => Ok(Some(value)),
            Err(Errno(libc::ENODATA)) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn get_into(&self, key: &OsStr, to: &mut [u8]) -> SysResult<usize> {
        with_cstr(key.as_bytes(), |key| self.0.sys().getxattr(self.1, key, to))
    }

    fn names(&self) -> SysResult<Vec<OsString>> {
        let names = names(self.0.sys(), self.1)?.into_iter();
        Ok(names
            .map(|name| OsString::from_vec(name.into_bytes()))
            .collect())
    }

    fn set(&self, key: &OsStr, value: &[u8], flags: i32) -> SysResult<()> {
        let set = |key: &CStr| self.0.sys().setxattr(self.1, key, value, flags);
        with_cstr(key.as_bytes(), set)
    }

    fn remove(&self, key: &OsStr) -> SysResult<()> {
        with_cstr(key.as_bytes(), |key| self.0.sys().removexattr(self.1, key))
    }
}

impl File {
    fn attributes<T>(
        &self,
        action: &'static str,
        f: impl FnOnce(&Target<'_>) -> SysResult<T>,
    ) -> Result<T> {
        let target = Target(&self.fd.kernel, XattrOf::Open(self.fd.raw()));
        f(&target).map_err(|errno| errno.during(action))
    }

    /// An attribute's value, or None if there is no such attribute.
    pub fn xattr(&self, key: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>> {
        self.attributes("get an attribute", |target| target.get(key.as_ref()))
    }

    /// Read a value into a buffer and give its length; ENODATA if there is no
    /// such attribute, ERANGE if the buffer is too small. An empty buffer asks
    /// for the length.
    pub fn xattr_into(&self, key: impl AsRef<OsStr>, to: &mut [u8]) -> Result<usize> {
        self.attributes("get an attribute", |target| {
            target.get_into(key.as_ref(), to)
        })
    }

    /// Give an attribute a value. `flags`: 0, or `libc::XATTR_CREATE` or
    /// `XATTR_REPLACE` to insist that it is new, or that it is not.
    pub fn set_xattr(&self, key: impl AsRef<OsStr>, value: &[u8], flags: i32) -> Result<()> {
        self.attributes("set an attribute", |target| {
            target.set(key.as_ref(), value, flags)
        })
    }

    /// The names of all attributes; none where the file system has none.
    pub fn xattrs(&self) -> Result<Vec<OsString>> {
        self.attributes("list the attributes", |target| target.names())
    }

    /// Remove an attribute; ENODATA if there is no such attribute.
    pub fn remove_xattr(&self, key: impl AsRef<OsStr>) -> Result<()> {
        self.attributes("remove an attribute", |target| target.remove(key.as_ref()))
    }
}

/// Extended attributes of entries; of a link, its own.
impl Dir {
    fn attributes<T>(
        &self,
        action: &'static str,
        name: &OsStr,
        f: impl FnOnce(&Target<'_>) -> SysResult<T>,
    ) -> Result<T> {
        let with_target = |name: &CStr| {
            with_proc_path(self.fd.raw(), Some(name), |path| {
                f(&Target(&self.fd.kernel, XattrOf::Link(path)))
            })
        };
        with_name(name, with_target).map_err(|errno| errno.on(action, Path::new(name)))
    }

    /// An attribute's value, or None if there is no such attribute.
    pub fn xattr(
        &self,
        name: impl AsRef<OsStr>,
        key: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        self.attributes(GET, name.as_ref(), |target| target.get(key.as_ref()))
    }

    /// Give an attribute a value: see [`File::set_xattr`].
    pub fn set_xattr(
        &self,
        name: impl AsRef<OsStr>,
        key: impl AsRef<OsStr>,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        let key = key.as_ref();
        self.attributes(SET, name.as_ref(), |target| target.set(key, value, flags))
    }

    /// The names of all attributes; none where the file system has none.
    pub fn xattrs(&self, name: impl AsRef<OsStr>) -> Result<Vec<OsString>> {
        self.attributes(LIST, name.as_ref(), |target| target.names())
    }

    /// Remove an attribute; ENODATA if there is no such attribute.
    pub fn remove_xattr(&self, name: impl AsRef<OsStr>, key: impl AsRef<OsStr>) -> Result<()> {
        self.attributes(REMOVE, name.as_ref(), |target| target.remove(key.as_ref()))
    }
}

/// Extended attributes by path. The calls with `symlink` in their names are
/// about the last name of the path itself, the others about what it leads to.
impl Tree {
    fn attributes<T>(
        &self,
        action: &'static str,
        path: &Path,
        f: impl FnOnce(&Target<'_>) -> SysResult<T>,
    ) -> Result<T> {
        // An O_PATH descriptor is refused by the calls by descriptor, but as a
        // link in /proc it leads there.
        self.at(action, path, |fd| {
            with_proc_path(fd.raw(), None, |path| {
                f(&Target(&fd.kernel, XattrOf::File(path)))
            })
        })
    }

    /// An attribute's value, or None if there is no such attribute.
    pub fn xattr(&self, path: impl AsRef<Path>, key: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>> {
        self.attributes(GET, path.as_ref(), |target| target.get(key.as_ref()))
    }

    /// [`Self::xattr`] of a link itself.
    pub fn symlink_xattr(
        &self,
        path: impl AsRef<Path>,
        key: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        self.entry(GET, path.as_ref(), |dir, name| dir.xattr(name, key))
    }

    /// Give an attribute a value: see [`File::set_xattr`].
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        key: impl AsRef<OsStr>,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        let key = key.as_ref();
        self.attributes(SET, path.as_ref(), |target| target.set(key, value, flags))
    }

    /// [`Self::set_xattr`] of a link itself.
    pub fn set_symlink_xattr(
        &self,
        path: impl AsRef<Path>,
        key: impl AsRef<OsStr>,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        self.entry(SET, path.as_ref(), |dir, name| {
            dir.set_xattr(name, key, value, flags)
        })
    }

    /// The names of all attributes; none where the file system has none.
    pub fn xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        self.attributes(LIST, path.as_ref(), |target| target.names())
    }

    /// [`Self::xattrs`] of a link itself.
    pub fn symlink_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        self.entry(LIST, path.as_ref(), |dir, name| dir.xattrs(name))
    }

    /// Remove an attribute; ENODATA if there is no such attribute.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, key: impl AsRef<OsStr>) -> Result<()> {
        self.attributes(REMOVE, path.as_ref(), |target| target.remove(key.as_ref()))
    }

    /// [`Self::remove_xattr`] of a link itself.
    pub fn remove_symlink_xattr(
        &self,
        path: impl AsRef<Path>,
        key: impl AsRef<OsStr>,
    ) -> Result<()> {
        self.entry(REMOVE, path.as_ref(), |dir, name| {
            dir.remove_xattr(name, key)
        })
    }
}
