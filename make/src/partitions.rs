//! A disk with several partitions, as a layout describes it.

use crate::build::{begin, end, filled_in, is_read_only, shown, Recipe};
use crate::error::{Error, Result};
use crate::file::{copy_data, Unfinished};
use crate::gather::{Gathered, Spec};
use crate::layout::{Layout, Partition};
use crate::means::{By, Means};
use crate::mkfs;
use crate::plan::Identity;
use crate::table::{Slot, ALIGNMENT};
use std::fs::File;
use std::path::{Path, PathBuf};
use tane_copy::Owner;

/// A partition of a disk that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where on the disk it starts, in bytes.
    pub start: u64,
    /// In bytes.
    pub size: u64,
    /// What it holds; None: nothing that was made here.
    pub fs: Option<String>,
    /// Its name.
    pub label: Option<String>,
    /// Its file system's, if that has one.
    pub uuid: Option<String>,
}

/// Files that a disk is made in. They are there before anything is looked at: a jail
/// then knows them.
pub struct DiskFiles {
    disk: Unfinished,
    parts: Vec<Unfinished>,
    /// What an erofs is made of.
    shown: Option<Unfinished>,
}

impl DiskFiles {
    /// Beside the image, and empty.
    pub fn create(image: &Path, layout: &Layout) -> Result<DiskFiles> {
        let parts = 1..=layout.partitions.len();
        let parts = parts.map(|number| Unfinished::create(image, &format!("part{number}")));
        Ok(DiskFiles {
            disk: Unfinished::create(image, "disk")?,
            parts: parts.collect::<Result<_>>()?,
            shown: shown(image, layout.partitions.iter().filter_map(Partition::kind))?,
        })
    }

    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let all = self.parts.iter().chain([&self.disk]).chain(&self.shown);
        all.map(|file| file.path.as_path())
    }

    /// What Linux fills for a file system of this kind, if that is made so: the disk, or what an
    /// erofs is made of.
    pub fn filled(&self, kind: &str) -> Result<Option<(PathBuf, File)>> {
        let file = filled_in(kind, &self.disk, self.shown.as_ref());
        file.map(|file| Ok((file.path.clone(), file.open()?)))
            .transpose()
    }

    /// What an erofs is made of.
    pub fn shown(&self) -> Option<&Path> {
        self.shown.as_ref().map(|file| file.path.as_path())
    }
}

/// A disk on its way.
pub struct Disk<'l> {
    layout: &'l Layout,
    /// Who says what is wrong: the layout's file.
    source: &'l Path,
    parts: Vec<Part<'l>>,
    new: Unfinished,
    /// What an erofs is made of.
    shown: Option<Unfinished>,
    sector_size: u32,
}

/// A partition on its way.
struct Part<'l> {
    plan: &'l Partition,
    /// As if it were made alone.
    spec: Spec,
    /// Its files, of one that has any.
    files: Option<Gathered>,
    identity: Identity,
    /// Where it is made first.
    made: Unfinished,
    /// In bytes.
    size: u64,
}

impl<'l> Disk<'l> {
    /// The layout that `common` names as its source.
    ///
    /// Errors: something in the file is wrong, or `common` says what is said of each
    /// partition.
    pub fn layout(common: &Spec) -> Result<Layout> {
        if let Some(option) = said_elsewhere(common) {
            let text = format!("{option} is said of each partition, in the TOML file");
            return Err(Error::Usage(text));
        }
        let wrong = |e: String| wrong(&common.source, &e);
        let layout = Layout::read(&common.source, common.size).map_err(wrong)?;
        for plan in &layout.partitions {
            if let Some(kind) = plan.kind() {
                alone(plan, common)?.check(kind)?;
            }
        }
        Ok(layout)
    }

    /// Reads what is to be on it, but for the bytes of files that lie in directories.
    /// What `layout` does not say of a partition is as in `common`.
    pub fn of(
        layout: &'l Layout,
        common: &'l Spec,
        files: DiskFiles,
        means: &dyn Means,
    ) -> Result<Disk<'l>> {
        let mut parts = Vec::new();
        for (plan, made) in layout.partitions.iter().zip(files.parts) {
            parts.push(Part::of(plan, common, made, parts.len() + 1, means)?);
        }
        Ok(Disk {
            layout,
            source: &common.source,
            parts,
            new: files.disk,
            shown: files.shown,
            sector_size: common.sector_size.unwrap_or(512),
        })
    }

    /// What was gathered for those partitions that have files.
    pub fn gathered(&self) -> impl Iterator<Item = &Gathered> {
        self.parts.iter().filter_map(|part| part.files.as_ref())
    }

    /// How many files there will be, and their bytes.
    pub fn total(&self) -> (u64, u64) {
        let plans = || self.gathered().map(|files| &files.plan);
        (
            plans().map(|plan| plan.files).sum(),
            plans().map(|plan| plan.bytes).sum(),
        )
    }

    /// The newest time at which one of its kernels stands, in seconds since 1970.
    pub fn time(&self) -> u64 {
        let times = self.gathered().map(Gathered::time);
        times.max().unwrap_or(0)
    }

    /// Of the disk itself: 16 bytes of a UUID.
    pub fn id(&self) -> [u8; 16] {
        self.parts
            .first()
            .map_or([0; 16], |part| part.identity.named("disk"))
    }

    /// The disk under its temporary name, durable, and where on it what lies. It is
    /// complete if nothing was reported.
    pub fn build(mut self, by: By) -> Result<(Unfinished, Vec<Placed>)> {
        // What is as large as its content is made before places are known.
        for part in &mut self.parts {
            part.begin_read_only(self.shown.as_ref(), by)?;
        }
        let starts = self.arrange()?;
        self.write_table(&starts)?;
        // No program is started once a Linux has met what is in the files.
        for (part, &start) in self.parts.iter().zip(&starts) {
            part.place(&self.new, start, by)?;
        }
        for (part, &start) in self.parts.iter().zip(&starts) {
            if let Some(files) = &part.files {
                end(&part.recipe(files), &self.new, start, by)?;
            }
        }
        self.new.sync()?;
        let placed = self.parts.iter().zip(starts);
        let placed = placed.map(|(part, start)| part.placed(start)).collect();
        Ok((self.new, placed))
    }

    /// Where they start; the disk gets its size, and the one that grows, too.
    fn arrange(&mut self) -> Result<Vec<u64>> {
        let (before, after) = self.layout.table.room();
        let taken: u64 = before + after + self.parts.iter().map(|part| part.size).sum::<u64>();
        let size = self.layout.size.unwrap_or(taken);
        if taken > size {
            let text = format!("the partitions take {taken} bytes, and the disk has {size}");
            return Err(wrong(self.source, &text));
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.plan.grow) {
            part.size += (size - taken) / ALIGNMENT * ALIGNMENT;
        }
        if let Some(n) = self.parts.iter().position(|part| part.size == 0) {
            let text = format!("partition {}: nothing would be in it", n + 1);
            return Err(wrong(self.source, &text));
        }
        self.new.resize(size)?;
        let mut start = before;
        let place = |part: &Part| {
            let here = start;
            start += part.size;
            here
        };
        Ok(self.parts.iter().map(place).collect())
    }

    fn write_table<'s>(&'s self, starts: &[u64]) -> Result<()> {
        let slot = |(part, &start): (&'s Part<'l>, &u64)| Slot {
            start,
            size: part.size,
            purpose: part.plan.purpose(),
            name: part.plan.label.as_deref().unwrap_or_default(),
            guid: part.identity.named("partition"),
        };
        let slots: Vec<_> = self.parts.iter().zip(starts).map(slot).collect();
        let table = self.layout.table;
        let written = table.write(&mut self.new.open()?, &slots, self.sector_size, self.id());
        written.map_err(|e| self.new.fail(&e))
    }
}

impl<'l> Part<'l> {
    /// Its files and its size, as far as that is known.
    fn of(
        plan: &'l Partition,
        common: &Spec,
        made: Unfinished,
        number: usize,
        means: &dyn Means,
    ) -> Result<Part<'l>> {
        let spec = alone(plan, common)?;
        let kind = plan.kind().unwrap_or("none");
        let gathered = Gathered::of(&spec, kind, means)?;
        let copied = plan.copy_blocks.as_deref().map(length).transpose()?;
        let content = match plan.kind() {
            Some(_) => gathered.plan.size,
            None => copied.unwrap_or(0),
        };
        // One that grows does so from there.
        let size = plan.size.unwrap_or(content).next_multiple_of(ALIGNMENT);
        if content > size && plan.kind().is_none() {
            let text = format!("partition {number}: what it holds has {content} bytes");
            return Err(Error::Usage(text));
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

    fn recipe<'a>(&'a self, files: &'a Gathered) -> Recipe<'a> {
        let kind = self.plan.kind().unwrap_or_default();
        files.recipe(&self.spec, kind, self.size, &self.identity)
    }

    /// One that is as large as its files.
    fn begin_read_only(&mut self, shown: Option<&Unfinished>, by: By) -> Result<()> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        if !self.plan.kind().is_some_and(is_read_only) {
            return Ok(());
        }
        begin(&self.recipe(files), &self.made, shown, by)?;
        let len = self.made.size()?.next_multiple_of(ALIGNMENT);
        match self.plan.size {
            Some(size) if size < len => {
                let text = format!("has {len} bytes, and the partition {size}");
                Err(wrong(self.name(), &text))
            }
            Some(_) => Ok(()),
            None => {
                self.size = len;
                Ok(())
            }
        }
    }

    fn name(&self) -> &Path {
        let source = self.plan.source.as_deref();
        source.unwrap_or(Path::new("partition"))
    }

    /// Onto the disk; a file system that Linux is to fill is empty yet.
    fn place(&self, disk: &Unfinished, start: u64, by: By) -> Result<()> {
        if let Some(from) = &self.plan.copy_blocks {
            let file = by.means.open(from).map_err(|e| Error::of(from, &e))?;
            return copy_data(&file, &disk.open()?, start).map_err(|e| Error::of(from, &e));
        }
        if let Some(files) = &self.files {
            let recipe = self.recipe(files);
            if !is_read_only(recipe.filling.kind) {
                begin(&recipe, &self.made, None, by)?;
            }
        } else if self.plan.fs.is_some() {
            self.made.resize(self.size)?;
            let label = self.spec.label.as_deref();
            mkfs::swap(by.means, &self.made.path, label, self.uuid())?;
        }
        let copied = copy_data(&self.made.open()?, &disk.open()?, start);
        copied.map_err(|e| disk.fail(&e))?;
        self.made.resize(0)
    }

    fn uuid(&self) -> &str {
        self.spec.uuid.as_deref().unwrap_or(&self.identity.uuid)
    }

    fn placed(&self, start: u64) -> Placed {
        let has_uuid = self.plan.fs.as_deref().is_some_and(|fs| fs != "squashfs");
        Placed {
            start,
            size: self.size,
            fs: self.plan.fs.clone(),
            label: self.plan.label.clone(),
            uuid: has_uuid.then(|| self.uuid().to_owned()),
        }
    }
}

/// What is for one file system, as the command's option is called.
fn said_elsewhere(common: &Spec) -> Option<&'static str> {
    let options = [
        (!common.layer.is_empty(), "--layer"),
        (common.reference.is_some(), "--ref"),
        (common.label.is_some(), "--label"),
        (common.uuid.is_some(), "--uuid"),
        (common.partition_table.is_some(), "--partition-table"),
        (common.compression.is_some(), "--compression"),
        (common.owner != Owner::Keep, "--owner"),
        (!common.metadata.is_empty(), "--metadata"),
        (!common.xattrs.is_empty(), "--xattrs"),
        (!common.selinux.is_empty(), "--selinux"),
    ];
    let said = options.into_iter().find(|(said, _)| *said);
    said.map(|(_, name)| name)
}

/// What would make this one alone.
fn alone(plan: &Partition, common: &Spec) -> Result<Spec> {
    let owner = plan.owner.as_deref().map_or(Ok(Owner::Keep), str::parse);
    let owner = owner.map_err(|e: String| Error::Usage(format!("owner: {e}")))?;
    let read_only = plan.kind().is_some_and(is_read_only);
    Ok(Spec {
        source: plan.source.clone().unwrap_or_default(),
        image: common.image.clone(),
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
        ..common.clone()
    })
}

fn length(path: &Path) -> Result<u64> {
    match path.metadata().map_err(|e| Error::of(path, &e))? {
        found if found.is_file() => Ok(found.len()),
        _ => Err(wrong(path, "is no regular file")),
    }
}

fn wrong(path: &Path, text: &str) -> Error {
    Error::Failed(format!("{}: {text}", path.display()), libc::EINVAL)
}
