//! tane make-image of a TOML file: a disk with several partitions.

use super::make_image::{check, complain, finish, replaceable, Args};
use crate::args::Global;
use crate::copy::{Owner, Progress, Report};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::means::Means;
use crate::session::{begin_making, Needs};
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use tane_make::build::{begin, end, is_read_only, Recipe};
use tane_make::file::{copy_data, Unfinished};
use tane_make::layout::{Layout, Partition};
use tane_make::mkfs;
use tane_make::table::{Slot, ALIGNMENT};
use tane_make::{By, Gathered, Identity, Spec};

/// A partition on its way.
struct Part<'a> {
    plan: &'a Partition,
    /// As if make-image were asked for it alone.
    spec: Spec,
    /// Its files, of one that has any.
    files: Option<Gathered>,
    identity: Identity,
    /// Where it is made first.
    made: Unfinished,
    /// In bytes.
    size: u64,
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    if let Some(option) = said_elsewhere(args, global) {
        let text = format!("make-image: {option} is said of each partition, in the TOML file");
        return Err(Failure::usage(text));
    }
    let fail = |e: String| Failure::new(SOME_FAILED, format!("{}: {e}", args.source.display()));
    let layout = Layout::read(&args.source, args.size).map_err(fail)?;
    for plan in &layout.partitions {
        if let Some(kind) = plan.kind() {
            check(kind, &alone(args, plan, global)?)?;
        }
    }
    let place = replaceable(args, global)?;
    let disk = Unfinished::create(&args.image, "disk")?;
    let made: tane_make::Result<Vec<_>> = (1..=layout.partitions.len())
        .map(|number| Unfinished::create(&args.image, &format!("part{number}")))
        .collect();
    let made = made?;
    confine(args, &layout, made.iter().chain([&disk]), global)?;

    let mut parts = Vec::new();
    for (plan, made) in layout.partitions.iter().zip(made) {
        parts.push(part(args, plan, made, parts.len() + 1, global)?);
    }
    // What is as large as its content is made before places are known.
    let total = |parts: &[Part]| {
        let plans = || {
            parts
                .iter()
                .filter_map(|p| p.files.as_ref().map(|f| &f.plan))
        };
        (
            plans().map(|p| p.files).sum(),
            plans().map(|p| p.bytes).sum(),
        )
    };
    let progress = Progress::new(args.progress, || total(&parts));
    let report = Report::new(progress, global.verbose, global.quiet);
    let means = Means(global);
    let by = By {
        observer: &report,
        means: &means,
    };
    for part in &mut parts {
        if let Some(files) = &part.files {
            complain(files, &report, global);
        }
        part.begin_read_only(by)?;
    }
    let starts = arrange(&layout, &mut parts, &disk).map_err(fail)?;
    let mut partitions = Vec::new();
    let mut slots = Vec::new();
    for (part, &start) in parts.iter().zip(&starts) {
        partitions.push(part.told(start));
        slots.push(Slot {
            start,
            size: part.size,
            purpose: part.plan.purpose(),
            name: part.plan.label.as_deref().unwrap_or_default(),
            guid: part.identity.named("partition"),
        });
    }
    let sector = global.sector_size.unwrap_or(512);
    let id = parts[0].identity.named("disk");
    let written = layout.table.write(&mut disk.open()?, &slots, sector, id);
    written.map_err(|e| disk.fail(&e))?;
    drop(slots);
    // No program is started once a Linux has met what is in the files.
    for (part, &start) in parts.iter().zip(&starts) {
        part.place(&disk, start, by)?;
    }
    for (part, start) in parts.iter().zip(starts) {
        if let Some(files) = &part.files {
            end(&part.recipe(files), &disk, start, by)?;
        }
    }
    disk.sync()?;
    let size = disk.size()?;
    finish(args, place, disk, &report, global, |json| {
        json["size"] = size.into();
        json["table"] = format!("{:?}", layout.table).to_lowercase().into();
        json["partitions"] = partitions.into();
    })
}

/// An option that is for one file system.
fn said_elsewhere(args: &Args, global: &Global) -> Option<&'static str> {
    let options = [
        (!args.layer.is_empty(), "--layer"),
        (args.reference.is_some(), "--ref"),
        (args.label.is_some(), "--label"),
        (args.uuid.is_some(), "--uuid"),
        (args.partition_table.is_some(), "--partition-table"),
        (args.compression.is_some(), "--compression"),
        (args.owner != Owner::Keep, "--owner"),
        (!args.metadata.is_empty(), "--metadata"),
        (!args.xattrs.is_empty(), "--xattrs"),
        (!args.selinux.is_empty(), "--selinux"),
        (global.fs.is_some(), "--fs"),
    ];
    options
        .into_iter()
        .find(|(said, _)| *said)
        .map(|(_, name)| name)
}

/// What make-image would be told to make this one alone.
fn alone(args: &Args, plan: &Partition, global: &Global) -> Result<Spec> {
    let owner = plan.owner.as_deref().map_or(Ok(Owner::Keep), str::parse);
    let owner = owner.map_err(|e: String| Failure::usage(format!("make-image: owner: {e}")))?;
    let read_only = plan.kind().is_some_and(is_read_only);
    Ok(Spec {
        source: plan.source.clone().unwrap_or_default(),
        image: args.image.clone(),
        layer: plan.layer.clone(),
        reference: plan.reference.clone(),
        // Its partition has both.
        size: plan.size.filter(|_| !read_only),
        label: plan.label.clone().filter(|_| !read_only),
        uuid: plan.uuid.clone(),
        partition_table: None,
        compression: plan.compression.clone(),
        owner,
        metadata: plan.metadata.clone(),
        xattrs: plan.xattrs.clone(),
        selinux: plan.selinux.clone(),
        // What is not said of one is as for all.
        ..args.spec(global)?
    })
}

/// Into a jail, where all file systems are such as can be made in one.
fn confine<'a>(
    args: &Args,
    layout: &Layout,
    files: impl Iterator<Item = &'a Unfinished>,
    global: &Global,
) -> Result<()> {
    let kinds = layout.partitions.iter().filter_map(Partition::kind);
    if kinds.into_iter().any(is_read_only) {
        return Ok(());
    }
    let needs = Needs::default().write(&args.image).temporary();
    let needs = files.fold(needs, |needs, file| needs.change(&file.path));
    let sources = layout.partitions.iter().flat_map(Partition::files);
    let needs = sources.fold(needs, |needs, path: &PathBuf| needs.read(path));
    begin_making(&args.image, needs, global)
}

/// Its files and its size, as far as that is known.
fn part<'a>(
    args: &Args,
    plan: &'a Partition,
    made: Unfinished,
    number: usize,
    global: &Global,
) -> Result<Part<'a>> {
    let spec = alone(args, plan, global)?;
    let kind = plan.kind().unwrap_or("none");
    let gathered = Gathered::of(&spec, kind, &Means(global))?;
    let copied = plan.copy_blocks.as_deref().map(length).transpose()?;
    let content = match plan.kind() {
        Some(_) => gathered.plan.size,
        None => copied.unwrap_or(0),
    };
    // One that grows does so from there.
    let size = plan.size.unwrap_or(content).next_multiple_of(ALIGNMENT);
    if content > size && plan.kind().is_none() {
        let text = format!("make-image: partition {number}: what it holds has {content} bytes");
        return Err(Failure::usage(text));
    }
    let identity = gathered.identity(&spec, kind, size, &format!(" partition {number}"));
    Ok(Part {
        plan,
        files: plan.kind().is_some().then_some(gathered),
        spec,
        identity,
        made,
        size,
    })
}

fn length(path: &Path) -> Result<u64> {
    let found = path.metadata();
    let fail = |e| Failure::new(SOME_FAILED, format!("{}: {e}", path.display()));
    match found.map_err(fail)? {
        found if found.is_file() => Ok(found.len()),
        _ => {
            let text = format!("{}: is no regular file", path.display());
            Err(Failure::new(SOME_FAILED, text))
        }
    }
}

/// Where they start; the disk gets its size, and the one that grows, too.
fn arrange(
    layout: &Layout,
    parts: &mut [Part],
    disk: &Unfinished,
) -> std::result::Result<Vec<u64>, String> {
    let (before, after) = layout.table.room();
    let taken: u64 = before + after + parts.iter().map(|part| part.size).sum::<u64>();
    let size = layout.size.unwrap_or(taken);
    if taken > size {
        return Err(format!(
            "the partitions take {taken} bytes, and the disk has {size}"
        ));
    }
    if let Some(part) = parts.iter_mut().find(|part| part.plan.grow) {
        part.size += (size - taken) / ALIGNMENT * ALIGNMENT;
    }
    if let Some(n) = parts.iter().position(|part| part.size == 0) {
        return Err(format!("partition {}: nothing would be in it", n + 1));
    }
    disk.resize(size).map_err(|e| e.to_string())?;
    let mut start = before;
    let place = |part: &Part| {
        let here = start;
        start += part.size;
        here
    };
    Ok(parts.iter().map(place).collect())
}

impl Part<'_> {
    fn recipe<'a>(&'a self, files: &'a Gathered) -> Recipe<'a> {
        let kind = self.plan.kind().unwrap_or_default();
        files.recipe(&self.spec, kind, self.size, &self.identity)
    }

    /// One that is as large as its files.
    fn begin_read_only(&mut self, by: By) -> Result<()> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        if !self.plan.kind().is_some_and(is_read_only) {
            return Ok(());
        }
        begin(&self.recipe(files), &self.made, by)?;
        let len = self.made.size()?.next_multiple_of(ALIGNMENT);
        match self.plan.size {
            Some(size) if size < len => {
                let text = format!("{}: has {len} bytes, and the partition {size}", self.name());
                Err(Failure::new(SOME_FAILED, text))
            }
            Some(_) => Ok(()),
            None => {
                self.size = len;
                Ok(())
            }
        }
    }

    fn name(&self) -> String {
        let source = self
            .plan
            .source
            .as_deref()
            .unwrap_or(Path::new("partition"));
        source.display().to_string()
    }

    /// Onto the disk; a file system that Linux is to fill is empty yet.
    fn place(&self, disk: &Unfinished, start: u64, by: By) -> Result<()> {
        let fail = |e| disk.fail(&e);
        if let Some(from) = &self.plan.copy_blocks {
            let fail = |e| Failure::new(SOME_FAILED, format!("{}: {e}", from.display()));
            let file = File::open(from).map_err(fail)?;
            return copy_data(&file, &disk.open()?, start).map_err(fail);
        }
        if let Some(files) = &self.files {
            let recipe = self.recipe(files);
            if !is_read_only(recipe.filling.kind) {
                begin(&recipe, &self.made, by)?;
            }
        } else if self.plan.fs.is_some() {
            self.made.resize(self.size)?;
            let uuid = self.spec.uuid.as_deref().unwrap_or(&self.identity.uuid);
            mkfs::swap(by.means, &self.made.path, self.spec.label.as_deref(), uuid)?;
        }
        copy_data(&self.made.open()?, &disk.open()?, start).map_err(fail)?;
        Ok(self.made.resize(0)?)
    }

    fn told(&self, start: u64) -> serde_json::Value {
        let has_uuid = self.plan.fs.as_deref().is_some_and(|fs| fs != "squashfs");
        let uuid = self.spec.uuid.as_deref().unwrap_or(&self.identity.uuid);
        json!({
            "start": start,
            "size": self.size,
            "fs": self.plan.fs,
            "label": self.plan.label,
            "uuid": has_uuid.then_some(uuid),
        })
    }
}
