//! Files by path, below a root that nothing leaves.

use crate::dir::Dir;
use crate::error::{errno_or_guess, Context, Errno, Error, Result};
use crate::file::File;
use crate::metadata::Metadata;
use crate::open_options::OpenOptions;
use crate::path::{split, with_cstr};
use crate::read_dir::ReadDir;
use crate::statfs::StatFs;
use crate::sys::{Fd, SysResult};
use crate::time::SetTimes;
use crate::Kernel;
use std::ffi::{CStr, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_linux::Sync;

/// The files below one directory, as the functions of [`std::fs`] see them.
///
/// Paths are bytes, absolute or relative, both from the root of the tree. Links
/// in them are followed as if that root were "/": neither an absolute link nor
/// ".." leads out. Calls that make, remove or rename act on the last name of a
/// path itself, like those of the standard library. A slash at the end of a path
/// insists on a directory.
///
/// Any thread may use it. Permissions are not in the way: the caller is root.
#[derive(Debug)]
pub struct Tree {
    pub(crate) root: Fd,
}

impl std::fmt::Debug for Fd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {:?}", self.number(), self.kernel)
    }
}

impl Tree {
    pub(crate) fn new(root: Fd) -> Self {
        Tree { root }
    }

    /// The kernel that serves these files.
    pub fn kernel(&self) -> &Kernel {
        &self.root.kernel
    }

    /// An O_PATH descriptor of the root, for [`Kernel::syscall`]. It is a number
    /// in the kernel's table, not in this process's.
    pub fn root_fd(&self) -> i32 {
        self.root.number()
    }

    /// A call about whatever a path leads to, links followed.
    pub(crate) fn at<T>(
        &self,
        action: &'static str,
        path: &Path,
        f: impl FnOnce(&Fd) -> SysResult<T>,
    ) -> Result<T> {
        self.resolve(path, libc::O_PATH)
            .and_then(|fd| f(&fd))
            .map_err(|errno| errno.on(action, path))
    }

    /// A call about the last name of a path itself, in its directory.
    pub(crate) fn entry<T>(
        &self,
        action: &'static str,
        path: &Path,
        f: impl FnOnce(&Dir, &OsStr) -> Result<T>,
    ) -> Result<T> {
        let (dir, name) = self.parent(action, path)?;
        f(&dir, name).map_err(|error| Errno(error.errno()).on(action, path))
    }

    fn parent<'p>(&self, action: &'static str, path: &'p Path) -> Result<(Dir, &'p OsStr)> {
        let (parent, name) =
            split(path.as_os_str()).ok_or_else(|| Errno(self.nameless(path)).on(action, path))?;
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let dir = self
            .resolve(Path::new(parent), flags)
            .map(Dir::new)
            .map_err(|errno| errno.on(action, path))?;
        if path.as_os_str().as_bytes().ends_with(b"/")
            && dir.metadata(name).is_ok_and(|metadata| !metadata.is_dir())
        {
            return Err(Errno(libc::ENOTDIR).on(action, path));
        }
        Ok((dir, name))
    }

    /// Why a path without a last name cannot be made or removed.
    fn nameless(&self, path: &Path) -> i32 {
        match path.as_os_str().is_empty() {
            true => libc::ENOENT,
            false => libc::EBUSY,
        }
    }

    fn resolve(&self, path: &Path, flags: i32) -> SysResult<Fd> {
        let root = &self.root;
        let open = |path: &CStr| root.kernel.open_in_root(root, path, flags, 0);
        with_cstr(path.as_os_str().as_bytes(), open)
    }

    // ---- opening, reading, writing

    /// Open for reading.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Make a file, or empty it, for writing; mode 0o644.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(self, path)
    }

    /// Open a directory.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        self.resolve(path, libc::O_RDONLY | libc::O_DIRECTORY)
            .map(Dir::new)
            .map_err(|errno| errno.on("open", path))
    }

    /// The entries of a directory.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        let path = path.as_ref();
        self.resolve(path, libc::O_RDONLY | libc::O_DIRECTORY)
            .map(|fd| ReadDir::new(fd, path))
            .map_err(|errno| errno.on("read the directory", path))
    }

    /// The whole content of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let file = self.open(path)?;
        let mut content = Vec::with_capacity(file.metadata()?.len().min(1 << 30) as usize + 1);
        match (&file).read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => Err(io_errno(&error).on("read", path)),
        }
    }

    /// The whole content of a file that is UTF-8; EILSEQ if it is not.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?).map_err(|_| Errno(libc::EILSEQ).on("read", path))
    }

    /// Make a file, or replace its content; mode 0o644. It is not synced.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let file = self.create(path)?;
        file.write_all_at(content.as_ref(), 0)
            .map_err(|error| io_errno(&error).on("write", path))
    }

    /// Copy a file's content and permissions within the tree, inside the
    /// kernel. Returns the number of bytes.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let (from, to) = (self.open(from)?, to.as_ref());
        let metadata = from.metadata()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let target = options.mode(metadata.permissions()).open(self, to)?;
        let mut total = 0;
        loop {
            match from.copy_range_to(&target, 1 << 30)? {
                0 => break,
                n => total += n as u64,
            }
        }
        target.set_permissions(metadata.permissions())?;
        Ok(total)
    }

    // ---- looking

    /// About what a path leads to.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.at("stat", path.as_ref(), |fd| fd.kernel.fstatx(fd))
            .map(Metadata::new)
    }

    /// About the last name of a path itself, which may be a link.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        self.resolve(path, libc::O_PATH | libc::O_NOFOLLOW)
            .and_then(|fd| fd.kernel.fstatx(&fd))
            .map(Metadata::new)
            .map_err(|errno| errno.on("stat", path))
    }

    /// Whether a path leads to something. Errors other than "no" are given.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::ENOTDIR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where a link points.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        self.entry("read the link", path, |dir, name| dir.read_link(name))
    }

    /// How full the file system is.
    pub fn statfs(&self) -> Result<StatFs> {
        let statfs = self.root.sys().fstatfs(&self.root);
        statfs
            .map(|statfs| StatFs::new(&statfs))
            .map_err(|errno| errno.during("statfs"))
    }

    // ---- making and removing

    /// Make a directory; mode 0o755.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.create_dir_with(path, 0o755)
    }

    /// Make a directory with permissions `mode`.
    pub fn create_dir_with(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = path.as_ref();
        if split(path.as_os_str()).is_none() && !path.as_os_str().is_empty() {
            return Err(Errno(libc::EEXIST).on("create the directory", path));
        }
        self.entry("create the directory", path, |dir, name| {
            dir.create_dir(name, mode)
        })
    }

    /// Make a directory and those it lies in; mode 0o755. No error if it exists.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match self.create_dir(path) {
            Ok(()) => Ok(()),
            Err(error) => match error.errno() {
                libc::ENOENT => match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => {
                        self.create_dir_all(parent)?;
                        self.create_dir_all_again(path)
                    }
                    _ => Err(error),
                },
                libc::EEXIST if self.metadata(path).is_ok_and(|m| m.is_dir()) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn create_dir_all_again(&self, path: &Path) -> Result<()> {
        match self.create_dir(path) {
            Err(error)
                if error.errno() == libc::EEXIST
                    && self.metadata(path).is_ok_and(|m| m.is_dir()) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Make a link at `path` that says `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref();
        self.entry("link", path.as_ref(), |dir, name| dir.symlink(target, name))
    }

    /// Give a file a second name. A link is not followed.
    pub fn hard_link(&self, path: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<()> {
        let new = new.as_ref();
        self.entry("link", path.as_ref(), |dir, name| {
            let (to, new_name) = self.parent("link", new)?;
            dir.hard_link(name, &to, new_name)
        })
    }

    /// Make a device node, FIFO, socket or empty file: see [`Dir::mknod`].
    pub fn mknod(&self, path: impl AsRef<Path>, mode: u32, rdev: u64) -> Result<()> {
        self.entry("make the node", path.as_ref(), |dir, name| {
            dir.mknod(name, mode, rdev)
        })
    }

    /// Rename; a file that has the new name is replaced.
    pub fn rename(&self, path: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<()> {
        self.rename_with(path, new, 0)
    }

    /// Rename with `libc::RENAME_NOREPLACE`, `RENAME_EXCHANGE` or
    /// `RENAME_WHITEOUT`; renameat2(2).
    pub fn rename_with(
        &self,
        path: impl AsRef<Path>,
        new: impl AsRef<Path>,
        flags: u32,
    ) -> Result<()> {
        let new = new.as_ref();
        self.entry("rename", path.as_ref(), |dir, name| {
            let (to, new_name) = self.parent("rename", new)?;
            dir.rename(name, &to, new_name, flags)
        })
    }

    /// Remove a file, link or node.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.entry("remove", path.as_ref(), |dir, name| dir.remove_file(name))
    }

    /// Remove an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.entry("remove the directory", path.as_ref(), |dir, name| {
            dir.remove_dir(name)
        })
    }

    /// Remove a directory and everything below it; links are removed, not
    /// followed. A file or link is removed too.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        self.entry("remove", path.as_ref(), crate::remove::remove_all)
    }

    // ---- changing

    /// Cut off or lengthen a file, in bytes.
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        let path = path.as_ref();
        self.resolve(path, libc::O_WRONLY)
            .and_then(|fd| fd.sys().ftruncate(&fd, len))
            .map_err(|errno| errno.on("truncate", path))
    }

    /// Permission bits, 0 to 0o7777, of what a path leads to.
    pub fn set_permissions(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.at("chmod", path.as_ref(), |fd| fd.sys().chmodat(fd, c"", mode))
    }

    /// Owner and group of what a path leads to; None leaves one as it is.
    pub fn chown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
        self.at("chown", path.as_ref(), |fd| {
            fd.sys().chown(fd, c"", uid, gid, libc::AT_EMPTY_PATH)
        })
    }

    /// Owner and group of the last name of a path itself.
    pub fn lchown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.entry("chown", path.as_ref(), |dir, name| {
            dir.set_owner(name, uid, gid)
        })
    }

    /// Times of what a path leads to.
    pub fn set_times(&self, path: impl AsRef<Path>, times: SetTimes) -> Result<()> {
        let times = times.to_timespecs();
        self.at("set the times", path.as_ref(), |fd| {
            fd.sys().utimens(fd, c"", &times, libc::AT_EMPTY_PATH)
        })
    }

    /// Times of the last name of a path itself.
    pub fn set_symlink_times(&self, path: impl AsRef<Path>, times: SetTimes) -> Result<()> {
        self.entry("set the times", path.as_ref(), |dir, name| {
            dir.set_times(name, times)
        })
    }

    /// Everything that was written to this file system reaches its disk image
    /// before this returns; syncfs(2). Errors of earlier writes show here, and
    /// EIO or EROFS once the file system has given up after one.
    pub fn sync(&self) -> Result<()> {
        let root = self.open_dir("/")?;
        let failed = |error: Error| error.with_path(Path::new("/"));
        root.sync_with(Sync::FileSystem, "sync").map_err(failed)?;
        // syncfs() finds nothing to do on an ext4 whose journal was aborted, and
        // calls that a success; fsync() knows. Not every directory has one.
        match root.sync_with(Sync::All, "sync") {
            Err(error) if error.errno() == libc::EINVAL => Ok(()),
            result => result.map_err(failed),
        }
    }
}

pub(crate) fn io_errno(error: &std::io::Error) -> Errno {
    Errno(errno_or_guess(error))
}
