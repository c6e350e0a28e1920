//! Which name a copy gets: the rules of `docker cp`.
//!
//! DEST is a directory: SRC goes into it under its own name; `SRC/.` and the
//! root of an image mean their contents. DEST does not exist: SRC becomes DEST;
//! its parent must exist. DEST is a file: a file replaces it.

use super::Source;
use crate::failure::{remedy, Failure, Result, SOME_FAILED};
use crate::names::plain;
use crate::sys::{base_name, split, Errno, Fd, Kind, Root};
use std::ffi::{CStr, CString};

pub struct Destination<'a> {
    pub dir: Fd<'a>,
    /// The directory as the user knows it.
    pub shown: Vec<u8>,
    /// Its identity, if the sources are files of the same kernel.
    pub avoid: Option<(u64, u64)>,
}

pub struct Plan<'a, 'b> {
    pub sources: Vec<Source<'a>>,
    pub destination: Destination<'b>,
}

/// A place as the command line has it.
pub struct Place<'p, 'a> {
    pub root: &'p Root<'a>,
    pub path: &'p [u8],
    /// Its beginning in messages: "disk.img:" or "".
    pub prefix: &'p [u8],
}

impl Place<'_, '_> {
    fn shown(&self) -> Vec<u8> {
        [self.prefix, self.path].concat()
    }

    fn fail(&self, e: Errno) -> Failure {
        Failure::file(&self.shown(), e)
    }

    fn fail_with(&self, text: &str) -> Failure {
        Failure::new(SOME_FAILED, format!("{}: {text}", plain(&self.shown())))
    }
}

/// Works out what is copied where. `follow`: a source that is a symlink stands
/// for what it points to.
pub fn plan<'a, 'b>(
    sources: &[Place<'_, 'a>],
    to: &Place<'_, 'b>,
    follow: bool,
) -> Result<Plan<'a, 'b>> {
    let target = resolve(to.root, to.path).map_err(|e| to.fail(e))?;
    let there = match to.root.stat(&target, true) {
        Ok(stat) => Some(stat.kind()),
        Err(Errno(libc::ENOENT)) => None,
        Err(e) => return Err(to.fail(e)),
    };
    if there == Some(Kind::Directory) {
        let dir = to.root.open_dir(&target).map_err(|e| to.fail(e))?;
        let sources = sources
            .iter()
            .map(|s| source(s, None, follow))
            .collect::<Result<_>>()?;
        return Ok(Plan {
            sources,
            destination: destination(dir, to.shown()),
        });
    }
    if sources.len() != 1 {
        let text = match there {
            Some(_) => "not a directory, and there are several sources",
            None => "no such directory, and there are several sources",
        };
        return Err(to.fail_with(text));
    }
    let is_dir = is_directory(&sources[0], follow)?;
    match there {
        Some(Kind::File | Kind::Symlink) if !is_dir && !to.path.ends_with(b"/") => {}
        Some(Kind::File | Kind::Symlink) => {
            return Err(to.fail_with("exists and is not a directory"))
        }
        Some(_) => {
            let text = "not a regular file; to write into it, use tane cat SOURCE >DEVICE";
            return Err(to.fail_with(text));
        }
        None if to.path.ends_with(b"/") && !is_dir => {
            return Err(to.fail_with("no such directory; create it first, or leave out the last /"));
        }
        None => {}
    }
    let (destination, name) = parent_of(to, &target)?;
    let sources = vec![source(&sources[0], Some(&name), follow)?];
    Ok(Plan {
        sources,
        destination,
    })
}

/// Where something without a name goes: a file, which may be there already.
pub fn plan_file<'b>(to: &Place<'_, 'b>) -> Result<(Destination<'b>, CString)> {
    let target = resolve(to.root, to.path).map_err(|e| to.fail(e))?;
    match to.root.stat(&target, true).map(|stat| stat.kind()) {
        Ok(Kind::File | Kind::Symlink) | Err(Errno(libc::ENOENT)) if !to.path.ends_with(b"/") => {}
        Ok(Kind::Directory) | Err(Errno(libc::ENOENT)) => {
            return Err(to.fail_with("a stream has no name: write DIRECTORY/NAME"))
        }
        Ok(_) => return Err(to.fail_with("not a regular file")),
        Err(e) => return Err(to.fail(e)),
    }
    parent_of(to, &target)
}

/// The directory that a file goes into, and its name there.
fn parent_of<'b>(to: &Place<'_, 'b>, target: &[u8]) -> Result<(Destination<'b>, CString)> {
    let Some((parent, name)) = split(target) else {
        return Err(to.fail(Errno(libc::EINVAL)));
    };
    let dir = to.root.open_dir(parent).map_err(|e| {
        let shown = [to.prefix, parent].concat();
        Failure::new(
            SOME_FAILED,
            format!(
                "{}: {} (where {} should go)",
                plain(&shown),
                remedy(&shown, e),
                plain(name)
            ),
        )
    })?;
    let name = CString::new(name).map_err(|_| to.fail(Errno(libc::EINVAL)))?;
    let shown = [to.prefix, if parent == b"." { b"" } else { parent }].concat();
    Ok((destination(dir, shown), name))
}

fn destination(dir: Fd<'_>, shown: Vec<u8>) -> Destination<'_> {
    Destination {
        dir,
        shown,
        avoid: None,
    }
}

/// `SRC/.`, `SRC/` and, with `follow`, SRC mean what a symlink points to.
fn real_path(place: &Place, follow: bool) -> Result<Vec<u8>> {
    if follow || place.path.ends_with(b"/") || place.path.ends_with(b"/.") {
        return resolve(place.root, place.path).map_err(|e| place.fail(e));
    }
    Ok(place.path.to_vec())
}

fn is_directory(place: &Place, follow: bool) -> Result<bool> {
    let path = real_path(place, follow)?;
    let stat = place.root.stat(&path, false).map_err(|e| place.fail(e))?;
    Ok(stat.kind() == Kind::Directory)
}

/// What a source is; its copy is called `to`, else as it is.
pub fn source<'a>(place: &Place<'_, 'a>, to: Option<&CStr>, follow: bool) -> Result<Source<'a>> {
    let contents = place.path.ends_with(b"/.") || base_name(place.path).is_none();
    let path = real_path(place, follow)?;
    let shown = place.shown();
    let stat = place.root.stat(&path, false).map_err(|e| place.fail(e))?;
    if contents || stat.kind() == Kind::Directory {
        // "." of the directory itself: roots have no name in a parent.
        let dir = place.root.open_dir(&path).map_err(|e| place.fail(e))?;
        let to = match (to, contents, base_name(place.path)) {
            (Some(to), _, _) => to.into(),
            (None, false, Some(name)) => {
                CString::new(name).map_err(|_| place.fail(Errno(libc::EINVAL)))?
            }
            _ => return Ok(Source::Contents { dir, shown }),
        };
        return Ok(Source::Entry {
            dir,
            name: c".".into(),
            to,
            shown,
        });
    }
    let (dir, name) = place.root.parent(&path).map_err(|e| place.fail(e))?;
    let to = match (to, base_name(place.path)) {
        (Some(to), _) => to.into(),
        (None, Some(base)) => CString::new(base).map_err(|_| place.fail(Errno(libc::EINVAL)))?,
        (None, None) => name.clone(),
    };
    Ok(Source::Entry {
        dir,
        name,
        to,
        shown,
    })
}

/// Follows the symlinks a path ends in; the rest is the kernel's business.
fn resolve(root: &Root, path: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
    let mut path = path.to_vec();
    for _ in 0..40 {
        let Some((parent, name)) = split(&path) else {
            return Ok(path);
        };
        let target = match root.stat(&join(parent, name), false) {
            Ok(stat) if stat.kind() == Kind::Symlink => {
                let (dir, name) = root.parent(&path)?;
                root.sys().readlink(&dir, &name)?
            }
            _ => return Ok(path),
        };
        path = if target.starts_with(b"/") {
            target
        } else {
            join(parent, &target)
        };
    }
    Err(Errno(libc::ELOOP))
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    [parent, b"/", name].concat()
}
