//! How a file is opened.

use crate::dir::Dir;
use crate::error::{Context, Errno, Error, Result};
use crate::file::File;
use crate::path::{with_cstr, with_name};
use crate::tree::Tree;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Like [`std::fs::OpenOptions`]; open(2). A new file gets exactly the mode
/// that was asked for: no umask is applied.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    flags: i32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing allowed, nothing created; mode 0o644.
    pub fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o644,
            flags: 0,
        }
    }

    /// O_RDONLY, or O_RDWR with [`Self::write`].
    pub fn read(&mut self, yes: bool) -> &mut Self {
        self.read = yes;
        self
    }

    /// O_WRONLY, or O_RDWR with [`Self::read`].
    pub fn write(&mut self, yes: bool) -> &mut Self {
        self.write = yes;
        self
    }

    /// Each write goes to the end.
    pub fn append(&mut self, yes: bool) -> &mut Self {
        self.append = yes;
        self
    }

    /// O_TRUNC: what was in it is gone.
    pub fn truncate(&mut self, yes: bool) -> &mut Self {
        self.truncate = yes;
        self
    }

    /// Make the file if it does not exist.
    pub fn create(&mut self, yes: bool) -> &mut Self {
        self.create = yes;
        self
    }

    /// Make the file, and fail with EEXIST if there is anything of that name.
    pub fn create_new(&mut self, yes: bool) -> &mut Self {
        self.create_new = yes;
        self
    }

    /// Permissions of a new file, 0 to 0o7777.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// More `O_` flags, such as `libc::O_NOFOLLOW`, `O_DIRECT` or `O_TMPFILE`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.flags = flags;
        self
    }

    /// Open a path; links are followed, without leaving the tree.
    pub fn open(&self, tree: &Tree, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let root = &tree.root;
        let open = |cstr: &std::ffi::CStr| {
            let flags = self.flags()?;
            root.kernel
                .open_in_root(root, cstr, flags, self.mode_of(flags))
        };
        with_cstr(path.as_os_str().as_bytes(), open)
            .map(File::new)
            .map_err(|errno| errno.on("open", path))
    }

    /// Open an entry of a directory by its name; a link is ELOOP.
    pub fn open_in(&self, dir: &Dir, name: impl AsRef<OsStr>) -> Result<File> {
        let name = name.as_ref();
        let open = |cstr: &std::ffi::CStr| {
            let flags = self.flags()? | libc::O_NOFOLLOW;
            let fd = &dir.fd;
            fd.kernel.openat(fd, cstr, flags, self.mode_of(flags))
        };
        with_name(name, open)
            .map(File::new)
            .map_err(|errno| failed(errno, name))
    }

    /// Linux refuses a mode where nothing can be created.
    fn mode_of(&self, flags: i32) -> u32 {
        const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;
        if flags & (libc::O_CREAT | TMPFILE) != 0 {
            self.mode & 0o7777
        } else {
            0
        }
    }

    /// The same combinations are refused as by the standard library.
    fn flags(&self) -> std::result::Result<i32, Errno> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) if self.flags & libc::O_PATH != 0 => libc::O_PATH,
            (false, false, false) => return Err(Errno(libc::EINVAL)),
        };
        let changes = self.truncate || self.create || self.create_new;
        let may_write = self.write || self.append;
        let cuts_and_appends = self.append && self.truncate && !self.create_new;
        if changes && !may_write || cuts_and_appends {
            return Err(Errno(libc::EINVAL));
        }
        let mut flags = access | self.flags & !libc::O_ACCMODE;
        if self.create_new {
            flags |= libc::O_CREAT | libc::O_EXCL;
        } else {
            if self.create {
                flags |= libc::O_CREAT;
            }
            if self.truncate {
                flags |= libc::O_TRUNC;
            }
        }
        Ok(flags)
    }
}

fn failed(errno: Errno, name: &OsStr) -> Error {
    errno.on("open", Path::new(name))
}
