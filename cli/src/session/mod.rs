//! An image that is open: a kernel that serves it and the root of its files.

mod access;
pub mod apart;
mod asker;
mod begin;
pub mod child;
mod choose;
pub mod confined;
mod end;
mod filler;
mod global;
mod gofer;
pub mod guard;
mod held;
mod here;
mod image;
mod jail;
mod kept;
mod listed;
mod lower;
mod machine;
mod made;
mod memory;
mod namer;
mod nested;
mod netfs;
mod network;
mod opener;
mod opening;
mod parts;
mod prepared;
mod redo;
mod rootfs;
pub mod saved;
mod scratch;
mod secrets;
mod servers;
pub mod spare;
mod target;
mod teller;
pub mod traced;
mod unmountable;
pub mod victim;

use access::{host_files, whole};
pub use access::{is_host_kernel, Access, HOST};
pub use asker::abandon as release_terminal;
#[cfg(feature = "fuse")]
pub use asker::end as end_questions;
pub use begin::{begin, begun_with, declare_images, Written};
pub use confined::confines_session;
pub use end::End;
pub use filler::{fill_elsewhere, Fills};
pub use global::Global;
pub use gofer::{gofer, lender};
pub use held::{
    open as open_held, source as open_source, source_in as open_source_in, spool,
    told as told_source,
};
pub use here::Here;
use image::open_image;
pub use image::Opened;
pub use jail::{
    begin_making, declare, enter_before, is_kept_from, is_off as is_without_jail, without_linux,
    Needs,
};
pub use kept::{Kept, OnlyReads};
pub use listed::{kind_of, Listed};
pub use machine::{Content, Machine};
pub use made::{New, There};
pub use namer::{end as end_of_making, finish, Making};
pub use network::{
    attach as attach_network, attach_or_loop, begin as begin_network, begin_wire,
    impair as impair_network, with_network, Plug, WayOut,
};
pub use parts::{consists_of, is_same_file};
pub use redo::prepare as write_back_as_a_whole;
pub use rootfs::{
    of_directory as root_of_directory, of_file as root_of_file, of_image as root_of_image,
    of_nothing as without_root, of_nothing_but as without_root_but,
};
pub use scratch::{directory as temporary_directory, place as temporary_place};
pub use secrets::{know as know_secrets, read_once as read_secrets};
pub use servers::farewell;
pub use target::{container, lock_replaced, locked, Target, Want};
pub use teller::{list, start as start_teller, tells, told};

use crate::expand::{self, Meant};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names::plain;
use crate::tell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use tane::{Address, Files, ImagePath};
use tane_linux::{Errno, Linux, Root, Sys};

/// Serves one image, or (`--kernel host`) a directory of the host.
pub enum Session {
    Image(Arc<Opened>),
    Directory { path: OsString },
}

fn parse(argument: &OsStr, global: &Global) -> Result<Address> {
    Address::parse(argument, &host_files(global)).map_err(|e| Failure::address(argument, &e))
}

/// An argument of a verb that works on whole images.
pub fn image_path(argument: &OsStr, global: &Global) -> Result<ImagePath> {
    let at = Address::parse_image(argument, &host_files(global));
    nested(at.map_err(|e| Failure::address(argument, &e))?, global)
}

/// An argument that only makes sense as a whole image, be it inside another.
pub fn whole_image(argument: &OsStr, global: &Global) -> Result<ImagePath> {
    Ok(image_path(argument, global)?.whole())
}

fn nested(at: ImagePath, global: &Global) -> Result<ImagePath> {
    match is_host_kernel(global) {
        true => Ok(at),
        false => nested::resolve(at, global),
    }
}

/// An argument of a verb that works inside an image: in a session that is
/// somewhere, also a path there.
pub fn inner_path(argument: &OsStr, global: &Global) -> Result<ImagePath> {
    match global.kept.here() {
        None => image_path(argument, global),
        Some(here) => match parse(argument, global)? {
            Address::Image(at) if at.is_remote() || host_files(global).is_image(&at.image) => {
                nested(at, global)
            }
            _ => nested(here.path(argument.as_bytes()), global),
        },
    }
}

/// An argument that may also be a path on the host: in a session, `host:PATH`.
pub fn address(argument: &OsStr, global: &Global) -> Result<Address> {
    let address = || match parse(argument, global)? {
        Address::Image(at) => nested(at, global).map(Address::Image),
        host => Ok(host),
    };
    if !global.kept.is_session() {
        return address();
    }
    if let Some(path) = argument.as_bytes().strip_prefix(b"host:") {
        return Ok(Address::Host(OsStr::from_bytes(path).into()));
    }
    match global.kept.here() {
        None => address(),
        Some(_) => inner_path(argument, global).map(Address::Image),
    }
}

impl Session {
    pub fn open(at: &ImagePath, access: Access, global: &Global) -> Result<Session> {
        if access == Access::Write {
            interrupt::be_orderly();
        }
        if is_host_kernel(global) {
            if !global.lower.is_empty() {
                return Err(Failure::usage(
                    "--lower is for images, not for --kernel host",
                ));
            }
            return Ok(Session::Directory {
                path: at.image.clone().into(),
            });
        }
        if let Some(opened) = global.kept.open(at, access, global)? {
            return Ok(Session::Image(opened));
        }
        open_image(at, access, global).map(|opened| Session::Image(Arc::new(opened)))
    }

    /// The same image's other file system: one kernel holds both.
    pub fn beside(&self, at: &ImagePath, global: &Global) -> Result<Session> {
        match self {
            Session::Image(_) if global.kept.is_session() => {
                Session::open(at, Access::Read, global)
            }
            Session::Image(opened) => {
                let beside = opened.beside(at, global)?;
                Ok(Session::Image(Arc::new(beside)))
            }
            Session::Directory { .. } => Session::open(at, Access::Write, global),
        }
    }

    pub fn side(&self) -> &dyn Linux {
        match self {
            Session::Image(opened) => &**opened,
            Session::Directory { .. } => &HOST,
        }
    }

    /// Where the host has the bytes of the image's files, if they lie unchanged in a file
    /// of the host while this is open.
    pub fn host_blocks(&self) -> Option<&tane::HostBlocks> {
        match self {
            Session::Image(opened) => opened.mount()?.host_blocks(),
            Session::Directory { .. } => None,
        }
    }

    /// The root of the image's files.
    pub fn root(&self) -> Result<Root<'_>> {
        let sys = Sys(self.side());
        sys.raise_open_files();
        sys.umask(0);
        let (root, path) = match self {
            Session::Image(opened) => (Root::host(sys), opened.mount_point()),
            Session::Directory { path } => (Root::host(sys), path.as_bytes()),
        };
        let dir = root.open_dir(path);
        dir.map(Root::image)
            .map_err(|e| Failure::image(format!("{}: {e}", plain(path))))
    }

    /// Why the image's Linux has died, if it has.
    #[cfg(feature = "fuse")]
    pub fn last_words(&self) -> String {
        match self {
            Session::Image(opened) => opened.last_words(),
            Session::Directory { .. } => String::new(),
        }
    }

    /// Unmounts, unless a session keeps it. After a write this is when late
    /// errors show.
    pub fn close(self) -> Result<()> {
        match self {
            Session::Image(opened) => match Arc::try_unwrap(opened) {
                Ok(opened) => opened.close(),
                Err(kept) => kept.check(),
            },
            Session::Directory { .. } => Ok(()),
        }
    }
}

/// Runs `work` on the arguments' files, image by image: consecutive arguments
/// in one image share a mount. Patterns stand for what they match there, which has to be
/// something. The exit code is the worst.
pub fn for_each_image(
    arguments: &[OsString],
    access: Access,
    global: &Global,
    work: impl FnMut(&Root, &[Item]) -> Result<bool>,
) -> Result<u8> {
    for_each_match(arguments, access, global, true, work)
}

/// As [`for_each_image`], where patterns may match nothing.
pub fn for_each_found(
    arguments: &[OsString],
    access: Access,
    global: &Global,
    work: impl FnMut(&Root, &[Item]) -> Result<bool>,
) -> Result<u8> {
    for_each_match(arguments, access, global, false, work)
}

fn for_each_match(
    arguments: &[OsString],
    access: Access,
    global: &Global,
    needed: bool,
    mut work: impl FnMut(&Root, &[Item]) -> Result<bool>,
) -> Result<u8> {
    for_each_name(arguments, access, global, |root, items| {
        // A session has done so, with regard to quotes.
        if global.kept.is_session() {
            return work(root, items);
        }
        let mut all_well = true;
        let mut meant = Vec::new();
        for item in items {
            match item.matches(root) {
                Ok(these) if these.is_empty() && needed => {
                    all_well = item.complain_of("no file matches");
                }
                Ok(these) => meant.extend(these),
                Err(e) => all_well = item.complain(e),
            }
        }
        if !meant.is_empty() {
            all_well &= work(root, &meant)?;
        }
        Ok(all_well)
    })
}

/// As [`for_each_image`], of names that are no patterns: they are yet to be made.
pub fn for_each_name(
    arguments: &[OsString],
    access: Access,
    global: &Global,
    mut work: impl FnMut(&Root, &[Item]) -> Result<bool>,
) -> Result<u8> {
    let mut items = Vec::new();
    for argument in arguments {
        items.push(Item {
            at: inner_path(argument, global)?,
            argument: argument.clone(),
        });
    }
    let mut all_well = true;
    let groups: Vec<_> = items.chunk_by(|a, b| a.at.same_image(&b.at)).collect();
    declare(Needs::images(groups.iter().map(|g| (&g[0].at, access))));
    for group in groups {
        let session = Session::open(&group[0].at, access, global)?;
        let result = session.root().and_then(|root| work(&root, group));
        let closed = session.close();
        all_well &= result?;
        closed?;
        interrupt::check()?;
    }
    Ok(u8::from(!all_well))
}

/// One argument: as typed, and what it means.
#[derive(Clone)]
pub struct Item {
    pub argument: OsString,
    pub at: ImagePath,
}

impl Item {
    pub fn path(&self) -> &[u8] {
        &self.at.path
    }

    /// What it stands for.
    fn matches(&self, root: &Root) -> std::result::Result<Vec<Item>, Errno> {
        let found = match expand::meant(root, self.path())? {
            Meant::One(path) if path == self.path() => return Ok(vec![self.clone()]),
            Meant::One(path) => vec![path],
            Meant::These(paths) => paths,
        };
        let item = |path: Vec<u8>| Item {
            argument: OsString::from_vec([&self.at.prefix()[..], &path].concat()),
            at: ImagePath {
                path,
                ..self.at.clone()
            },
        };
        Ok(found.into_iter().map(item).collect())
    }

    /// Says what is wrong with this argument; always false, for `all_well &=`.
    pub fn complain(&self, e: Errno) -> bool {
        tell::failure(&Failure::file(self.argument.as_bytes(), e));
        false
    }

    /// The same, in words of the verb's.
    pub fn complain_of(&self, text: &str) -> bool {
        let argument = self.argument.as_bytes();
        let text = format!("{}: {text}", plain(argument));
        tell::failure(&Failure::new(SOME_FAILED, text).about(argument));
        false
    }
}
