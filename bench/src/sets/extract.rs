//! A whole tree out of an image, each time by new processes into a new directory.

use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{Kind, Workload, TREE};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
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
        contestants.push(Contestant::new(TANE, move || {
            other.timed(|to| other.tane(None, to))
        }));
        contestants.push(Contestant::new(OURS_ON_EXT4, || {
            ext4.timed(|to| ext4.tane(None, to))
        }));
    } else {
        let default = || ext4.timed(|to| ext4.tane(Some("default"), to));
        contestants.push(Contestant::new(TANE, || {
            ext4.timed(|to| ext4.tane(None, to))
        }));
        contestants.push(Contestant::new("tane, default image", default));
        contestants.push(Contestant::new("debugfs", || {
            ext4.timed(|to| ext4.debugfs(to))
        }));
        contestants.push(Contestant::new("7-Zip", || {
            ext4.timed(|to| ext4.seven_zip(to))
        }));
    }
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    workload: Workload,
}

impl Job<'_> {
    fn timed(&self, extract: impl Fn(&Path) -> Result<(), String>) -> Result<f64, String> {
        timed(self.paths, &self.workload.tally, extract)
    }

    fn tane(&self, config: Option<&str>, to: &Path) -> Result<(), String> {
        let mut from = self.image();
        from.push(format!(":/{TREE}"));
        let mut command = tool::command(&self.paths.tane, ["cp", "-r"]);
        if let Some(config) = config {
            command.arg("--kernel").arg(self.paths.image(config)?);
        }
        tool::output(command.arg(from).arg(to)).map(drop)
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

    fn image(&self) -> OsString {
        self.workload.image.as_os_str().to_os_string()
    }
}

/// Into a new directory; deleting it and comparing are not timed.
pub fn timed(
    paths: &Paths,
    expected: &Tally,
    extract: impl Fn(&Path) -> Result<(), String>,
) -> Result<f64, String> {
    let to = paths.scratch.join("out");
    let failed = |e: std::io::Error| format!("{}: {e}", to.display());
    fs::create_dir(&to).map_err(failed)?;
    let start = Instant::now();
    let done = extract(&to);
    let time = tool::ms(start);
    let tally = Tally::of(&to.join(TREE));
    fs::remove_dir_all(&to).map_err(failed)?;
    done?;
    if tally.map_err(failed)? != *expected {
        return Err("what came out is not what went in".into());
    }
    Ok(time)
}
