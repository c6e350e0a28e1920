//! A whole tree out of an image by `cp -a` from a mount of it: mounting, copying and
//! unmounting, each time by new processes into a new directory.

use super::extract::timed;
use crate::mounted::{self, CopyOut};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, TANE};
use crate::target::Target;
use crate::workload::{Kind, Workload};

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
    let by = |copy_out: CopyOut| {
        let Workload { image, tally } = &workload;
        move || timed(paths, tally, |to| copy_out(paths, image, to))
    };
    let contestants = vec![
        Contestant::new(TANE, by(mounted::tane)),
        Contestant::new("tane, --xattrs-if-any", by(mounted::tane_xattrs_if_any)),
        Contestant::new(FUSE2FS, by(mounted::fuse2fs)),
        Contestant::new("loop mount", by(mounted::loop_mount)),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}
