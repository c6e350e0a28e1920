//! A kernel of a test's own with an empty tmpfs: what needs no disk image.
#![allow(dead_code)]

use std::ops::Deref;
use std::path::PathBuf;
use tane::{Kernel, Mount, MountOptions};

/// `TANE_TEST_IMAGE`, or the tiny image that `make kernel` leaves in build/.
pub fn image_path() -> PathBuf {
    std::env::var_os("TANE_TEST_IMAGE").map_or_else(
        || {
            let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            PathBuf::from(workspace).join("build/images/tane-tiny.elf")
        },
        PathBuf::from,
    )
}

pub fn boot() -> Kernel {
    let mut builder = Kernel::builder().image(image_path()).memory(64 << 20);
    if std::env::var_os("TANE_TEST_LOG").is_some() {
        builder = builder.log(|text| eprint!("{text}"));
    }
    builder.boot().unwrap_or_else(|e| panic!("{e}"))
}

pub fn tmpfs_on(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    let mount = options.fstype("tmpfs").mount(kernel, "tmpfs");
    mount.unwrap_or_else(|e| panic!("{e}"))
}

/// A kernel of the test's own with an empty tmpfs.
pub struct Scratch {
    pub mount: Mount,
    pub kernel: Kernel,
}

impl Deref for Scratch {
    type Target = Mount;

    fn deref(&self) -> &Mount {
        &self.mount
    }
}

pub fn scratch() -> Scratch {
    let kernel = boot();
    Scratch {
        mount: tmpfs_on(&kernel),
        kernel,
    }
}

/// The errno of what should have failed.
pub fn errno<T>(result: tane::Result<T>) -> i32 {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.errno(),
    }
}

/// The names in a listing, sorted.
pub fn names(listing: tane::ReadDir) -> Vec<String> {
    let name = |entry: tane::Result<tane::DirEntry>| {
        let name = entry.unwrap().into_file_name();
        name.to_string_lossy().into_owned()
    };
    let mut names: Vec<_> = listing.map(name).collect();
    names.sort();
    names
}
