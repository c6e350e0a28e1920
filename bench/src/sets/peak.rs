//! The most memory that a copy of much has at a time, out of an image and into one:
//! less than there is to be copied.

use crate::memory::peak;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target::AtMost;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{Kind, Source, Workload, BIG, BIG_SIZE, TREE};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// It hardly differs from run to run, and each takes long.
const RUNS: u32 = 3;

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, how: &str| {
        let what = format!("{BIG} {how}: peak memory of the whole copy");
        Promise::new(name, Set::Extract, what, "MB", AtMost(150.0))
    };
    vec![
        row("extract-memory", "copied out"),
        row("extract-memory-qcow2", "in a qcow2 copied out"),
        row("copy-in-memory", "that was empty, copied in"),
    ]
}

pub fn is_of(promise: &Promise) -> bool {
    promise.unit == "MB"
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let runs = report.runs.min(RUNS);
    let workload = Workload::get(paths, Kind::Big)?;
    let job = &Job {
        paths,
        tally: workload.tally,
    };
    let raw = &workload.image;
    let with = "tane, default image";
    let contestants = match promise.name.as_str() {
        "copy-in-memory" => {
            let source = &Source::new(paths, Kind::Big)?;
            let lanes = vec![
                Contestant::new(TANE, || job.copy_in(&source.dir, None)),
                Contestant::new(with, || job.copy_in(&source.dir, Some("default"))),
            ];
            race(promise, runs, lanes, report);
            return Ok(());
        }
        "extract-memory-qcow2" => {
            let container = Temporary(paths.disk.join("big.qcow2"));
            let program = tool::need("qemu-img", "qemu-utils")?;
            let mut command = tool::command(&program, ["convert", "-O", "qcow2"]);
            tool::output(command.arg(raw).arg(&container.0))?;
            let image = container.0.clone();
            vec![
                Contestant::new(TANE, move || job.out(job.tane_out(&container.0, None)?)),
                Contestant::new(with, move || {
                    job.out(job.tane_out(&image, Some("default"))?)
                }),
            ]
        }
        _ => vec![
            Contestant::new(TANE, || job.out(job.tane_out(raw, None)?)),
            Contestant::new(with, || job.out(job.tane_out(raw, Some("default"))?)),
            Contestant::new("debugfs", || job.out(job.debugfs(raw)?)),
            Contestant::new("7-Zip", || job.out(job.seven_zip(raw)?)),
        ],
    };
    race(promise, runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    tally: Tally,
}

impl Job<'_> {
    fn destination(&self) -> PathBuf {
        self.paths.scratch.join("out")
    }

    /// Copies into the destination, a new directory.
    fn out(&self, mut command: Command) -> Result<f64, String> {
        let to = Temporary::dir(self.destination())?;
        let most = peak(&mut command)?;
        self.compare(&to.0.join(TREE))?;
        Ok(most as f64 / 1e6)
    }

    fn compare(&self, tree: &Path) -> Result<(), String> {
        let tally = Tally::of(tree).map_err(|e| format!("{}: {e}", tree.display()))?;
        match tally == self.tally {
            true => Ok(()),
            false => Err("what was copied is not what was there".into()),
        }
    }

    /// With the kernel image of the command's own choice, or with this.
    fn tane(&self, config: Option<&str>) -> Result<Command, String> {
        let mut command = tool::command(&self.paths.tane, ["cp", "-r"]);
        if let Some(config) = config {
            command.arg("--kernel").arg(self.paths.image(config)?);
        }
        Ok(command)
    }

    fn tane_out(&self, image: &Path, config: Option<&str>) -> Result<Command, String> {
        let mut command = self.tane(config)?;
        let from = inside(image, &format!("/{TREE}"));
        command.arg(from).arg(self.destination());
        Ok(command)
    }

    /// Into a new image, out of which others get the same again.
    fn copy_in(&self, source: &Path, config: Option<&str>) -> Result<f64, String> {
        let image = Temporary(self.paths.disk.join("new.ext4"));
        let mke2fs = tool::need("mke2fs", "e2fsprogs")?;
        let mut command = tool::command(&mke2fs, ["-q", "-F", "-t", "ext4"]);
        tool::output(command.arg(&image.0).arg(BIG_SIZE))?;
        let mut command = self.tane(config)?;
        command.arg(source.join(TREE)).arg(inside(&image.0, "/"));
        let most = peak(&mut command)?;
        let e2fsck = tool::need("e2fsck", "e2fsprogs")?;
        tool::output(tool::command(&e2fsck, ["-f", "-n"]).arg(&image.0))?;
        let to = Temporary::dir(self.destination())?;
        tool::output(&mut self.debugfs(&image.0)?)?;
        self.compare(&to.0.join(TREE))?;
        Ok(most as f64 / 1e6)
    }

    fn debugfs(&self, image: &Path) -> Result<Command, String> {
        let program = tool::need("debugfs", "e2fsprogs")?;
        let request = format!("rdump /{TREE} {}", self.destination().display());
        let mut command = tool::command(&program, ["-R", &request]);
        command.arg(image);
        Ok(command)
    }

    fn seven_zip(&self, image: &Path) -> Result<Command, String> {
        let mut into = OsString::from("-o");
        into.push(self.destination());
        let mut command = tool::command(&tool::seven_zip()?, ["x", "-y", "-bd"]);
        command.arg(into).arg(image).arg(TREE);
        Ok(command)
    }
}

fn inside(image: &Path, path: &str) -> OsString {
    let mut address = image.as_os_str().to_os_string();
    address.push(format!(":{path}"));
    address
}

/// A file or directory that is gone once dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn dir(path: PathBuf) -> Result<Self, String> {
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = match self.0.is_dir() {
            true => fs::remove_dir_all(&self.0),
            false => fs::remove_file(&self.0),
        };
    }
}
