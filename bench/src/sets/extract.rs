//! A whole tree out of an image, each time by new processes into a new directory.

use crate::mount::is_root;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target::AtMost;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{Kind, Workload, TREE};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, what: &str, most| {
        let what = format!("{what} out of ext4, whole process");
        Promise::new(name, Set::Extract, what, "ms", AtMost(most))
    };
    vec![
        row("extract-many", "10,000 small files", 400.0),
        row("extract-large", "one file of 256 MiB", 250.0),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let kind = match promise.name.as_str() {
        "extract-many" => Kind::Many,
        _ => Kind::Large,
    };
    let job = &Job {
        paths,
        workload: Workload::get(paths, kind)?,
    };
    let contestants = vec![
        Contestant::new(TANE, || job.timed(|to| job.tane("default", to))),
        Contestant::new("tane, tiny image", || job.timed(|to| job.tane("tiny", to))),
        Contestant::new("tane mount, cp -a", || job.timed(|to| job.tane_mount(to))),
        Contestant::new("debugfs", || job.timed(|to| job.debugfs(to))),
        Contestant::new("7-Zip", || job.timed(|to| job.seven_zip(to))),
        Contestant::new("fuse2fs, cp -a", || job.timed(|to| job.fuse2fs(to))),
        Contestant::new("loop mount, cp -a", || job.timed(|to| job.loop_mount(to))),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    workload: Workload,
}

impl Job<'_> {
    /// Into a new directory; deleting it and comparing are not timed.
    fn timed(&self, extract: impl Fn(&Path) -> Result<(), String>) -> Result<f64, String> {
        let to = self.paths.scratch.join("out");
        let failed = |e: std::io::Error| format!("{}: {e}", to.display());
        fs::create_dir(&to).map_err(failed)?;
        let start = Instant::now();
        let done = extract(&to);
        let time = tool::ms(start);
        let tally = Tally::of(&to.join(TREE));
        fs::remove_dir_all(&to).map_err(failed)?;
        done?;
        if tally.map_err(failed)? != self.workload.tally {
            return Err("what came out is not what went in".into());
        }
        Ok(time)
    }

    fn tane(&self, config: &str, to: &Path) -> Result<(), String> {
        let mut from = self.image();
        from.push(format!(":/{TREE}"));
        let mut command = tool::command(&self.paths.tane, ["--kernel"]);
        command.arg(self.paths.image(config)?).args(["cp", "-r"]);
        tool::output(command.arg(from).arg(to)).map(drop)
    }

    /// The mount's own command ends it: it waits until the process has gone.
    fn tane_mount(&self, to: &Path) -> Result<(), String> {
        need_fuse()?;
        let mount = Mounted::new(self.paths)?;
        let mut command = tool::command(&self.paths.tane, ["--kernel"]);
        command.arg(self.paths.image("default")?);
        command.args(["mount", "--background"]).arg(self.image());
        tool::output(command.arg(&mount.point))?;
        mount.copy_out(to)?;
        let mut command = tool::command(&self.paths.tane, ["umount"]);
        tool::output(command.arg(&mount.point))?;
        mount.done.set(true);
        Ok(())
    }

    fn debugfs(&self, to: &Path) -> Result<(), String> {
        let program = tool::need("debugfs", "e2fsprogs")?;
        let request = format!("rdump /{TREE} {}", to.display());
        let mut command = tool::command(&program, ["-R", &request]);
        tool::output(command.arg(self.image())).map(drop)
    }

    fn seven_zip(&self, to: &Path) -> Result<(), String> {
        let mut into = OsString::from("-o");
        into.push(to);
        let mut command = tool::command(&tool::seven_zip()?, ["x", "-y", "-bd"]);
        command.arg(into).arg(self.image()).arg(TREE);
        tool::output(&mut command).map(drop)
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
