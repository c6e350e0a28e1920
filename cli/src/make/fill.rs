//! A tree into an empty file system, by Linux.

use super::disk::NewDisk;
use super::emit::{Emit, Times};
use super::limits;
use super::tree::Tree;
use crate::args::Global;
use crate::copy::{self, Owner, Report, Settings, SparseMode};
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::session::{Machine, Opened, Session, HOST};
use crate::sys::Sys;
use std::path::Path;
use std::sync::Arc;

/// What is put in.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    pub kind: &'a str,
    /// What the image is in the end, if that is made of this one.
    pub target: &'a str,
    pub tree: &'a Tree,
    pub times: Times,
    /// The directory that contents are below.
    pub source: &'a [u8],
}

/// What keeps a file system from doing the same thing differently: ext4 chooses
/// blocks when they are written to and not when memory runs short, and what goes
/// through its journal would stay there to be seen.
fn mount_options(kind: &str) -> &'static str {
    match kind {
        "ext3" | "ext4" => "noload,nodelalloc,dioread_lock,noinit_itable",
        "ext2" => "nodelalloc,noinit_itable",
        _ => "",
    }
}

/// `name`: what the image is called. When this returns, Linux has written
/// everything and is gone.
pub fn fill(
    disk: Arc<NewDisk>,
    name: &Path,
    mut machine: Machine,
    filling: &Filling,
    report: &Report,
    global: &Global,
) -> Result<()> {
    let device = machine.add_new(disk, name, global)?.device().to_owned();
    let mut options = tane::MountOptions::new();
    options.fstype(match filling.kind {
        kind if kind.starts_with("ext") => "ext4",
        kind => kind,
    });
    options.options(mount_options(filling.kind));
    options.options(global.options.as_deref().unwrap_or_default());
    let opened = Opened::new(machine, &device, &options);
    let opened = opened.map_err(|e| {
        Failure::new(
            NO_IMAGE,
            format!("the new file system cannot be mounted: {e}"),
        )
    })?;
    let session = Session::Image(opened.into());
    let root = session.root()?;
    let failed = |e| Failure::file(b"/", e);
    let dir = root.open_dir(b"/").map_err(failed)?;
    let settings = Settings {
        owner: Owner::Keep,
        // Where there are holes is decided by the content.
        sparse: SparseMode::Always,
        devices: true,
        no_clobber: false,
        duplicates: false,
        empty: true,
    };
    let to = copy::Destination {
        dir,
        shown: b"/".to_vec(),
        avoid: None,
    };
    let Filling {
        target,
        tree,
        times,
        source,
        ..
    } = *filling;
    copy::receive(
        |out| {
            let emit = Emit::new(tree, out, report, times, Sys(&HOST), source);
            emit.within(limits::of(target)).all();
        },
        to,
        settings,
        report,
    );
    drop(root);
    session.close()
}
