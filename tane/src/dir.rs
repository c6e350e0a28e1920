//! An open directory, and what can be done with its entries by name.

use crate::error::{Context, Errno, Error, Result};
use crate::file::File;
use crate::kernel::Kernel;
use crate::metadata::Metadata;
use crate::open_options::OpenOptions;
use crate::path::{with_cstr, with_name};
use crate::read_dir::ReadDir;
use crate::sys::{Fd, SysResult};
use crate::time::SetTimes;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tane_linux::Sync;

/// An open directory.
///
/// Its calls take the *name* of an entry, one component, and never follow a
/// link: what they touch is what the directory holds, whatever a hostile image
/// or another thread does meanwhile. They are the fast way to walk a tree: one
/// system call each, no path to resolve, no allocation for a name.
///
/// Closed when dropped. Any thread may use it; listings have positions of their
/// own.
pub struct Dir {
    pub(crate) fd: Fd,
}

impl Dir {
    pub(crate) fn new(fd: Fd) -> Self {
        Dir { fd }
    }

    /// The kernel that serves it.
    pub fn kernel(&self) -> &Kernel {
        &self.fd.kernel
    }

    /// The descriptor, for [`Kernel::syscall`](crate::Kernel::syscall). It is a
    /// number in the kernel's table, not in this process's.
    pub fn kernel_fd(&self) -> i32 {
        self.fd.number()
    }

    /// A call about one entry.
    pub(crate) fn entry<T>(
        &self,
        action: &'static str,
        name: &OsStr,
        f: impl FnOnce(&Fd, &CStr) -> SysResult<T>,
    ) -> Result<T> {
        with_name(name, |cstr| f(&self.fd, cstr)).map_err(|e| e.on(action, Path::new(name)))
    }

    // ---- opening

    /// Open an entry for reading.
    pub fn open(&self, name: impl AsRef<OsStr>) -> Result<File> {
        self.open_flags(name.as_ref(), libc::O_RDONLY, 0)
            .map(File::new)
    }

    /// Make an entry, or empty the file it is, for writing; mode 0o644.
    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open_in(self, name)
    }

    /// Open a directory in this one.
    pub fn open_dir(&self, name: impl AsRef<OsStr>) -> Result<Dir> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        self.open_flags(name.as_ref(), flags, 0).map(Dir::new)
    }

    fn open_flags(&self, name: &OsStr, flags: i32, mode: u32) -> Result<Fd> {
        let flags = flags | libc::O_NOFOLLOW;
        self.entry("open", name, |fd, name| {
            fd.kernel.openat(fd, name, flags, mode)
        })
    }

    /// The entries, without "." and "..". Each listing starts at the first.
    pub fn read_dir(&self) -> Result<ReadDir> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let fd = self.fd.kernel.openat(&self.fd, c".", flags, 0);
        fd.map(|fd| ReadDir::new(fd, Path::new("")))
            .map_err(|errno| errno.during("read the directory"))
    }

    // ---- looking

    /// About the directory itself.
    pub fn dir_metadata(&self) -> Result<Metadata> {
        let statx = self.fd.kernel.fstatx(&self.fd);
        statx
            .map(Metadata::new)
            .map_err(|errno| errno.during("stat"))
    }

    /// About an entry; of a link, about the link.
    pub fn metadata(&self, name: impl AsRef<OsStr>) -> Result<Metadata> {
        self.entry("stat", name.as_ref(), |fd, name| {
            fd.kernel.statx(fd, name, libc::AT_SYMLINK_NOFOLLOW)
        })
        .map(Metadata::new)
    }

    /// Where a link points: bytes, which need not be a path that exists.
    pub fn read_link(&self, name: impl AsRef<OsStr>) -> Result<PathBuf> {
        let target = self.entry("read the link", name.as_ref(), |fd, name| {
            fd.sys().readlink(fd, name)
        })?;
        Ok(OsString::from_vec(target).into())
    }

    // ---- making and removing

    /// Make a directory with permissions `mode`.
    pub fn create_dir(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<()> {
        self.entry("create the directory", name.as_ref(), |fd, name| {
            fd.sys().mkdir(fd, name, mode & 0o7777)
        })
    }

    /// Make a link that says `target`, whatever that is.
    pub fn symlink(&self, target: impl AsRef<OsStr>, name: impl AsRef<OsStr>) -> Result<()> {
        let target = target.as_ref().as_bytes();
        self.entry("link", name.as_ref(), |fd, name| {
            with_cstr(target, |target| fd.sys().symlink(target, fd, name))
        })
    }

    /// Give an entry a second name, here or in another directory.
    pub fn hard_link(
        &self,
        name: impl AsRef<OsStr>,
        to: &Dir,
        new_name: impl AsRef<OsStr>,
    ) -> Result<()> {
        self.two("link", name.as_ref(), to, new_name.as_ref(), |old, new| {
            self.fd.sys().link(old.0, old.1, new.0, new.1)
        })
    }

    /// Make a device node, FIFO, socket or empty file. `mode` is the type and
    /// the permissions, as in `st_mode`; `rdev` a device number as
    /// [`Metadata::rdev`] gives it. mknod(2).
    pub fn mknod(&self, name: impl AsRef<OsStr>, mode: u32, rdev: u64) -> Result<()> {
        self.entry("make the node", name.as_ref(), |fd, name| {
            let dev = kernel_dev(rdev).ok_or(Errno(libc::EINVAL))?;
            fd.sys().mknod(fd, name, mode, dev.into())
        })
    }

    /// Rename an entry, also into another directory. `flags` are
    /// `libc::RENAME_` bits; 0 replaces a file that has the new name.
    pub fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Dir,
        new_name: impl AsRef<OsStr>,
        flags: u32,
    ) -> Result<()> {
        self.two(
            "rename",
            name.as_ref(),
            to,
            new_name.as_ref(),
            |old, new| self.fd.sys().rename(old.0, old.1, new.0, new.1, flags),
        )
    }

    fn two(
        &self,
        action: &'static str,
        name: &OsStr,
        to: &Dir,
        new_name: &OsStr,
        f: impl FnOnce((i32, &CStr), (i32, &CStr)) -> SysResult<()>,
    ) -> Result<()> {
        // A descriptor means nothing to another kernel.
        if !self.fd.kernel.is_same(&to.fd.kernel) {
            return Err(Errno(libc::EXDEV).on(action, Path::new(name)));
        }
        self.entry(action, name, |fd, name| {
            with_name(new_name, |new_name| {
                f((fd.raw(), name), (to.fd.raw(), new_name))
            })
        })
    }

    /// Remove an entry that is not a directory.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.entry("remove", name.as_ref(), |fd, name| {
            fd.sys().unlink(fd, name, 0)
        })
    }

    /// Remove an empty directory.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.entry("remove the directory", name.as_ref(), |fd, name| {
            fd.sys().unlink(fd, name, libc::AT_REMOVEDIR)
        })
    }

    // ---- changing

    /// Permission bits of an entry, 0 to 0o7777. EOPNOTSUPP for a link.
    pub fn set_permissions(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<()> {
        self.entry("chmod", name.as_ref(), |fd, name| {
            fd.sys().chmodat(fd, name, mode)
        })
    }

    /// Owner and group of an entry; None leaves one as it is.
    pub fn set_owner(
        &self,
        name: impl AsRef<OsStr>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<()> {
        let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
        self.entry("chown", name.as_ref(), |fd, name| {
            fd.sys()
                .chown(fd, name, uid, gid, libc::AT_SYMLINK_NOFOLLOW)
        })
    }

    /// Access and modification time of an entry.
    pub fn set_times(&self, name: impl AsRef<OsStr>, times: SetTimes) -> Result<()> {
        let times = times.to_timespecs();
        self.entry("set the times", name.as_ref(), |fd, name| {
            fd.sys()
                .utimens(fd, name, &times, libc::AT_SYMLINK_NOFOLLOW)
        })
    }

    /// Entries that were made or removed reach the disk image; fsync(2).
    pub fn sync(&self) -> Result<()> {
        self.sync_with(Sync::All, "fsync")
    }

    pub(crate) fn sync_with(&self, what: Sync, action: &'static str) -> Result<()> {
        let result = self.fd.sys().sync(&self.fd, what);
        result.map_err(|errno| errno.during(action))
    }
}

/// A device number as system calls take it: 12 bits of major, 20 of minor.
fn kernel_dev(rdev: u64) -> Option<u32> {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    if major >= 1 << 12 || minor >= 1 << 20 {
        return None;
    }
    Some((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir({} of {:?})", self.fd.number(), self.fd.kernel)
    }
}

impl TryFrom<File> for Dir {
    type Error = Error;

    /// A file that was opened and turned out to be a directory.
    fn try_from(file: File) -> Result<Dir> {
        if file.metadata()?.is_dir() {
            Ok(Dir::new(file.fd))
        } else {
            Err(Errno(libc::ENOTDIR).during("open"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_keep_their_bits() {
        let dev = |major, minor| kernel_dev(libc::makedev(major, minor));
        assert_eq!(dev(8, 1), Some(0x801));
        assert_eq!(dev(0xfff, 0xf_ffff), Some(0xffff_ffff));
        assert_eq!(dev(0x1000, 0), None);
    }
}
