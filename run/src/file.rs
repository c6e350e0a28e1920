//! A file that programs see in the place of the root's, and that nobody keeps.

use std::ffi::{CStr, CString, NulError, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

// linux/mount.h
const OPEN_TREE_CLONE: u64 = 1;
const OPEN_TREE_CLOEXEC: u64 = libc::O_CLOEXEC as u64;
const MOVE_MOUNT_F_EMPTY_PATH: u64 = 4;
const HERE: u64 = libc::AT_FDCWD as u64;

/// A file in the kernel's own root, and its mount.
pub struct Made {
    place: u64,
    name: CString,
    mount: Result<u64, i64>,
}

pub struct File {
    path: CString,
    directory: Option<CString>,
    content: Vec<u8>,
}

fn text(text: &OsStr) -> Result<CString, NulError> {
    CString::new(text.as_bytes())
}

fn address(text: &CStr) -> u64 {
    text.as_ptr() as u64
}

fn done(answer: i64) -> Result<u64, i64> {
    u64::try_from(answer).map_err(|_| answer)
}

impl File {
    pub fn new(path: &Path, content: &[u8]) -> Result<Self, NulError> {
        let directory = path.parent().map(|dir| text(dir.as_os_str()));
        Ok(Self {
            path: text(path.as_os_str())?,
            directory: directory.transpose()?,
            content: content.to_vec(),
        })
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.path.as_bytes()))
    }

    /// A mount of it that is nowhere yet: from outside of the root, in the kernel's own, which
    /// is in memory, and in mounts of the process's own. `call` makes system calls of the new
    /// process. Else the errno, negative.
    pub fn make(&self, call: impl Fn(i64, &[u64]) -> i64) -> Result<Made, i64> {
        let (path, close) = (libc::O_PATH | libc::O_DIRECTORY, libc::O_CLOEXEC);
        let flags = (path | close) as u64;
        let place = done(call(libc::SYS_openat, &[HERE, address(c"/"), flags, 0]))?;
        let own = format!(".file-{}", call(libc::SYS_gettid, &[]));
        let name = CString::new(own).unwrap_or_default();
        let flags = (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | close) as u64;
        let file = done(call(
            libc::SYS_openat,
            &[place, address(&name), flags, 0o644],
        ));
        let mount = file.and_then(|file| {
            let (at, length) = (self.content.as_ptr() as u64, self.content.len() as u64);
            let written = done(call(libc::SYS_write, &[file, at, length]));
            call(libc::SYS_close, &[file]);
            match written? {
                n if n == length => {
                    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
                    done(call(libc::SYS_open_tree, &[place, address(&name), flags]))
                }
                _ => Err((-libc::ENOSPC).into()),
            }
        });
        Ok(Made { place, name, mount })
    }

    /// From within the root.
    pub fn show(&self, made: Made, call: impl Fn(i64, &[u64]) -> i64) -> Result<(), i64> {
        let shown = made.mount.and_then(|mount| {
            let onto = || {
                let to = address(&self.path);
                // Without following it: a link is covered, as it may lead nowhere.
                let args = [mount, address(c""), HERE, to, MOVE_MOUNT_F_EMPTY_PATH];
                done(call(libc::SYS_move_mount, &args)).map(drop)
            };
            let shown = match onto() {
                Err(errno) if errno == -i64::from(libc::ENOENT) => {
                    self.make_room(&call).and_then(|()| onto())
                }
                other => other,
            };
            call(libc::SYS_close, &[mount]);
            shown
        });
        // What has no name cannot be mounted: not before.
        call(libc::SYS_unlinkat, &[made.place, address(&made.name), 0]);
        call(libc::SYS_close, &[made.place]);
        shown
    }

    /// Something to be covered.
    fn make_room(&self, call: &impl Fn(i64, &[u64]) -> i64) -> Result<(), i64> {
        if let Some(directory) = &self.directory {
            // It may be there.
            call(libc::SYS_mkdir, &[address(directory), 0o755]);
        }
        let kind = (libc::S_IFREG | 0o644).into();
        done(call(libc::SYS_mknod, &[address(&self.path), kind, 0])).map(drop)
    }
}
