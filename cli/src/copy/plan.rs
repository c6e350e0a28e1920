//! Which name a copy gets: the rules of `docker cp`.
//!
//! DEST is a directory: SRC goes into it under its own name; `SRC/.` and the
//! root of an image mean their contents. DEST does not exist: SRC becomes DEST;
//! its parent must exist. DEST is a file: a file replaces it.

use crate::failure::{remedy, Failure, Result, SOME_FAILED};
use crate::names::plain;
use std::ffi::{CStr, CString};
use tane_copy::gofer::lender::Chosen;
use tane_copy::gofer::Wish;
use tane_copy::{is_directory, resolve, Destination, Site, Source, To};
use tane_linux::{split, Errno, Fd, Kind, Root};

pub struct Plan<'a, 'b, 'g> {
    /// None if they are lent: then they are open.
    pub sources: Vec<Source<'a>>,
    pub to: To<'b, 'g>,
}

/// A place as the command line has it.
pub struct Operand<'p, 'a> {
    pub root: &'p Root<'a>,
    pub path: &'p [u8],
    /// Its beginning in messages: "disk.img:" or "".
    pub prefix: &'p [u8],
}

impl Operand<'_, '_> {
    /// As the user knows it.
    pub fn shown(&self) -> Vec<u8> {
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
/// reaches the destination. `lent`: another process reads these sources.
pub fn plan<'a, 'b, 'g>(
    sources: &[Operand<'_, 'a>],
    more: bool,
    to: &Operand<'_, 'b>,
    wish: Option<Wish<'g>>,
    mut lent: Option<&mut Chosen>,
    follow: bool,
) -> Result<Plan<'a, 'b, 'g>> {
    let site = match &wish {
        Some(wish) => wish.look(to.path),
        None => Site::of(to.root, to.path),
    };
    let site = site.map_err(|e| to.fail(e))?;
    let there = site.there;
    if there == Some(Kind::Directory) {
        let reach = || match wish {
            Some(wish) => wish.open(&to.shown()).map(To::Gofer),
            None => {
                let dir = to.root.open_dir(&site.target)?;
                Ok(To::Here(destination(dir, to.shown())))
            }
        };
        let opened = reach().map_err(|e| to.fail(e))?;
        return Ok(Plan {
            sources: open(sources, lent, None, follow)?,
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
    let first = &sources[0];
    let is_dir = match &mut lent {
        Some(lent) => lent.is_directory(),
        None => is_directory(first.root, first.path, follow),
    };
    let is_dir = is_dir.map_err(|e| first.fail(e))?;
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
    Ok(Plan {
        sources: open(sources, lent, Some(&name), follow)?,
        to: opened,
    })
}

/// Where something without a name goes: a file, which may be there already.
pub fn plan_file<'b>(to: &Operand<'_, 'b>) -> Result<(Destination<'b>, CString)> {
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
fn parent_of<'b>(to: &Operand<'_, 'b>, target: &[u8]) -> Result<(Destination<'b>, CString)> {
    let (parent, name, shown) = parts_of(to, target)?;
    let dir = to.root.open_dir(parent);
    let dir = dir.map_err(|e| no_parent(to, parent, &name, e))?;
    Ok((destination(dir, shown), name))
}

/// The path of that directory, the name, and the directory as the user knows it.
fn parts_of<'t>(to: &Operand, target: &'t [u8]) -> Result<(&'t [u8], CString, Vec<u8>)> {
    let Some((parent, name)) = split(target) else {
        return Err(to.fail(Errno(libc::EINVAL)));
    };
    let name = CString::new(name).map_err(|_| to.fail(Errno(libc::EINVAL)))?;
    let shown = [to.prefix, if parent == b"." { b"" } else { parent }].concat();
    Ok((parent, name, shown))
}

fn no_parent(to: &Operand, parent: &[u8], name: &CStr, e: Errno) -> Failure {
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

/// What a source is; its copy is called `to`, else as it is.
pub fn source<'a>(place: &Operand<'_, 'a>, to: Option<&CStr>, follow: bool) -> Result<Source<'a>> {
    let source = tane_copy::source(place.root, place.path, place.shown(), to, follow);
    source.map_err(|e| place.fail(e))
}

/// All of them, if another process does not have them open.
fn open<'a>(
    sources: &[Operand<'_, 'a>],
    lent: Option<&mut Chosen>,
    to: Option<&CStr>,
    follow: bool,
) -> Result<Vec<Source<'a>>> {
    let Some(lent) = lent else {
        return sources.iter().map(|s| source(s, to, follow)).collect();
    };
    let opened = lent.open(to).map(|()| Vec::new());
    opened.map_err(|(at, e)| match sources.get(at) {
        Some(place) => place.fail(e),
        None => Failure::new(SOME_FAILED, e.to_string()),
    })
}
