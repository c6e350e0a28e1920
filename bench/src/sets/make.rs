//! An image of a tree, each time by a new process into a new file.

use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::readers;
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::temporary::Temporary;
use crate::tool;
use crate::tree::Tally;
use crate::workload::{make_image, mke2fs, source, Kind, TREE};
use std::path::PathBuf;
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
    let source = source(paths, kind)?;
    let job = &Job {
        paths,
        image: paths.scratch.join("made.ext4"),
        tally: kind.tally()?,
    };
    let size = kind.size(FS);
    let contestants = vec![
        Contestant::new(TANE, || {
            job.timed(make_image(paths, FS, &source.0, &job.image, size))
        })
        .noted("reproducible"),
        Contestant::new(MKE2FS, || job.timed(mke2fs(&source.0, &job.image, size)?)),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

struct Job<'a> {
    paths: &'a Paths,
    image: PathBuf,
    tally: Tally,
}

impl Job<'_> {
    /// What is in the image is compared, and the image deleted, in time of nobody's.
    fn timed(&self, mut command: Command) -> Result<f64, String> {
        let _image = Temporary(self.image.clone());
        let start = Instant::now();
        tool::output(&mut command)?;
        let time = tool::ms(start);
        // By a reader that neither of them is.
        let to = Temporary::dir(self.paths.scratch.join("out"))?;
        tool::output(&mut readers::debugfs(&self.image, &to.0)?)?;
        self.tally.check(&to.0.join(TREE))?;
        Ok(time)
    }
}
