//! tane make-image of a TOML file: a disk with several partitions.

use super::make_image::{complain, fed, finish, reads, replaceable, said, Args, Destination};
use crate::copy::{Progress, Report};
use crate::failure::{Failure, Result};
use crate::means::Means;
use crate::session::Global;
use crate::session::{begin_making, Fills, Needs};
use serde_json::json;
use tane_make::layout::{Layout, Partition};
use tane_make::partitions::{Disk, DiskFiles, Placed};
use tane_make::By;

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    if global.fs.is_some() {
        let text = "make-image: --fs is said of each partition, in the TOML file";
        return Err(Failure::usage(text));
    }
    let spec = args.spec(global)?;
    let layout = Disk::layout(&spec).map_err(said)?;
    let destination = replaceable(args, global)?;
    let files = DiskFiles::create(&args.image, &layout)?;
    confine(args, &layout, &files, &destination, global)?;

    let means = Means(global);
    let disk = Disk::of(&layout, &spec, files, &means).map_err(said)?;
    let progress = Progress::new(args.progress, || disk.total());
    let report = Report::new(progress, global.verbose, global.quiet);
    let by = By {
        observer: &report,
        means: &means,
    };
    for found in disk.gathered() {
        complain(args, found, &report, global);
    }
    let (new, partitions) = disk.build(by)?;
    let size = new.size()?;
    finish(args, destination, new, &report, global, |json| {
        json["size"] = size.into();
        json["table"] = format!("{:?}", layout.table).to_lowercase().into();
        json["partitions"] = partitions.iter().map(told).collect();
    })
}

/// Into a jail.
fn confine(
    args: &Args,
    layout: &Layout,
    files: &DiskFiles,
    destination: &Destination,
    global: &Global,
) -> Result<()> {
    let making = destination.making(files.paths(), args);
    let kinds = || layout.partitions.iter().filter_map(Partition::kind);
    let fills = Fills::of(kinds().map(|kind| files.filled(kind)))?;
    let needs = Needs::default().makes(making).fills(fills).temporary();
    let needs = needs.shown(files.shown()).fed(fed(kinds()));
    let needs = files.paths().fold(needs, |needs, path| needs.change(path));
    let sources = layout.partitions.iter().flat_map(Partition::files);
    begin_making(&args.image, reads(needs, sources, global)?, global)
}

fn told(placed: &Placed) -> serde_json::Value {
    json!({
        "start": placed.start,
        "size": placed.size,
        "fs": placed.fs,
        "label": placed.label,
        "uuid": placed.uuid,
    })
}
