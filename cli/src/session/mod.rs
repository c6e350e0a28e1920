//! An image that is open: a kernel that serves it and the root of its files.

mod image;
mod machine;
mod place;
mod secrets;

pub use image::Opened;
pub use machine::{Content, Machine};

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::names::plain;
use crate::sys::{Host, Root, Side, Sys};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use tane::{Address, HostFiles, ImagePath};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Over an overlay in memory: the image's file does not change.
    Read,
    Write,
}

/// The host's kernel, as a side.
pub static HOST: Host = Host;

/// Serves one image, or (`--kernel host`) a directory of the host.
pub enum Session {
    Image(Opened),
    Directory { path: OsString },
}

/// True for `--kernel host`: directories stand for images and the host's own
/// kernel serves them. For comparisons and for tests.
pub fn is_host_kernel(global: &Global) -> bool {
    global
        .kernel
        .as_deref()
        .is_some_and(|k| k.as_os_str() == "host")
}

fn files(global: &Global) -> HostFiles {
    HostFiles {
        directories_too: is_host_kernel(global),
    }
}

/// An argument of a verb that works inside an image.
pub fn image_path(argument: &OsStr, global: &Global) -> Result<ImagePath> {
    Address::parse_image(argument, &files(global)).map_err(|e| Failure::of_address(&e))
}

/// An argument that may also be a path on the host.
pub fn address(argument: &OsStr, global: &Global) -> Result<Address> {
    Address::parse(argument, &files(global)).map_err(|e| Failure::of_address(&e))
}

impl Session {
    pub fn open(at: &ImagePath, access: Access, global: &Global) -> Result<Session> {
        if access == Access::Write {
            interrupt::be_orderly();
        }
        if is_host_kernel(global) {
            return Ok(Session::Directory {
                path: at.image.clone().into(),
            });
        }
        image::open_image(at, access, global).map(Session::Image)
    }

    /// The same image's other file system: one kernel holds both.
    pub fn beside(&self, at: &ImagePath, global: &Global) -> Result<Session> {
        match self {
            Session::Image(opened) => opened.beside(at, global).map(Session::Image),
            Session::Directory { .. } => Session::open(at, Access::Write, global),
        }
    }

    pub fn side(&self) -> &dyn Side {
        match self {
            Session::Image(opened) => opened,
            Session::Directory { .. } => &HOST,
        }
    }

    /// The root of the image's files.
    pub fn root(&self) -> Result<Root<'_>> {
        let sys = Sys(self.side());
        sys.raise_open_files();
        let (root, path) = match self {
            Session::Image(opened) => (Root::host(sys), opened.mount_point()),
            Session::Directory { path } => (Root::host(sys), path.as_bytes()),
        };
        let dir = root.open_dir(path);
        dir.map(Root::image)
            .map_err(|e| Failure::image(format!("{}: {e}", plain(path))))
    }

    /// Unmounts. After a write this is when late errors show.
    pub fn close(self) -> Result<()> {
        match self {
            Session::Image(opened) => opened.close(),
            Session::Directory { .. } => Ok(()),
        }
    }
}

/// Runs `work` on the arguments' files, image by image: consecutive arguments
/// in one image share a mount. The exit code is the worst.
pub fn for_each_image(
    arguments: &[OsString],
    access: Access,
    global: &Global,
    mut work: impl FnMut(&Root, &[Item]) -> Result<bool>,
) -> Result<u8> {
    let mut items = Vec::new();
    for argument in arguments {
        items.push(Item {
            at: image_path(argument, global)?,
            argument: argument.clone(),
        });
    }
    let mut all_well = true;
    for group in items.chunk_by(|a, b| a.at.same_image(&b.at)) {
        let session = Session::open(&group[0].at, access, global)?;
        let result = session.root().and_then(|root| work(&root, group));
        let closed = session.close();
        all_well &= result?;
        closed?;
        if access == Access::Write && interrupt::requested() {
            return Err(Failure::interrupted());
        }
    }
    Ok(u8::from(!all_well))
}

/// One argument: as typed, and what it means.
pub struct Item {
    pub argument: OsString,
    pub at: ImagePath,
}

impl Item {
    pub fn path(&self) -> &[u8] {
        &self.at.path
    }

    /// Says what is wrong with this argument; always false, for `all_well &=`.
    pub fn complain(&self, e: crate::sys::Errno) -> bool {
        eprintln!("tane: {}", Failure::file(self.argument.as_bytes(), e));
        false
    }
}
