//! What the tests here share: file systems to try things on.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tane::{Disk, DiskOptions, Kernel, Mount, MountOptions, Tree};

/// A directory that goes away with this.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tane-test-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a temporary directory");
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A kernel of ours; None, and the test is skipped, where it is to go without.
#[track_caller]
pub fn kernel() -> Option<Kernel> {
    tane_test_support::has_kernel(tane::default_image())?;
    Some(Kernel::boot().expect("the image boots"))
}

/// A sparse file of this many MiB.
pub fn blank(dir: &TempDir, name: &str, mib: u64) -> PathBuf {
    let path = dir.path().join(name);
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(mib << 20).expect("its size");
    path
}

/// Run a tool that must succeed.
pub fn tool(name: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(name)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(arguments)
        .arg(path)
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}{errors}");
    text
}

/// An image that holds a fresh ext4.
pub fn ext4(dir: &TempDir, mib: u64) -> PathBuf {
    let path = blank(dir, "ext4.img", mib);
    tool("mkfs.ext4", &["-q", "-F", "-L", "test"], &path);
    path
}

/// Mount an image of one file system.
pub fn mount(kernel: &Kernel, path: &Path) -> (Disk, Mount) {
    let disk = kernel
        .open_disk(path, &DiskOptions::new())
        .expect("the disk");
    let mount = MountOptions::new()
        .mount(kernel, disk.device())
        .expect("the mount");
    (disk, mount)
}

/// Try the same on the host's file system and on an ext4 of our kernel: what
/// holds for one Linux holds for the other. Afterwards the ext4 must be clean.
#[track_caller]
pub fn everywhere(test: impl Fn(&Tree)) {
    let dir = TempDir::new();
    let inside = dir.path().join("host");
    std::fs::create_dir(&inside).expect("a directory");
    test(&Kernel::host().tree(&inside).expect("the directory"));

    let Some(kernel) = kernel() else { return };
    let image = ext4(&dir, 64);
    let (disk, mount) = mount(&kernel, &image);
    test(&mount);
    mount.unmount().expect("unmounts");
    disk.remove().expect("goes away");
    tool("e2fsck", &["-fn"], &image);
}
