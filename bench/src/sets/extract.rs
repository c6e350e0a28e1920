//! A whole tree out of an image, each time by new processes into a new directory.

use crate::guestfish;
use crate::mounted::{self, CopyOut};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::readers;
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::temporary::Temporary;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{Kind, Workload, TREE};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const OURS_ON_EXT4: &str = "tane, ext4";
/// Other file systems shall take at most 1.3 times what ext4 takes.
const OF_EXT4: f64 = 0.77;

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, what: &str, target| {
        let what = format!("{what}, whole process");
        Promise::new(name, Set::Extract, what, "ms", target)
    };
    let of_ext4 = || Target::than(OURS_ON_EXT4, OF_EXT4);
    let (many, large) = ("10,000 small files out of", "one file of 256 MiB out of");
    vec![
        row("extract-many", &format!("{many} ext4"), Target::Best(1.0)),
        row("extract-large", &format!("{large} ext4"), Target::Best(1.0)),
        row("extract-many-xfs", &format!("{many} xfs"), of_ext4()),
        row("extract-large-xfs", &format!("{large} xfs"), of_ext4()),
        row("extract-many-btrfs", &format!("{many} btrfs"), of_ext4()),
        row("extract-large-btrfs", &format!("{large} btrfs"), of_ext4()),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let mut words = promise.name.split('-').skip(1);
    let kind = match words.next() {
        Some("many") => Kind::Many,
        _ => Kind::Large,
    };
    let job = |fs| -> Result<Job, String> {
        let workload = Workload::with(paths, kind, fs)?;
        Ok(Job { paths, workload })
    };
    let ext4 = &job("ext4")?;
    let mut contestants = Vec::new();
    if let Some(fs) = words.next() {
        // As users run it: jailed, with the kernel image of its own choice.
        let other = job(fs)?;
        contestants.push(Contestant::new(TANE, move || other.tane(None)));
        contestants.push(Contestant::new(OURS_ON_EXT4, || ext4.tane(None)));
    } else {
        let default = || ext4.tane(Some("default"));
        contestants.push(Contestant::new(TANE, || ext4.tane(None)));
        contestants.push(Contestant::new("tane, default image", default));
        contestants.push(Contestant::new("debugfs", || ext4.timed(readers::debugfs)));
        let seven_zip = Contestant::new("7-Zip", || ext4.timed(readers::seven_zip));
        contestants.push(seven_zip.noted(tool::which_seven_zip()));
        let cp = |mount: CopyOut| move || ext4.mounted(mount);
        contestants.push(Contestant::new("fuse2fs, cp -a", cp(mounted::fuse2fs)));
        contestants.push(Contestant::new(
            "loop mount, cp -a",
            cp(mounted::loop_mount),
        ));
        contestants.push(guestfish::contestant(|| ext4.timed(guestfish::copy_out)));
    }
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    workload: Workload,
}

impl Job<'_> {
    fn timed(
        &self,
        command: impl Fn(&Path, &Path) -> Result<Command, String>,
    ) -> Result<f64, String> {
        timed(self.paths, &self.workload.tally, |to| {
            tool::output(&mut command(&self.workload.image, to)?).map(drop)
        })
    }

    fn mounted(&self, copy_out: CopyOut) -> Result<f64, String> {
        timed(self.paths, &self.workload.tally, |to| {
            copy_out(self.paths, &self.workload.image, to)
        })
    }

    fn tane(&self, config: Option<&str>) -> Result<f64, String> {
        self.timed(|image, to| readers::tane_out(self.paths, image, to, config))
    }
}

/// Into a new directory; deleting it and comparing are not timed.
pub fn timed(
    paths: &Paths,
    expected: &Tally,
    extract: impl Fn(&Path) -> Result<(), String>,
) -> Result<f64, String> {
    let to = Temporary::dir(paths.scratch.join("out"))?;
    let start = Instant::now();
    extract(&to.0)?;
    let time = tool::ms(start);
    expected.check(&to.0.join(TREE))?;
    Ok(time)
}
