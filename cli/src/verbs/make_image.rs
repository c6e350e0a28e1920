//! tane make-image: a file system from a directory or archives.

use crate::args::parse_size;
use crate::copy::{Owner, Progress, ProgressMode, Report};
use crate::failure::{Failure, Result, INTERRUPTED, SOME_FAILED};
use crate::interrupt;
use crate::means::Means;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{self, begin_making, lock_replaced, saved, Fills, Making, Needs};
use crate::tell;
use crate::verbs::make_disk;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::images::Lock;
use tane_make::build::{build, is_fed, Files};
use tane_make::container::Container;
use tane_make::file::{self, Unfinished};
use tane_make::table::Table;
use tane_make::{is_container_layout, layout, may_be_container, By, Error, Gathered, Spec};

/// Make an image with a file system of a directory's or archive's files
#[derive(clap::Args)]
#[command(after_help = "\
SOURCE is a directory (its contents become the root), a tar archive (compressed by
gzip, xz, zstd or bzip2, or not; - is standard input) or a container image: an OCI image
layout or what docker save writes, as a directory or as an archive. The layers of one
are checked by their digests and put on top of each other with what they take away (.wh.
files). --ref chooses among several images; of one for several kinds of processor the
one for linux/amd64 is taken, which -v tells. --layer adds archives on top in the same
way. The files are written by real Linux, with the owners, modes, devices, attributes
and capabilities that the source, --owner, --metadata, --xattrs and --selinux say;
nobody needs to be root.

The empty file system is made by its own mkfs (mke2fs, mkfs.xfs, mkfs.btrfs,
mkfs.f2fs, mkfs.vfat), which has to be installed. squashfs and erofs are made by
mksquashfs and mkfs.erofs alone: Linux does not write them. erofs also takes FUSE and
room for an ext4 of the files beside IMAGE; squashfs before version 4.6 takes user
namespaces if the root directory belongs to somebody else than you.

--partition-table makes a disk with one partition that holds the file system; --size
is then the disk's.

SOURCE can also be a file NAME.toml that describes a disk with several partitions, in
the terms of repart.d(5):

  table = 'gpt'            # or 'mbr'
  size = '4G'              # of the disk; else as large as its partitions

  [[partition]]
  type = 'esp'             # linux, basic, esp, xbootldr, swap, root, usr, home, srv,
                           # var, bios, a GUID, or of an MBR the number 0x01 to 0xff
  fs = 'vfat'              # or any other that is made here, or swap
  label = 'EFI'
  size = '64M'             # else as large as its files take
  source = 'boot'          # names start where the file is

  [[partition]]
  type = 'root'
  fs = 'ext4'
  source = 'rootfs.tar'
  grow = true              # gets what is left of size

Further words of a partition are uuid, layer, ref, owner, metadata, xattrs, selinux and
compression, as the options say, and copy-blocks: a file that it holds as it is.

The same input gives the same bytes, at any time and on any machine: the clock of the
Linux that writes stands still at SOURCE_DATE_EPOCH (or --epoch, in seconds since
1970; if neither is given, at the newest modification in SOURCE), files with later
times get that one, and UUIDs, hash seeds and inode generations follow from names,
sizes and attributes. It takes the same version of tane, its kernel image and mkfs.

Without --size the image has room for the files and a bit more. Blocks of zeroes
become holes. IMAGE appears under its name only when it is complete: as a qcow2 if the
name ends so or --format says so, else as a raw image.

Examples:
  tane make-image rootfs disk.img
  tane make-image --owner root --label data site disk.img
  SOURCE_DATE_EPOCH=1700000000 tane make-image rootfs.tar.zst disk.img --size 2G
  docker save app:1 | tane make-image - disk.img
  tane make-image images.tar disk.img --ref app:1
  tane make-image base.tar disk.img --layer app.tar --selinux file_contexts
  tane make-image --metadata tree.mtree rootfs disk.img
  tane make-image --fs xfs --partition-table gpt rootfs disk.img
  tane make-image disk.toml disk.img
  tane make-image --fs squashfs --compression zstd rootfs.tar root.squashfs")]
pub struct Args {
    /// A directory, a tar archive, a container image, or the TOML file of a disk
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The image to be made
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// A tar archive of a further layer, with whiteouts; can be repeated
    #[arg(long, value_name = "TAR")]
    pub layer: Vec<PathBuf>,
    /// Which of several container images, by name or digest
    #[arg(long = "ref", value_name = "NAME[:TAG]")]
    pub reference: Option<String>,
    /// The image's size, for example 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// The file system's name
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// The file system's UUID, in place of one that follows from the content
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Put the file system into the one partition of a disk
    #[arg(long, value_enum, value_name = "KIND")]
    pub partition_table: Option<PartitionTable>,
    /// How squashfs and erofs compress, as their programs call it; or none
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// Whose the files are: keep, root or UID:GID
    #[arg(long, default_value = "keep")]
    pub owner: Owner,
    /// An mtree(5) file with owners, modes and devices; comes after --owner
    #[arg(long, value_name = "FILE")]
    pub metadata: Vec<PathBuf>,
    /// Extended attributes as getfattr --dump writes them (capabilities, for one)
    #[arg(long, value_name = "FILE")]
    pub xattrs: Vec<PathBuf>,
    /// SELinux labels by path: file_contexts(5); can be repeated
    #[arg(long, value_name = "FILE")]
    pub selinux: Vec<PathBuf>,
    /// The time it is, in seconds since 1970, in place of SOURCE_DATE_EPOCH
    #[arg(long, value_name = "SECONDS")]
    pub epoch: Option<u64>,
    /// Give all files that time, not only newer ones
    #[arg(long)]
    pub all_times: bool,
    /// Replace IMAGE if it exists; of a link, the file that it leads to
    #[arg(long)]
    pub force: bool,
    /// Fail (exit code 1) if anything had to be left behind
    #[arg(long)]
    pub strict: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressMode,
}

/// A kind of partition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PartitionTable {
    /// GUID partition table
    Gpt,
    /// Master boot record, also called msdos
    Mbr,
}

impl From<PartitionTable> for Table {
    fn from(said: PartitionTable) -> Self {
        match said {
            PartitionTable::Gpt => Table::Gpt,
            PartitionTable::Mbr => Table::Mbr,
        }
    }
}

impl Args {
    /// What the engine is asked for.
    pub fn spec(&self, global: &Global) -> Result<Spec> {
        Ok(Spec {
            source: self.source.clone(),
            image: self.image.clone(),
            layer: self.layer.clone(),
            reference: self.reference.clone(),
            size: self.size,
            label: self.label.clone(),
            uuid: self.uuid.clone(),
            partition_table: self.partition_table.map(Table::from),
            compression: self.compression.clone(),
            owner: self.owner,
            metadata: self.metadata.clone(),
            xattrs: self.xattrs.clone(),
            selinux: self.selinux.clone(),
            epoch: epoch(self)?,
            all_times: self.all_times,
            sector_size: global.sector_size,
            options: global.options.clone(),
        })
    }
}

fn epoch(args: &Args) -> Result<Option<u64>> {
    if args.epoch.is_some() {
        return Ok(args.epoch);
    }
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let wrong = || Failure::usage("SOURCE_DATE_EPOCH is no number of seconds");
    seconds.map(Some).ok_or_else(wrong)
}

/// What could not be had is told, and which of several images was taken.
pub fn complain(args: &Args, found: &Gathered, report: &Report, global: &Global) {
    let is_told = found.choice.is_foreign && !global.quiet || global.verbose;
    if let Some(text) = found.choice.text.as_ref().filter(|_| is_told) {
        tell::note(text);
    }
    if found.is_inside && !global.quiet {
        let text = "lies in what it is made of, and is left out of itself";
        tell::note(&format!("{}: {text}", args.image.display()));
    }
    found.complain(report);
}

pub fn run(mut args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    if args.force {
        args.image = file::replaceable(&args.image)?;
    }
    if layout::is_layout(&args.source) {
        return make_disk::run(&args, global);
    }
    let kind = global.fs.as_deref().unwrap_or("ext4");
    let spec = args.spec(global)?;
    spec.check(kind).map_err(said)?;
    let destination = replaceable(&args, global)?;
    let files = Files::create(&args.image, spec.partition_table, kind)?;
    confine(&args, kind, &files, &destination, global)?;
    let means = Means(global);
    let found = Gathered::of(&spec, kind, &means)?;
    let around = spec.partition_table.map_or((0, 0), Table::room);
    let around = around.0 + around.1;
    let size = match args.size {
        Some(size) if size <= around => {
            let text = format!("make-image: --size: {size} bytes leave no room for a partition");
            return Err(Failure::usage(text));
        }
        Some(size) => size - around,
        None => found.plan.size,
    };
    let identity = found.identity(&spec, kind, size, "");
    let progress = Progress::new(args.progress, || (found.plan.files, found.plan.bytes));
    let report = Report::new(progress, global.verbose, global.quiet);
    complain(&args, &found, &report, global);
    let recipe = found.recipe(&spec, kind, size, &identity);
    let (new, size) = build(
        &recipe,
        files,
        By {
            observer: &report,
            means: &means,
        },
    )?;
    let (uuid, time) = (recipe.uuid, recipe.time);
    finish(&args, destination, new, &report, global, |json| {
        json["fs"] = kind.into();
        json["size"] = size.into();
        json["uuid"] = uuid.into();
        json["epoch"] = time.into();
    })
}

/// Where the image will be.
pub struct Destination {
    /// Of what is there and may be replaced.
    _lock: Option<Lock>,
    /// What the image is in, unless it is raw.
    container: Option<Container>,
}

impl Destination {
    /// What the jail is told of these files and of what they become.
    pub fn making<'p>(&'p self, files: impl Iterator<Item = &'p Path>, args: &Args) -> Making {
        let container = self.container.as_ref().map(Container::path);
        Making {
            made: files.chain(container).map(Path::to_owned).collect(),
            name: args.image.clone(),
            replaces: args.force,
        }
    }
}

/// Nothing is there that may not be replaced; what may is locked as long as this lives.
pub fn replaceable(args: &Args, global: &Global) -> Result<Destination> {
    check_absent(args)?;
    let is_file = args.image.is_file();
    let lock = is_file.then(|| lock_replaced(&args.image, global));
    Ok(Destination {
        container: Container::of(&args.image, global.format)?,
        _lock: lock.transpose()?,
    })
}

fn check_absent(args: &Args) -> Result<()> {
    // A link that leads nowhere is there, too.
    if args.force || args.image.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = "exists already: --force replaces it";
    let text = format!("{}: {text}", args.image.display());
    Err(Failure::new(SOME_FAILED, text))
}

/// What was made gets its name, unless something went wrong; and all is told.
pub fn finish(
    args: &Args,
    destination: Destination,
    new: Unfinished,
    report: &Report,
    global: &Global,
    tell: impl FnOnce(&mut serde_json::Value),
) -> Result<u8> {
    let interrupted = interrupt::requested();
    let bad = interrupted || report.has_errors() || args.strict && report.has_losses();
    if !bad {
        let new = match destination.container {
            Some(container) => container.fill(&new)?,
            None => new,
        };
        // It took a while.
        check_absent(args)?;
        session::finish(new, &args.image)?;
    }
    if global.json {
        let mut json = report.json(interrupted);
        tell(&mut json);
        json["made"] = (!bad).into();
        let mut out = Output::new();
        let image = args.image.as_os_str().as_bytes();
        out.json(&names::named("image", image, json))?;
        out.flush()?;
    }
    Ok(match () {
        () if interrupted => INTERRUPTED,
        () if bad => {
            tell::note(&format!("{}: was not made", args.image.display()));
            SOME_FAILED
        }
        () => 0,
    })
}

/// What the engine says of the command's words.
pub fn said(e: Error) -> Failure {
    match e {
        Error::Usage(text) => Failure::usage(format!("make-image: {text}")),
        e => e.into(),
    }
}

/// What takes archives apart does so in a jail in which it opens nothing: they are open before,
/// or who opens files in a directory of container images is another process. Who reads ordinary
/// directories alone opens what is in there, and takes nothing apart. If there is both, another
/// process tells what is in them, and their files are handed over as well.
pub fn reads<'p>(
    mut needs: Needs,
    sources: impl Iterator<Item = &'p PathBuf>,
    global: &Global,
) -> Result<Needs> {
    let (mut plain, mut are_alone) = (Vec::new(), true);
    for path in sources {
        match path.is_dir() && !is_container_layout(path) && !saved::is_it(path, global)? {
            true => plain.push(path),
            false => are_alone = false,
        }
        needs = needs.read(path);
    }
    if are_alone && !plain.is_empty() {
        return Ok(needs);
    }
    Ok(plain
        .into_iter()
        .fold(needs.holds(), |needs, dir| needs.told(dir)))
}

/// How many of these kinds of file systems are made by a program that reads an archive.
pub fn fed<'k>(kinds: impl IntoIterator<Item = &'k str>) -> usize {
    kinds.into_iter().filter(|kind| is_fed(kind)).count()
}

/// Into a jail, for what reads archives and for the programs.
fn confine(
    args: &Args,
    kind: &str,
    files: &Files,
    destination: &Destination,
    global: &Global,
) -> Result<()> {
    let sources = [&args.layer, &args.metadata, &args.xattrs, &args.selinux];
    let sources = sources.into_iter().flatten().chain([&args.source]);
    let needs = Needs::default().makes(destination.making(files.paths(), args));
    let needs = reads(needs, sources, global)?;
    let needs = needs.fills(Fills::of(std::iter::once(files.filled(kind)))?);
    let needs = needs.shown(files.shown()).fed(fed([kind]));
    let mut needs = files.paths().fold(needs, |needs, path| needs.change(path));
    let plain = args.source.is_dir() && args.layer.is_empty() && !may_be_container(&args.source);
    if !plain {
        // Archives are unpacked there.
        needs = needs.temporary();
    }
    begin_making(&args.image, needs, global)
}
