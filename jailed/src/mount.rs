//! A file system of an image: a tree whose calls go to the process that serves it.

use crate::told;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane::{Error, Kernel, Remote, Result, Tree};
use tane_linux::Linux;
use tane_worker::KernelCalls;

/// A mounted file system; made by [`Image::mount`](crate::Image::mount). It is the
/// [`Tree`] of its files.
///
/// Call [`Mount::unmount`] when the image matters: only it says whether everything was
/// written. Files and directories opened through it may live longer; the file system then
/// stays until the last of them is closed.
#[derive(Debug)]
pub struct Mount {
    /// Goes first: it has a descriptor there.
    tree: Tree,
    there: Arc<RemoteMount>,
}

/// Who answers the tree's calls.
#[derive(Debug)]
struct RemoteMount {
    mount: tane_worker::Mount,
    image: tane_worker::Image,
}

impl Mount {
    pub(crate) fn new(image: tane_worker::Image, mount: tane_worker::Mount) -> Result<Mount> {
        let there = Arc::new(RemoteMount { mount, image });
        let kernel = Kernel::remote(there.clone());
        let tree = kernel.tree(there.mount.mount_point())?;
        Ok(Mount { tree, there })
    }

    /// Where it is inside the kernel that serves it.
    pub fn mount_point(&self) -> &Path {
        self.there.mount.mount_point()
    }

    /// Write everything back and unmount.
    ///
    /// Errors: those of [`tane::Mount::unmount`]: of a write that failed since the mount;
    /// EBUSY if something in it is still open: everything has been written then, and it
    /// goes away with the last file, directory or listing.
    pub fn unmount(self) -> Result<()> {
        let Mount { tree, there } = self;
        let synced = match tree.statfs()?.read_only {
            true => Ok(()),
            false => tree.sync(),
        };
        drop(tree);
        let place: PathBuf = there.mount.mount_point().into();
        match Arc::into_inner(there) {
            Some(RemoteMount { mount, image: _ }) => mount.unmount().map_err(told),
            None => synced.and(Err(busy(&place))),
        }
    }
}

fn busy(place: &Path) -> Error {
    Error::plain(libc::EBUSY, "unmount", "files of it are still open").with_path(place)
}

impl Deref for Mount {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Linux for RemoteMount {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        if nr == libc::SYS_close {
            // Nobody who drops a handle asks how that went, and half of all calls are it.
            self.mount.close_later(args[0] as i32);
            return 0;
        }
        // SAFETY: as the caller promises.
        unsafe { self.mount.call(nr, args) }
    }

    fn is_ours(&self) -> bool {
        self.mount.is_ours()
    }
}

impl Remote for RemoteMount {
    fn dmesg(&self) -> String {
        self.image.dmesg().unwrap_or_default()
    }

    fn is_alive(&self) -> bool {
        self.image.is_alive().unwrap_or(false)
    }

    fn last_words(&self) -> String {
        // Whoever cannot be asked has ended, and why is the answer.
        self.image
            .last_words()
            .unwrap_or_else(|failure| failure.text)
    }

    fn halt(&self) {
        // Who cannot be told has ended.
        let _ = self.image.halt();
    }
}
