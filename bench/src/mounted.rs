//! Copies out of an image by `cp -a` from a mount of it: mounting, copying, unmounting.

use crate::mount::is_root;
use crate::paths::Paths;
use crate::tool;
use crate::workload::TREE;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies the tree of an image into a directory.
pub type CopyOut = fn(&Paths, &Path, &Path) -> Result<(), String>;

/// The mount's own command ends it: it waits until the process has gone.
pub fn tane(paths: &Paths, image: &Path, to: &Path) -> Result<(), String> {
    tane_with(&[], paths, image, to)
}

/// The same, where the workload's lack of extended attributes may be told.
pub fn tane_xattrs_if_any(paths: &Paths, image: &Path, to: &Path) -> Result<(), String> {
    tane_with(&["--xattrs-if-any"], paths, image, to)
}

fn tane_with(options: &[&str], paths: &Paths, image: &Path, to: &Path) -> Result<(), String> {
    need_fuse()?;
    let mount = Mounted::new(paths)?;
    let mut command = tool::command(&paths.tane, ["mount", "--background"]);
    tool::output(command.args(options).arg(image).arg(&mount.point))?;
    mount.copy_out(to)?;
    let mut command = tool::command(&paths.tane, ["umount"]);
    tool::output(command.arg(&mount.point))?;
    mount.done.set(true);
    Ok(())
}

pub fn fuse2fs(paths: &Paths, image: &Path, to: &Path) -> Result<(), String> {
    let program = tool::need("fuse2fs", "fuse2fs")?;
    need_fuse()?;
    let mount = Mounted::new(paths)?;
    let mut command = tool::command(&program, ["-o", "ro"]);
    tool::output(command.arg(image).arg(&mount.point))?;
    mount.copy_out(to)?;
    mount.unmount()
}

pub fn loop_mount(paths: &Paths, image: &Path, to: &Path) -> Result<(), String> {
    if !is_root() {
        return Err("only root may mount".into());
    }
    let program = tool::need("mount", "mount")?;
    let mount = Mounted::new(paths)?;
    let mut command = tool::command(&program, ["-o", "ro,loop"]);
    tool::output(command.arg(image).arg(&mount.point))?;
    mount.copy_out(to)?;
    mount.unmount()
}

fn need_fuse() -> Result<(), String> {
    let device = Path::new("/dev/fuse");
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    opened.map_err(|e| format!("{} cannot be used: {e}", device.display()))?;
    Ok(())
}

/// Where something is mounted; not any more once dropped.
struct Mounted {
    point: PathBuf,
    done: std::cell::Cell<bool>,
}

impl Mounted {
    fn new(paths: &Paths) -> Result<Self, String> {
        let point = paths.scratch.join("mnt");
        fs::create_dir_all(&point).map_err(|e| format!("{}: {e}", point.display()))?;
        let done = false.into();
        Ok(Self { point, done })
    }

    fn copy_out(&self, to: &Path) -> Result<(), String> {
        let program = tool::need("cp", "coreutils")?;
        let mut command = tool::command(&program, ["-a"]);
        tool::output(command.arg(self.point.join(TREE)).arg(to)).map(drop)
    }

    fn unmount(&self) -> Result<(), String> {
        self.done.set(true);
        let mut command = if is_root() {
            tool::command(&tool::need("umount", "mount")?, [&self.point])
        } else {
            let mut command = tool::command(&tool::need("fusermount", "fuse")?, ["-u"]);
            command.arg(&self.point);
            command
        };
        tool::output(&mut command).map(drop)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.done.get() {
            let _ = self.unmount();
        }
    }
}
