//! A whole tree out of an image by `cp -a` from a mount of it: mounting, copying and
//! unmounting, each time by new processes into a new directory.

use super::extract::timed;
use crate::mount::is_root;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::tool;
use crate::workload::{Kind, Workload, TREE};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const FUSE2FS: &str = "fuse2fs";

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, what: &str, target| {
        let what = format!("{what} out of a mounted ext4 by cp -a");
        Promise::new(name, Set::Mount, what, "ms", target)
    };
    vec![
        row(
            "mount-many",
            "10,000 small files",
            Target::than(FUSE2FS, 5.0),
        ),
        row("mount-large", "one file of 256 MiB", Target::None),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let kind = match promise.name.as_str() {
        "mount-many" => Kind::Many,
        _ => Kind::Large,
    };
    let workload = Workload::get(paths, kind)?;
    let (job, tally) = (
        &Job {
            paths,
            workload: &workload,
        },
        &workload.tally,
    );
    let contestants = vec![
        Contestant::new(TANE, || timed(paths, tally, |to| job.tane_mount(to))),
        Contestant::new(FUSE2FS, || timed(paths, tally, |to| job.fuse2fs(to))),
        Contestant::new("loop mount", || {
            timed(paths, tally, |to| job.loop_mount(to))
        }),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    workload: &'a Workload,
}

impl Job<'_> {
    /// The mount's own command ends it: it waits until the process has gone.
    fn tane_mount(&self, to: &Path) -> Result<(), String> {
        need_fuse()?;
        let mount = Mounted::new(self.paths)?;
        let mut command = tool::command(&self.paths.tane, ["mount", "--background"]);
        command.arg(self.image());
        tool::output(command.arg(&mount.point))?;
        mount.copy_out(to)?;
        let mut command = tool::command(&self.paths.tane, ["umount"]);
        tool::output(command.arg(&mount.point))?;
        mount.done.set(true);
        Ok(())
    }

    fn fuse2fs(&self, to: &Path) -> Result<(), String> {
        let program = tool::need("fuse2fs", "fuse2fs")?;
        need_fuse()?;
        let mount = Mounted::new(self.paths)?;
        let mut command = tool::command(&program, ["-o", "ro"]);
        tool::output(command.arg(self.image()).arg(&mount.point))?;
        mount.copy_out(to)?;
        mount.unmount()
    }

    fn loop_mount(&self, to: &Path) -> Result<(), String> {
        if !is_root() {
            return Err("only root may mount".into());
        }
        let program = tool::need("mount", "mount")?;
        let mount = Mounted::new(self.paths)?;
        let mut command = tool::command(&program, ["-o", "ro,loop"]);
        tool::output(command.arg(self.image()).arg(&mount.point))?;
        mount.copy_out(to)?;
        mount.unmount()
    }

    fn image(&self) -> OsString {
        self.workload.image.as_os_str().to_os_string()
    }
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
