//! A tree into an empty file system, by Linux.

use super::disk::NewDisk;
use super::emit::{Emit, Times};
use super::limits;
use super::order::Order;
use super::tree::Tree;
use crate::error::{Error, Result};
use crate::means::By;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use tane::{DiskOptions, Kernel, Mount, MountOptions};
use tane_copy::{Destination, Owner, SenderBy, Settings, SparseMode};
use tane_linux::{Host, Linux, Sys};

static HOST: Host = Host;

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
    /// Bytes of a sector of the disk, if that is not 512.
    pub sector_size: Option<u32>,
    /// Options of the mount, as mount(8) takes them.
    pub options: Option<&'a str>,
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

/// Who writes what is sent into a directory.
type Write<'w> = dyn FnOnce(Destination, Settings) -> Result<()> + 'w;

/// `name`: what the image is called. When this returns, Linux has written
/// everything and is gone.
pub fn fill(file: File, name: &Path, order: &Order, filling: &Filling, by: By) -> Result<()> {
    let Filling {
        target,
        tree,
        times,
        source,
        ..
    } = *filling;
    let emit = |out: SenderBy<'_>| {
        let emit = Emit::new(tree, out, by, times, Sys(&HOST), source);
        emit.within(limits::of(target)).all();
    };
    if let Some(done) = by.means.fill(name, order, by.observer, &emit) {
        return done;
    }
    let kernel = by.means.kernel(&order.wanted)?;
    let write = |to: Destination, settings| {
        tane_copy::receive(emit, to, settings, by.observer);
        Ok(())
    };
    into_new(file, name, &kernel, order, Box::new(write))
}

/// Has somebody write into a file system that is empty yet, by this kernel.
pub fn into_new(
    file: File,
    name: &Path,
    kernel: &Kernel,
    order: &Order,
    write: Box<Write>,
) -> Result<()> {
    let disk = NewDisk::new(file, order.start, order.size).map_err(|e| Error::of(name, &e))?;
    let mount = mounted(Arc::new(disk), name, kernel, order)?;
    let failed = |e| Error::File(b"/".to_vec(), e);
    let sys = Sys(kernel as &dyn Linux);
    sys.raise_open_files();
    sys.umask(0);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let dir = sys.openat_raw(mount.root_fd(), c".", flags, 0);
    let dir = dir.map_err(failed)?;
    let settings = Settings {
        owner: Owner::Keep,
        // Where there are holes is decided by the content.
        sparse: SparseMode::Always,
        devices: true,
        no_clobber: false,
        duplicates: false,
        empty: true,
        no_umask: true,
    };
    let to = Destination {
        dir,
        shown: b"/".to_vec(),
        avoid: None,
    };
    write(to, settings)?;
    let lost = |e: tane::Error| {
        let text = format!("not everything was written: {e}");
        Error::Failed(text, e.errno())
    };
    mount.unmount().map_err(lost)
}

/// The disk goes to the kernel, and stays as long as what is empty yet is mounted.
fn mounted(disk: Arc<NewDisk>, name: &Path, kernel: &Kernel, order: &Order) -> Result<Mount> {
    let mut options = DiskOptions::new();
    options.in_order(true);
    if let Some(bytes) = order.sector_size {
        options.sector_size(bytes);
    }
    let disk = kernel.add_disk(disk, &options);
    let disk = disk.map_err(|e| Error::Disk(e.with_path(name)))?;
    let mut options = MountOptions::new();
    options.fstype(match &order.kind[..] {
        kind if kind.starts_with("ext") => "ext4",
        kind => kind,
    });
    options.options(mount_options(&order.kind));
    options.options(order.options.as_deref().unwrap_or_default());
    options.mount(kernel, disk.device()).map_err(|e| {
        let text = format!("the new file system cannot be mounted: {e}");
        Error::Kernel(text, e.errno())
    })
}
