//! The most memory that a copy of much has at a time, out of an image and into one:
//! less than there is to be copied.

use crate::memory::peak;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::readers;
use crate::report::{Report, TANE};
use crate::target::Target::AtMost;
use crate::temporary::Temporary;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{source, Kind, Workload, BIG, BIG_SIZE, TREE};
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
        row("extract-memory", "ext4, copied out"),
        row("extract-memory-xfs", "xfs, copied out"),
        row("extract-memory-btrfs", "btrfs, copied out"),
        row("extract-memory-qcow2", "ext4 in a qcow2, copied out"),
        row("copy-in-memory", "ext4 that was empty, copied in"),
    ]
}

pub fn is_of(promise: &Promise) -> bool {
    promise.unit == "MB"
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let runs = report.runs.min(RUNS);
    let is_named = |fs: &&str| promise.name.ends_with(fs);
    let fs = ["xfs", "btrfs"].into_iter().find(is_named);
    let fs = fs.unwrap_or("ext4");
    let workload = Workload::with(paths, Kind::Big, fs)?;
    let job = &Job {
        paths,
        tally: workload.tally,
    };
    let (raw, to) = (&workload.image, &job.destination());
    let with = "tane, default image";
    let contestants = match promise.name.as_str() {
        "copy-in-memory" => {
            let source = &source(paths, Kind::Big)?;
            let lanes = vec![
                Contestant::new(TANE, || job.copy_in(&source.0, None)),
                Contestant::new(with, || job.copy_in(&source.0, Some("default"))),
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
                Contestant::new(TANE, move || job.tane_out(&container.0, None)),
                Contestant::new(with, move || job.tane_out(&image, Some("default"))),
            ]
        }
        _ if fs != "ext4" => vec![Contestant::new(TANE, || job.tane_out(raw, None))],
        _ => vec![
            Contestant::new(TANE, || job.tane_out(raw, None)),
            Contestant::new(with, || job.tane_out(raw, Some("default"))),
            Contestant::new("debugfs", || job.out(readers::debugfs(raw, to))),
            Contestant::new("7-Zip", || job.out(readers::seven_zip(raw, to)))
                .noted(tool::which_seven_zip()),
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
    fn out(&self, command: Result<Command, String>) -> Result<f64, String> {
        let to = Temporary::dir(self.destination())?;
        let most = peak(&mut command?)?;
        self.tally.check(&to.0.join(TREE))?;
        Ok(most as f64 / 1e6)
    }

    fn tane_out(&self, image: &Path, config: Option<&str>) -> Result<f64, String> {
        let to = self.destination();
        self.out(readers::tane_out(self.paths, image, &to, config))
    }

    /// Into a new image, out of which others get the same again.
    fn copy_in(&self, source: &Path, config: Option<&str>) -> Result<f64, String> {
        let image = Temporary(self.paths.disk.join("new.ext4"));
        let mke2fs = tool::need("mke2fs", "e2fsprogs")?;
        let mut command = tool::command(&mke2fs, ["-q", "-F", "-t", "ext4"]);
        tool::output(command.arg(&image.0).arg(BIG_SIZE))?;
        let mut command = readers::tane(self.paths, &["cp", "-r"], config)?;
        command.arg(source.join(TREE));
        command.arg(readers::inside(&image.0, ""));
        let most = peak(&mut command)?;
        let e2fsck = tool::need("e2fsck", "e2fsprogs")?;
        tool::output(tool::command(&e2fsck, ["-f", "-n"]).arg(&image.0))?;
        let to = Temporary::dir(self.destination())?;
        tool::output(&mut readers::debugfs(&image.0, &to.0)?)?;
        self.tally.check(&to.0.join(TREE))?;
        Ok(most as f64 / 1e6)
    }
}
