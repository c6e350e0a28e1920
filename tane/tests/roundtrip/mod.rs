//! A rich tree goes through a file system and comes back: as far as the file
//! system keeps what Linux has, which a table says and the test holds it to.
//!
//! keeps: what a file system keeps
//! rich: the tree, and what a second session changes of it
//! manifest: what a tree holds, for comparing
//! readers: programs that read images and share no code with Linux
#![allow(dead_code)] // every test program uses a part of it

pub mod keeps;
pub mod manifest;
pub mod readers;
pub mod rich;

use crate::common::{blank, TempDir};
use crate::inside::{complaints, default_kernel, run};
use keeps::Keeps;
use manifest::{assert_same, manifest};
use readers::Reader;
use std::path::Path;
use tane::{DiskOptions, Kernel, Mount, MountOptions};
use tane_test_support::{is_root, tool};

/// A tool of the host: its package, its name, its arguments before the image.
pub type Tool = (&'static str, &'static str, &'static [&'static str]);

/// How an empty image comes to be.
pub enum Empty {
    Mkfs(Tool),
    /// By the tests' own mkfs.
    Ours(fn(u64) -> Vec<u8>),
}

pub struct Writable {
    pub fstype: &'static str,
    pub mib: u64,
    pub mkfs: Empty,
    pub options: &'static str,
    /// Must find nothing to complain of, and is told to change nothing.
    pub fsck: &'static [Tool],
    pub readers: &'static [Reader],
    pub keeps: Keeps,
}

/// Where everything is; what mkfs leaves beside it is the file system's own.
pub const TOP: &str = "tree";

pub fn mounted<T>(
    kernel: &Kernel,
    image: &Path,
    options: &MountOptions,
    work: impl Fn(&Mount) -> T,
) -> T {
    let disk = kernel.open_disk(image, &DiskOptions::new()).expect("opens");
    let mount = options
        .mount(kernel, disk.device())
        .unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    let result = work(&mount);
    mount.unmount().expect("unmounts");
    disk.remove().expect("goes away");
    result
}

pub fn tmpfs(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    options
        .fstype("tmpfs")
        .mount(kernel, "tmpfs")
        .expect("tmpfs")
}

/// What the host lets us put into a tree.
pub fn as_we_may(keeps: Keeps) -> Keeps {
    if is_root() {
        return keeps;
    }
    Keeps {
        owners: None,
        devices: None,
        // Some of them are for root.
        xattrs: None,
        acls: false,
        ..keeps
    }
}

/// Checkers that find something say so by their status; this one does not.
const SAYS_FAIL: &str = "[Fail]";

pub fn check(image: &Path, fsck: &[Tool]) {
    for (package, name, args) in fsck {
        if let Some(mut fsck) = tool(package, name) {
            let text = run(fsck.args(*args).arg(image));
            assert!(!text.contains(SAYS_FAIL), "{name}: {text}");
        }
    }
}

impl Writable {
    /// The image and its directory; None if the mkfs is missing.
    pub fn empty(&self, dir: &TempDir) -> Option<std::path::PathBuf> {
        let image = blank(dir, "image", self.mib);
        match &self.mkfs {
            Empty::Mkfs((package, name, args)) => {
                run(tool(package, name)?.args(*args).arg(&image));
            }
            Empty::Ours(make) => std::fs::write(&image, make(self.mib)).expect("an image"),
        }
        Some(image)
    }

    pub fn mount_options(&self) -> MountOptions {
        let mut options = MountOptions::new();
        options.fstype(self.fstype).options(self.options);
        options
    }

    /// Written, unmounted, checked, read back by us and by others; changed, and
    /// all of that again. What it ought to be says a tmpfs to which the same was
    /// done.
    pub fn keeps_a_rich_tree(&self) {
        let dir = TempDir::new();
        let Some(image) = self.empty(&dir) else {
            return;
        };
        let Some(kernel) = default_kernel() else {
            return;
        };
        let reference = tmpfs(&kernel);
        let options = self.mount_options();
        for session in [rich::fill, rich::change] {
            session(&reference, &self.keeps);
            mounted(&kernel, &image, &options, |mount| {
                assert_eq!(mount.fstype(), self.fstype);
                session(mount, &self.keeps);
            });
            check(&image, self.fsck);
            let wanted = manifest(&reference, TOP, &self.keeps);
            mounted(&kernel, &image, &options, |mount| {
                assert_same(&wanted, &manifest(mount, TOP, &self.keeps));
            });
            for reader in self.readers {
                reader.agrees(&dir, &image, &wanted);
            }
        }
        assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
        check(&image, self.fsck);
    }
}
