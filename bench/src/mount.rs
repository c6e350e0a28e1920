//! File systems of the host, mounted for a measurement where nobody else sees them.

use crate::kernel::c_path;
use crate::tool;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;

pub fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Let what this process mounts be seen by it and its children only, and go
/// with them. Without the right to do so nothing will be mounted either.
pub fn keep_private() {
    if !is_root() {
        return;
    }
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: C strings; no other thread exists yet.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0 {
            libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null());
        }
    }
}

/// A file system without a device; not mounted any more once dropped.
pub struct Mounted {
    pub point: PathBuf,
}

impl Mounted {
    /// Only root may, so the error says that or what mount(2) says.
    pub fn new(kind: &str, point: &Path) -> Result<Self, String> {
        if !is_root() {
            return Err(format!("only root may mount a {kind}"));
        }
        std::fs::create_dir_all(point).map_err(|e| format!("{}: {e}", point.display()))?;
        let (kind_c, at) = (CString::new(kind).unwrap_or_default(), c_path(point));
        // SAFETY: C strings.
        let failed = unsafe {
            libc::mount(
                kind_c.as_ptr(),
                at.as_ptr(),
                kind_c.as_ptr(),
                0,
                ptr::null(),
            )
        };
        if failed != 0 {
            let error = std::io::Error::last_os_error();
            return Err(format!("mounting a {kind}: {error}"));
        }
        Ok(Self {
            point: point.into(),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let at = c_path(&self.point);
        // SAFETY: a C string.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// A file with a file system on it, behind a loop device; unmounted when dropped.
pub struct Loop {
    pub point: PathBuf,
}

impl Loop {
    pub fn new(image: &Path, point: &Path) -> Result<Self, String> {
        if !is_root() {
            return Err("only root may mount a disk file".into());
        }
        let program = tool::need("mount", "mount")?;
        std::fs::create_dir_all(point).map_err(|e| format!("{}: {e}", point.display()))?;
        let mut command = tool::command(&program, ["-o", "loop"]);
        tool::output(command.arg(image).arg(point))?;
        Ok(Self {
            point: point.into(),
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // umount(8) gives the loop device back too.
        if let Some(program) = tool::find("umount") {
            let _ = tool::output(&mut tool::command(&program, [&self.point]));
        }
    }
}
