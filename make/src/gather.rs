//! What is to be in an image: from directories, archives and container images, and what
//! other files say of their files.

use crate::build::{is_read_only, Recipe};
use crate::emit::Times;
use crate::error::{Error, Result};
use crate::file::Own;
use crate::fill::Filling;
use crate::labels::Labels;
use crate::layer::Layers;
use crate::means::Means;
use crate::oci::{self, Choice, Store};
use crate::plan::{Identity, Plan};
use crate::table::Table;
use crate::tree::Tree;
use crate::{host, mtree, told, xattrs};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_copy::names::plain;
use tane_copy::{Observer, Owner};
use tane_linux::{Host, Sys, Time};

static HOST: Host = Host;

/// What an image is to be made of, and to be.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A directory, a tar archive or a container image; empty: nothing is in it.
    pub source: PathBuf,
    /// The image to be made.
    pub image: PathBuf,
    /// Tar archives of further layers, with whiteouts.
    pub layer: Vec<PathBuf>,
    /// Which of several container images, by name or digest.
    pub reference: Option<String>,
    /// Bytes; None: what the files take, and a bit more.
    pub size: Option<u64>,
    /// The file system's name.
    pub label: Option<String>,
    /// The file system's UUID, in place of one that follows from the content.
    pub uuid: Option<String>,
    /// Put the file system into the one partition of a disk.
    pub partition_table: Option<Table>,
    /// How squashfs and erofs compress, as their programs call it; or `none`.
    pub compression: Option<String>,
    /// Whose the files are.
    pub owner: Owner,
    /// mtree(5) files with owners, modes and devices; come after the owner.
    pub metadata: Vec<PathBuf>,
    /// Extended attributes as getfattr --dump writes them.
    pub xattrs: Vec<PathBuf>,
    /// SELinux labels by path: file_contexts(5).
    pub selinux: Vec<PathBuf>,
    /// The time it is, in seconds since 1970, at most what 63 bits of nanoseconds hold;
    /// None: the newest modification of a file.
    pub epoch: Option<u64>,
    /// Give all files that time, not only newer ones.
    pub all_times: bool,
    /// Bytes of a sector of the disk, if that is not 512.
    pub sector_size: Option<u32>,
    /// Options of the mount that the files are written to, as mount(8) takes them.
    pub options: Option<String>,
}

const KINDS: [&str; 9] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "squashfs", "erofs",
];

/// Seconds since 1970 that a clock of Linux has, in nanoseconds of 63 bits.
const LATEST: u64 = i64::MAX as u64 / 1_000_000_000;

impl Spec {
    /// An image of these files, which are as they are.
    pub fn new(source: impl Into<PathBuf>, image: impl Into<PathBuf>) -> Spec {
        Spec {
            source: source.into(),
            image: image.into(),
            layer: Vec::new(),
            reference: None,
            size: None,
            label: None,
            uuid: None,
            partition_table: None,
            compression: None,
            owner: Owner::Keep,
            metadata: Vec::new(),
            xattrs: Vec::new(),
            selinux: Vec::new(),
            epoch: None,
            all_times: false,
            sector_size: None,
            options: None,
        }
    }

    /// An error unless that kind can be made, and made so.
    pub fn check(&self, kind: &str) -> Result<()> {
        let usage = |text: String| Err(Error::Usage(text));
        if !KINDS.contains(&kind) {
            let (last, others) = (KINDS[KINDS.len() - 1], KINDS[..KINDS.len() - 1].join(", "));
            return usage(format!(
                "{kind} is not supported: choose {others} or {last}"
            ));
        }
        let read_only = is_read_only(kind);
        match () {
            () if self.size.is_some() && read_only => {
                usage(format!("{kind} is as large as its files: leave --size out"))
            }
            () if self.label.is_some() && read_only => {
                usage(format!("{kind} gets no name: leave --label out"))
            }
            () if self.uuid.is_some() && kind == "squashfs" => {
                usage("squashfs has no UUID: leave --uuid out".into())
            }
            () if self.epoch.is_some_and(|sec| sec > LATEST) => {
                usage(format!("--epoch: Linux's clock ends at {LATEST} seconds"))
            }
            () if self.compression.is_some() && !read_only => usage(format!(
                "--compression is for squashfs and erofs, not {kind}"
            )),
            () => Ok(()),
        }
    }
}

/// What an image is to hold, before anything of it is made.
pub struct Gathered {
    tree: Tree,
    /// How much that is.
    pub plan: Plan,
    times: Times,
    /// What could not be had, and why.
    complaints: Vec<(Vec<u8>, String)>,
    /// Which of several container images it is.
    pub choice: Choice,
    /// The image lies in the directory that it is made of, and is left out of itself.
    pub is_inside: bool,
}

impl Gathered {
    /// Reads all of it but the bytes of files that lie in a directory.
    pub fn of(args: &Spec, kind: &str, means: &dyn Means) -> Result<Gathered> {
        let (mut complaints, mut choice) = (Vec::new(), Choice::default());
        let mut is_inside = false;
        let tree = gather(args, means, &mut complaints, &mut choice, &mut is_inside);
        // A pipe that nobody wrote to by then could not be read.
        let tree = tree.map_err(|e| match e {
            Error::Interrupted => e,
            _ if means.interrupted() => Error::Interrupted,
            _ => e,
        })?;
        let plan = Plan::of(&tree, kind);
        let times = Times {
            latest: match args.epoch {
                Some(sec) => Time {
                    sec: sec as i64,
                    nsec: 0,
                },
                None => plan.newest,
            },
            all: args.all_times,
        };
        Ok(Gathered {
            tree,
            plan,
            times,
            complaints,
            choice,
            is_inside,
        })
    }

    /// Tells what could not be had.
    pub fn complain(&self, observer: &dyn Observer) {
        for (path, why) in &self.complaints {
            observer.error_text(path, why.clone());
        }
    }

    /// At which the clock of the Linux that writes stands, in seconds since 1970.
    pub fn time(&self) -> u64 {
        (self.times.latest.sec.max(0) as u64).min(LATEST)
    }

    /// `more`: what tells it from others of the same content.
    pub fn identity(&self, args: &Spec, kind: &str, size: u64, more: &str) -> Identity {
        let made_with = format!(
            "{kind} {size} {:?} {:?}{more}",
            self.times.latest, args.label
        );
        Identity::of(&self.tree, self.times, &made_with)
    }

    /// How it is made: `size` in bytes, of the file system.
    pub fn recipe<'a>(
        &'a self,
        args: &'a Spec,
        kind: &'a str,
        size: u64,
        identity: &'a Identity,
    ) -> Recipe<'a> {
        Recipe {
            filling: Filling {
                kind,
                target: kind,
                tree: &self.tree,
                times: self.times,
                source: args.source.as_os_str().as_bytes(),
                sector_size: args.sector_size,
                options: args.options.as_deref(),
            },
            size,
            inodes: self.plan.inodes,
            working_set: self.plan.working_set,
            time: self.time(),
            label: args.label.as_deref(),
            uuid: args.uuid.as_deref().unwrap_or(&identity.uuid),
            identity,
            table: args.partition_table,
            compression: args.compression.as_deref(),
        }
    }
}

/// Puts the tree together: sources, then owners, then what files say of files.
fn gather(
    args: &Spec,
    means: &dyn Means,
    complaints: &mut Vec<(Vec<u8>, String)>,
    choice: &mut Choice,
    is_inside: &mut bool,
) -> Result<Tree> {
    // A single archive is a plain one, whose files may have any name.
    let is_layered = args.source.is_dir() || !args.layer.is_empty();
    let mut into = Layers::new(is_layered, means);
    match args.source.is_dir() {
        true => *is_inside = directory(args, means, &mut into, choice)?,
        false if args.source.as_os_str().is_empty() => no_reference(args)?,
        false => archive(args, means, &mut into, choice)?,
    }
    for layer in &args.layer {
        into.add(layer).map_err(|e| Error::of(layer, &e))?;
    }
    if means.interrupted() {
        return Err(Error::Interrupted);
    }
    complaints.append(&mut into.complaints);
    let mut tree = into.tree;
    if args.owner != Owner::Keep {
        for (_, id) in tree.walk() {
            let stat = &mut tree.node_mut(id).stat;
            (stat.uid, stat.gid) = args.owner.of(stat.uid, stat.gid);
        }
    }
    for path in &args.metadata {
        let text = read(path, means)?;
        mtree::apply(&mut tree, &text).map_err(|e| fail(path, &e))?;
    }
    for path in &args.xattrs {
        let text = read(path, means)?;
        xattrs::apply(&mut tree, &text).map_err(|e| fail(path, &e))?;
    }
    let mut labels = Labels::default();
    for path in &args.selinux {
        let text = String::from_utf8(read(path, means)?);
        let text = text.map_err(|_| fail(path, &"is no text"))?;
        labels.read(&text).map_err(|e| fail(path, &e))?;
    }
    if !args.selinux.is_empty() {
        labels.apply(&mut tree);
    }
    Ok(tree)
}

fn read(path: &Path, means: &dyn Means) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = means.open(path);
    let read = read.and_then(|mut file| file.read_to_end(&mut text));
    read.map(|_| text).map_err(|e| Error::of(path, &e))
}

fn fail(path: &Path, e: &dyn std::fmt::Display) -> Error {
    Error::about(path, e, None)
}

/// Whether the image lies in it.
fn directory(
    args: &Spec,
    means: &dyn Means,
    into: &mut Layers,
    choice: &mut Choice,
) -> Result<bool> {
    let source = &args.source;
    if let Some(store) = Store::directory(source, means) {
        return container(&store, args, means, into, choice).map(|()| false);
    }
    no_reference(args)?;
    let bytes = source.as_os_str().as_bytes();
    let own = Own::of(&args.image);
    let (tree, own) = (&mut into.tree, own.as_ref());
    let found = match means.told(source) {
        Some(mut telling) => told::add(tree, source, &mut *telling, own, means)?,
        None => host::add(tree, Sys(&HOST), bytes, own, means)
            .map_err(|e| Error::about(source, &e, Some(e.0)))?,
    };
    let complaints = found.complaints.into_iter();
    let complaints = complaints.map(|(path, e)| (path, e.to_string()));
    into.complaints.extend(complaints);
    Ok(found.left_out)
}

fn archive(args: &Spec, means: &dyn Means, into: &mut Layers, choice: &mut Choice) -> Result<()> {
    into.add(&args.source)
        .map_err(|e| Error::of(&args.source, &e))?;
    let read = std::mem::replace(&mut into.tree, Tree::new());
    if let Some(store) = Store::archive(&read) {
        return container(&store, args, means, into, choice);
    }
    into.tree = read;
    no_reference(args)
}

/// The layers of one image.
fn container(
    store: &Store,
    args: &Spec,
    means: &dyn Means,
    into: &mut Layers,
    choice: &mut Choice,
) -> Result<()> {
    let wrong = |e: String| match means.interrupted() {
        false => fail(&args.source, &e),
        true => Error::Interrupted,
    };
    let found = oci::layers(store, args.reference.as_deref(), means).map_err(wrong)?;
    into.whiteouts = true;
    for (name, piece) in &found.list {
        let added = into.add_piece(piece);
        added.map_err(|e| wrong(format!("{}: {e}", plain(name.as_bytes()))))?;
    }
    let text = found.choice.text;
    *choice = Choice {
        text: text.map(|text| format!("{}: {text}", args.source.display())),
        ..found.choice
    };
    Ok(())
}

fn no_reference(args: &Spec) -> Result<()> {
    match &args.reference {
        None => Ok(()),
        Some(_) => Err(fail(
            &args.source,
            &"is no container image: --ref chooses among those",
        )),
    }
}
