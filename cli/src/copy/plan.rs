//! Which name a copy gets: the rules of `docker cp`.
//!
//! DEST is a directory: SRC goes into it under its own name; `SRC/.` and the
//! root of an image mean their contents. DEST does not exist: SRC becomes DEST;
//! its parent must exist. DEST is a file: a file replaces it.

use crate::failure::{remedy, Failure, Result, SOME_FAILED};
use crate::names::plain;
use std::ffi::{CStr, CString};
use tane_copy::gofer::Wish;
use tane_copy::{resolve, Destination, Site, Source, To};
use tane_linux::{base_name, split, Errno, Fd, Kind, Root};

pub struct Plan<'a, 'b, 'g> {
    pub sources: Vec<Source<'a>>,
    pub to: To<'b, 'g>,
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

/// Works out what is copied where. `more`: these sources are not all. `follow`: a source
/// that is a symlink stands for what it points to. `wish`: a gofer writes, and only that
/// reaches the destination.
pub fn plan<'a, 'b, 'g>(
    sources: &[Place<'_, 'a>],
    more: bool,
    to: &Place<'_, 'b>,
    wish: Option<Wish<'g>>,
    follow: bool,
) -> Result<Plan<'a, 'b, 'g>> {
    let site = match &wish {
        Some(wish) => wish.look(to.path),
        None => Site::of(to.root, to.path),
    };
    let site = site.map_err(|e| to.fail(e))?;
    let there = site.there;
    if there == Some(Kind::Directory) {
        let open = || match wish {
            Some(wish) => wish.open(&to.shown()).map(To::Gofer),
            None => {
                let dir = to.root.open_dir(&site.target)?;
                Ok(To::Here(destination(dir, to.shown())))
            }
        };
        let opened = open().map_err(|e| to.fail(e))?;
        let sources = sources
            .iter()
            .map(|s| source(s, None, follow))
            .collect::<Result<_>>()?;
        return Ok(Plan {
            sources,
            to: opened,
        });
    }
    if more || sources.len() != 1 {
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
    let (opened, name) = match wish {
        Some(wish) => {
            let (parent, name, shown) = parts_of(to, &site.target)?;
            let opened = wish
                .open(&shown)
                .map_err(|e| no_parent(to, parent, &name, e))?;
            (To::Gofer(opened), name)
        }
        None => {
            let (destination, name) = parent_of(to, &site.target)?;
            (To::Here(destination), name)
        }
    };
    let sources = vec![source(&sources[0], Some(&name), follow)?];
    Ok(Plan {
        sources,
        to: opened,
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
    let (parent, name, shown) = parts_of(to, target)?;
    let dir = to.root.open_dir(parent);
    let dir = dir.map_err(|e| no_parent(to, parent, &name, e))?;
    Ok((destination(dir, shown), name))
}

/// The path of that directory, the name, and the directory as the user knows it.
fn parts_of<'t>(to: &Place, target: &'t [u8]) -> Result<(&'t [u8], CString, Vec<u8>)> {
    let Some((parent, name)) = split(target) else {
        return Err(to.fail(Errno(libc::EINVAL)));
    };
    let name = CString::new(name).map_err(|_| to.fail(Errno(libc::EINVAL)))?;
    let shown = [to.prefix, if parent == b"." { b"" } else { parent }].concat();
    Ok((parent, name, shown))
}

fn no_parent(to: &Place, parent: &[u8], name: &CStr, e: Errno) -> Failure {
    let shown = [to.prefix, parent].concat();
    let (why, name) = (remedy(&shown, e), plain(name.to_bytes()));
    let text = format!("{}: {why} (where {name} should go)", plain(&shown));
    Failure::new(SOME_FAILED, text)
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
