//! A mounted file system.

use crate::disk::Disk;
use crate::error::{Context, Errno, Error, Result};
use crate::host_blocks::HostBlocks;
use crate::path::with_cstr;
use crate::progress::Step;
use crate::sys::Fd;
use crate::tree::Tree;
use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A mounted file system; made by [`MountOptions`](crate::MountOptions). It is
/// the [`Tree`] of its files.
///
/// Call [`Mount::unmount`] when the image matters: only it says whether
/// everything was written. Dropping a mount unmounts it as well, but has nobody
/// to tell. Files and directories opened through it may live longer; the file
/// system then stays until the last of them is closed.
#[derive(Debug)]
pub struct Mount {
    /// None once unmounted, for Drop.
    tree: Option<Tree>,
    /// The process that mounted it: its forks have copies.
    mounted_by: u32,
    place: PathBuf,
    fstype: String,
    /// As it was when mounted.
    read_only: bool,
    /// Stays attached as long as it is mounted.
    disk: Option<Disk>,
    /// What was mounted.
    source: PathBuf,
    /// Found when first asked for.
    on_host: OnceLock<Option<HostBlocks>>,
    /// What it is on, if that is more than a disk.
    on: Option<Box<dyn On>>,
    /// What it shows, if that is several.
    _layers: Vec<Mount>,
}

/// What a mount may be on: it is kept as long as the mount.
pub(crate) trait On: Any + Debug + Send + Sync {
    /// The file system was written back and is unmounted.
    fn unmounted(&self) -> Result<()>;

    /// Why it does nothing any more, if that is so.
    fn end(&self) -> Option<Error> {
        None
    }
}

impl Mount {
    pub(crate) fn new(root: Fd, place: PathBuf, fstype: String, source: &Path) -> Self {
        let tree = Tree::new(root);
        Mount {
            disk: tree.kernel().disk_of(source),
            source: source.to_owned(),
            on_host: OnceLock::new(),
            read_only: is_read_only(&tree),
            tree: Some(tree),
            mounted_by: std::process::id(),
            place,
            fstype,
            on: None,
            _layers: Vec::new(),
        }
    }

    /// Hold on to the mounts it shows.
    pub(crate) fn above(mut self, layers: Vec<Mount>) -> Self {
        self._layers = layers;
        self
    }

    /// Hold on to what it is on.
    pub(crate) fn on(mut self, what: impl On) -> Self {
        self.on = Some(Box::new(what));
        self
    }

    /// That, if it is of this type.
    pub(crate) fn is_on<T: On>(&self) -> Option<&T> {
        let on: &dyn Any = &**self.on.as_ref()?;
        on.downcast_ref()
    }

    /// Where it is inside the kernel, for raw system calls.
    pub fn mount_point(&self) -> &Path {
        &self.place
    }

    /// The file system's type, as the kernel calls it.
    pub fn fstype(&self) -> &str {
        &self.fstype
    }

    /// Where the host has its bytes. None: nowhere as they are, or they may change.
    pub fn host_blocks(&self) -> Option<&HostBlocks> {
        let find = || HostBlocks::of(self.disk.as_ref()?, &self.source, self);
        self.on_host.get_or_init(find).as_ref()
    }

    /// Write everything back and unmount; syncfs(2) and umount(2).
    ///
    /// Errors: that of a write that failed since the mount (EIO, ENOSPC, …), and
    /// EROFS if it became read-only since, as some do after an error; the file
    /// system is unmounted even so. EBUSY if something in it is still
    /// open; everything has been written then, and it goes away with the last
    /// [`File`](crate::File), [`Dir`](crate::Dir) or listing.
    pub fn unmount(mut self) -> Result<()> {
        match self.tree.take() {
            Some(tree) => {
                let closed = self.close(tree);
                // Not every file system has its disk flush when it is unmounted.
                match &self.on {
                    Some(on) => {
                        let closed = closed.map_err(|e| on.end().unwrap_or(e));
                        closed.and(on.unmounted())
                    }
                    None => closed,
                }
            }
            None => Ok(()),
        }
    }

    fn close(&self, tree: Tree) -> Result<()> {
        let _step = Step::begin();
        let synced = if self.read_only {
            Ok(())
        } else if is_read_only(&tree) {
            let error: Error = Errno(libc::EROFS).on("unmount", &self.place);
            Err(error.with_text("it became read-only after it was mounted"))
        } else {
            tree.sync()
        };
        let kernel = tree.kernel().clone();
        drop(tree);
        let bytes = self.place.as_os_str().as_bytes();
        let mut unmounted = with_cstr(bytes, |path| kernel.sys().umount(path, 0));
        if unmounted.is_err() {
            let lazily = with_cstr(bytes, |path| kernel.sys().umount(path, libc::MNT_DETACH));
            unmounted = unmounted.and(lazily);
        }
        let rmdir = |path: &std::ffi::CStr| {
            kernel
                .sys()
                .unlink(libc::AT_FDCWD, path, libc::AT_REMOVEDIR)
        };
        let _ = with_cstr(bytes, rmdir);
        synced?;
        unmounted.map_err(|errno| {
            let error: Error = errno.on("unmount", &self.place);
            match errno.0 {
                libc::EBUSY => error.with_text("files of it are still open"),
                _ => error,
            }
        })
    }
}

fn is_read_only(tree: &Tree) -> bool {
    tree.statfs().is_ok_and(|statfs| statfs.read_only)
}

impl Deref for Mount {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        match &self.tree {
            Some(tree) => tree,
            None => unreachable!("only unmount() takes it, and that takes the mount"),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Of a fork of the process that mounted it, this is a copy: the mount stays.
        let ours = self.mounted_by == std::process::id();
        if let Some(tree) = self.tree.take().filter(|_| ours) {
            // Best effort, as documented.
            let _ = self.close(tree);
        }
    }
}
