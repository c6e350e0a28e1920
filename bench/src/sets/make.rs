//! An image of a tree, each time by a new process into a new file.

use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::tool;
use crate::workload::{make_image, mke2fs, Kind, Source, TREE};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const MKE2FS: &str = "mke2fs -d";
const FS: &str = "ext4";

pub fn promises() -> Vec<Promise> {
    let row = |name: &str, what: &str| {
        let what = format!("an ext4 image of {what}, whole process");
        Promise::new(name, Set::Make, what, "ms", Target::than(MKE2FS, 1.0))
    };
    vec![
        row("make-many", "10,000 small files"),
        row("make-large", "one file of 256 MiB"),
    ]
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let kind = match promise.name.as_str() {
        "make-many" => Kind::Many,
        _ => Kind::Large,
    };
    let source = Source::new(paths, kind)?;
    let job = &Job {
        paths,
        kind,
        image: paths.scratch.join("made.ext4"),
    };
    let size = kind.size(FS);
    let contestants = vec![
        Contestant::new(TANE, || {
            job.timed(make_image(paths, FS, &source.dir, &job.image, size))
        })
        .noted("reproducible"),
        Contestant::new(MKE2FS, || job.timed(mke2fs(&source.dir, &job.image, size)?)),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    kind: Kind,
    image: PathBuf,
}

impl Job<'_> {
    /// What is in the image is compared, and the image deleted, in time of nobody's.
    fn timed(&self, mut command: Command) -> Result<f64, String> {
        let start = Instant::now();
        let done = tool::output(&mut command);
        let time = tool::ms(start);
        let same = done.and_then(|_| self.is_whole());
        let _ = fs::remove_file(&self.image);
        match same? {
            true => Ok(time),
            false => Err("what is in the image is not what went in".into()),
        }
    }

    /// By a reader that neither of them is.
    fn is_whole(&self) -> Result<bool, String> {
        let to = self.paths.scratch.join("out");
        fs::create_dir(&to).map_err(|e| failed(&to, &e))?;
        let program = tool::need("debugfs", "e2fsprogs")?;
        let request = format!("rdump /{TREE} {}", to.display());
        let mut command = tool::command(&program, ["-R", &request]);
        tool::output(command.arg(&self.image))?;
        let tally = crate::tree::Tally::of(&to.join(TREE)).map_err(|e| failed(&to, &e));
        fs::remove_dir_all(&to).map_err(|e| failed(&to, &e))?;
        Ok(tally? == self.kind.tally()?)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
