//! What a session is begun with: which images it opens, and how, and what is shared with it.

use super::{declare, host_files, jail, whole, Access, Needs};
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::shell::Named;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use tane::Address;

/// Which images a session writes to, if it writes.
pub enum Written {
    All,
    /// Those of the command line that are named here, and what its script says of others.
    These(Vec<PathBuf>),
}

/// The file of an image that a session begins with.
pub fn begun_with(image: &OsStr, global: &Global) -> Result<PathBuf> {
    let at = Address::parse_image(image, &host_files(global));
    Ok(at.map_err(|e| Failure::address(image, &e))?.image)
}

/// A session begins with these images, and will open those of `later`, each with its
/// options, and the files of the host that are named there. It reads and writes files of the
/// host beneath `shared`.
pub fn begin(
    images: &[OsString],
    later: Named,
    shared: &[PathBuf],
    (access, written): (Access, Written),
    global: &Global,
) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    let how = |file: &Path, named: Access| match &written {
        _ if access == Access::Read => Access::Read,
        Written::All => Access::Write,
        Written::These(files) if files.iter().any(|one| real(one) == real(file)) => Access::Write,
        Written::These(_) => named,
    };
    let mut all = Vec::new();
    for image in images {
        let file = begun_with(image, global)?;
        let access = how(&file, Access::Read);
        all.push((file, access, None));
    }
    // Once the jail has closed, nobody opens them.
    let options = later.images.iter().map(|image| &image.options);
    for global in std::iter::once(global).chain(options) {
        global.kept.read_secrets(global);
    }
    for image in later.images {
        let access = match (access, &written) {
            (Access::Write, Written::These(_)) => image.access,
            _ => access,
        };
        all.push((image.file, access, Some(image.options)));
    }
    let is_read = |file: &PathBuf| {
        let mut same = all.iter().filter(|(other, ..)| real(other) == real(file));
        same.all(|(_, access, _)| *access == Access::Read)
    };
    let beneath = |file: &PathBuf| shared.iter().any(|dir| real(file).starts_with(real(dir)));
    let only_read = all.iter().map(|(file, ..)| file);
    let only_read = only_read.filter(|file| is_read(file) && !beneath(file));
    if access == Access::Write {
        global
            .kept
            .only_reads_these(only_read.map(|file| real(file)));
    }
    let files = jail::Shared {
        dirs: shared,
        sources: &later.sources,
        dests: &later.dests,
        is_listed: later.lists,
    };
    jail::begin_session(all, &files, access, global)
}

/// The first command of a session will open these.
pub fn declare_images(files: Vec<PathBuf>) {
    let images: Vec<_> = files.iter().map(|file| whole(file)).collect();
    declare(Needs::images(images.iter().map(|at| (at, Access::Read))));
}
