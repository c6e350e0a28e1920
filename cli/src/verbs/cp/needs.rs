//! What a copy is to leave alone, and what it needs of the jail: known from the command
//! line, before anything is opened.

use super::{path_and_prefix, settings, Args};
use crate::copy::gofer::lender::{self, Named, Wanted};
use crate::copy::gofer::Terms;
use crate::failure::Result;
use crate::session::Global;
use crate::session::{gofer, Access, Needs};
use crate::session::{guard, spare};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::Address;
use tane_linux::base_name;

/// Has disk images of the host left alone: it is easy to forget the `:/` of one that
/// something is to be copied into.
pub fn guard(sources: &[Address], dest: &Address, args: &Args, global: &Global) -> Result<()> {
    guard::begin(None);
    let Address::Host(to) = dest else {
        return Ok(());
    };
    // In a session what writes asks, and the jail keeps this process from looking.
    if !is_guarded(args) || gofer().is_some() {
        return Ok(());
    }
    if !to.is_dir() {
        let hint = format!("; {}:/ is the root of what is in it", to.display());
        return spare::spare(to, &hint, global);
    }
    let has_files = |path: &Path| path.read_dir().is_ok_and(|mut dir| dir.next().is_some());
    let replaces = |source: &Address| match name_of(source) {
        Some(name) => {
            let path = to.join(OsStr::from_bytes(name));
            path.symlink_metadata()
                .is_ok_and(|m| !m.is_dir() || has_files(&path))
        }
        None => has_files(to),
    };
    if sources.iter().any(replaces) {
        guard::begin(Some(spare::guard(to, global)?));
    }
    Ok(())
}

/// Files of the host that hold disk images stay.
pub fn is_guarded(args: &Args) -> bool {
    !args.force && !args.no_clobber
}

/// Whether it is what is in a directory, which has no name of its own in DEST.
fn means_contents(source: &Address) -> bool {
    let (path, _) = path_and_prefix(source);
    path.ends_with(b"/.") || base_name(path).is_none()
}

/// What a source is called in DEST, unless that takes a look: what a pattern stands for is
/// not known yet.
fn name_of(source: &Address) -> Option<&[u8]> {
    let name = base_name(path_and_prefix(source).0).filter(|_| !means_contents(source));
    name.filter(|name| !name.iter().any(|b| b"*?[\\".contains(b)))
}

/// As [`pass`] opens them.
pub fn needs(groups: &[&[Address]], dest: &Address, args: &Args) -> Needs {
    let image = |a: &'_ Address| match a {
        Address::Image(at) => Some(at.clone()),
        Address::Host(_) => None,
    };
    let mut opened = Vec::new();
    for group in groups {
        let (from, to) = (image(&group[0]), image(dest));
        let same = matches!((&from, &to), (Some(a), Some(b)) if a.same_file(b));
        opened.extend(to.map(|at| (at, Access::Write)));
        opened.extend(from.filter(|_| !same).map(|at| (at, Access::Read)));
    }
    let mut needs = Needs::images(opened.iter().map(|(at, access)| (at, *access)));
    for source in groups.iter().copied().flatten() {
        if let Address::Host(path) = source {
            let bytes = path.as_os_str().as_bytes();
            let follow = args.follow_link || bytes.ends_with(b"/") || bytes.ends_with(b"/.");
            if follow || !path.is_symlink() {
                needs = needs.lend(path);
            }
        }
    }
    let sources = named(groups.iter().copied().flatten(), args);
    if !sources.is_empty() {
        needs = needs.lends(lender::Terms::Copy(wanted(sources, args)));
    }
    match dest {
        Address::Host(path) => needs.write(path).copies(Terms::Copy {
            place: path.as_os_str().as_bytes().to_vec(),
            settings: settings(args, args.devices),
            names: names(groups),
            adopts: groups.iter().copied().flatten().any(means_contents),
        }),
        Address::Image(_) => needs,
    }
}

/// Those that are on the host.
pub fn named<'a>(sources: impl IntoIterator<Item = &'a Address>, args: &Args) -> Vec<Named> {
    let on_host = sources.into_iter().filter_map(|source| match source {
        Address::Host(path) => Some(path.as_os_str().as_bytes().to_vec()),
        Address::Image(_) => None,
    });
    let named = on_host.map(|path| Named {
        shown: path.clone(),
        path,
        follow: args.follow_link,
    });
    named.collect()
}

pub fn wanted(sources: Vec<Named>, args: &Args) -> Wanted {
    Wanted {
        sources,
        excludes: args.exclude.clone(),
        sparse: args.sparse.into(),
    }
}

/// All that is to be in DEST, if that is known.
fn names(groups: &[&[Address]]) -> Option<Vec<CString>> {
    let sources = groups.iter().copied().flatten();
    sources
        .map(|source| CString::new(name_of(source)?).ok())
        .collect()
}
