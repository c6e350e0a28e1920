//! Images that are mounted by FUSE, in a directory of a test's own.

use super::*;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Child;
use tane_test_support::eventually;

/// False, and the test is skipped, where nothing can be mounted by FUSE.
#[track_caller]
pub fn has_fuse() -> bool {
    has_kernel() && tane_test_support::has_fuse()
}

/// A mount that goes with its test.
pub struct Mounted<'s> {
    s: &'s Scratch,
    point: PathBuf,
}

impl<'s> Mounted<'s> {
    /// In the background, on `mnt`.
    pub fn new(s: &'s Scratch, args: &[&str]) -> Mounted<'s> {
        let point = s.join("mnt");
        std::fs::create_dir_all(&point).expect("a directory");
        succeed(
            s.tane()
                .args(["mount", "--background"])
                .args(args)
                .arg("mnt"),
        );
        Mounted { s, point }
    }

    /// What is mounted on `mnt` already.
    pub fn adopt(s: &'s Scratch) -> Mounted<'s> {
        let point = s.join("mnt");
        Mounted { s, point }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Everything is in the image when this returns.
    pub fn unmount(self) {
        succeed(self.s.tane().args(["umount", "mnt"]));
    }

    /// The process that serves it.
    pub fn server(&self) -> i32 {
        /// `SYNC` of fuse/src/ioctl.rs.
        const SYNC: libc::c_ulong = 0x8004_f574;
        let root = std::fs::File::open(&self.point).expect("the mount");
        let mut process = 0;
        // SAFETY: room for what the request answers.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SYNC, &raw mut process) };
        assert_eq!(done, 0);
        process
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Whatever happened, nothing stays mounted below the scratch directory.
        detach(&self.point);
    }
}

/// Takes a mount away if there is one.
pub fn detach(point: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(point.as_os_str().as_bytes()).expect("a path");
    // SAFETY: a C string.
    unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
}

/// The host's own kernel has the image mounted, through a loop device.
pub struct Loop(PathBuf);

impl Loop {
    pub fn new(s: &Scratch, image: &Path) -> Loop {
        let point = s.join("loop");
        std::fs::create_dir_all(&point).expect("a directory");
        succeed(sbin("mount").args(["-o", "ro,loop"]).arg(image).arg(&point));
        Loop(point)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = sbin("umount").arg(&self.0).status();
    }
}

/// Mounts in the foreground and waits until it is there.
pub fn foreground(s: &Scratch, args: &[&str]) -> Child {
    std::fs::create_dir_all(s.join("mnt")).expect("a directory");
    let mut child = s
        .tane()
        .arg("mount")
        .args(args)
        .arg("mnt")
        .stderr(Stdio::piped())
        .spawn()
        .expect("tane");
    eventually("it is mounted", || {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended");
        is_mounted(&s.join("mnt"))
    });
    child
}

pub fn is_mounted(point: &Path) -> bool {
    let point = point.canonicalize().unwrap_or_else(|_| point.into());
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let point = point.to_str().expect("UTF-8");
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(point))
}
