//! The jail of a session, in which images are opened, and kernels booted, at any time: the
//! former by a process without Linux.

use super::super::confined::confines_session;
use super::super::machine::{kernel_image, tiny_image};
use super::super::{whole, Access};
use super::{declare, enter, with, Needs};
use crate::copy::gofer::{lender, Terms};
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::ImagePath;

/// What a session may do with files of the host.
pub struct Shared<'s> {
    /// Read and write beneath these.
    pub dirs: &'s [PathBuf],
    /// Read these.
    pub sources: &'s [PathBuf],
    /// Write these, or into them.
    pub dests: &'s [PathBuf],
    /// Directories of it are listed or compared.
    pub is_listed: bool,
}

/// A session begins. Beside `images`, with options of their own where they have some, it
/// may open what its first line names that opens anything, and of the host what is shared.
/// The jail closes before the first of them is opened.
pub fn begin_session(
    images: Vec<(PathBuf, Access, Option<Global>)>,
    shared: &Shared,
    access: Access,
    global: &Global,
) -> Result<()> {
    let mut needs = Needs::default().session(access);
    needs.lists = shared.is_listed;
    // `lcd` goes elsewhere.
    let absolute = |path: &PathBuf| {
        let full = std::path::absolute(path);
        full.map_err(|e| Failure::of_host(path, &e))
    };
    for dir in shared.dirs {
        let dir = &absolute(dir)?;
        needs = needs.read(dir).lend(dir);
        needs = needs.write(dir).copies(terms());
    }
    for path in shared.sources.iter().filter(|path| !path.is_symlink()) {
        needs = needs.lend(&absolute(path)?);
    }
    if !needs.lent.is_empty() {
        let places = needs.lent.clone();
        needs = needs.lends(lender::Terms::Session(places));
    }
    for path in shared.dests {
        needs = needs.write(&absolute(path)?).copies(terms());
    }
    for (image, access, options) in images {
        match options {
            Some(own) => needs.own_options.push((image, access, own)),
            None => needs.images.push((whole(&image), access)),
        }
    }
    let is_known = needs.named().next().is_some();
    declare(needs);
    match is_known {
        true => enter_session(None, global),
        false => Ok(()),
    }
}

/// For who writes: files that are made are as this user's are.
fn terms() -> Terms {
    // SAFETY: no memory involved. No other thread makes files yet.
    let umask = unsafe {
        let umask = libc::umask(0o077);
        libc::umask(umask);
        umask
    };
    Terms::Session {
        mode: 0o666 & !umask,
    }
}

/// In a session, which is about to have something read or written on the host, and then to
/// open these images: its jail closes, if it has not.
pub fn enter_before<'a>(
    images: impl IntoIterator<Item = &'a ImagePath>,
    global: &Global,
) -> Result<()> {
    if !global.kept.is_session() || confines_session() {
        return Ok(());
    }
    declare(Needs::images(
        images.into_iter().map(|at| (at, Access::Read)),
    ));
    global.kept.read_secrets(global);
    enter_session(None, global)
}

/// A session is about to open an image, or to boot a kernel.
pub fn enter_session(image: Option<&ImagePath>, global: &Global) -> Result<()> {
    let (kernel, tiny) = (kernel_image(global)?, tiny_image(global));
    enter(
        image,
        &[Some(&kernel), tiny.as_deref()],
        Access::Read,
        global,
    )
}

/// Whether this path on the host is none that the session may open.
pub fn is_kept_from(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"host:").unwrap_or(path);
    let path = Path::new(OsStr::from_bytes(path));
    let full = path.ancestors().find_map(|path| match path {
        // Of a name alone, the directory.
        path if path.as_os_str().is_empty() => Path::new(".").canonicalize().ok(),
        path => path.canonicalize().ok(),
    });
    let shared = |path: &PathBuf| {
        let shared = path.canonicalize();
        full.as_ref()
            .zip(shared.ok())
            .is_some_and(|(full, shared)| full.starts_with(shared))
    };
    confines_session()
        && with(|state| {
            let needs = state.needs.as_ref();
            !needs.is_some_and(|needs| {
                let lists = [&needs.sources, &needs.lent, &needs.trees, &needs.changed];
                needs.named().chain(lists.into_iter().flatten()).any(shared)
            })
        })
}
