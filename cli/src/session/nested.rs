//! `OUTER:/INNER:/path`: an image inside an image. Each is served by a kernel of
//! its own; what the inner one's disk has is read from a file of the outer one.

use super::image::mount_volume;
use super::machine::Machine;
use super::{apart, jail, traced, whole, Access, Session};
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::{may_lead_on, split, ImagePath, Selector, Split};

/// What an address with one more `:/` in its path means. What exists under the
/// full name is that file, as on the host; else the first part that names a file
/// is an image.
pub fn resolve(mut at: ImagePath, global: &Global) -> Result<ImagePath> {
    while let Some(inner) = step(&at, global)? {
        at = inner;
    }
    Ok(at)
}

fn step(at: &ImagePath, global: &Global) -> Result<Option<ImagePath>> {
    // What a server has is copied out first.
    if at.is_netfs() || !may_lead_on(&at.path) {
        return Ok(None);
    }
    // A session has one jail for all its kernels.
    let split = match jail::is_off(global) || global.kept.is_session() {
        true => look(at, global)?,
        false => look_apart(at, global)?,
    };
    let Some(split) = split else {
        return Ok(None);
    };
    let wrong = |e| Failure::address(OsStr::from_bytes(&at.path[..split.colon]), &e);
    let (file, selector, rest) = split.parts(&at.path).map_err(wrong)?;
    Ok(Some(at.inside(file, selector, rest)))
}

/// Looks into the outer image.
fn look(at: &ImagePath, global: &Global) -> Result<Option<Split>> {
    let session = Session::open(at, Access::Read, global)?;
    let Session::Image(opened) = &session else {
        return Ok(None);
    };
    Ok(opened.mount().and_then(|mount| split(mount, &at.path)))
}

/// The same, while this process still has to do what its jail will not allow.
fn look_apart(at: &ImagePath, global: &Global) -> Result<Option<Split>> {
    if global.passphrase_file.as_deref() == Some(Path::new("-")) {
        let text = "the passphrase of an image that another is in is needed twice: use a file";
        return Err(Failure::usage(text));
    }
    let said = apart::ask("the outer image", || {
        traced::forget();
        let found = look(at, global)?;
        let numbers = found.map(|split| [split.file as u64, split.colon as u64]);
        Ok(numbers.map_or(Vec::new(), |n| n.map(u64::to_le_bytes).concat()))
    })?;
    let number = |at: usize| {
        let bytes = said.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (Some(file), Some(colon)) = (number(0), number(8)) else {
        return Ok(None);
    };
    // Whoever looked has met what is in the image.
    let split = Split { file, colon };
    match split.is_of(&at.path) {
        true => Ok(Some(split)),
        false => Err(Failure::image("what looked into the outer image lies")),
    }
}

/// How the outer image of one that is opened like this is opened.
pub fn of_outer(access: Access, global: &Global) -> Access {
    match access == Access::Write && !global.forgets() {
        true => Access::Write,
        false => Access::Read,
    }
}

/// An error if what is written could not be put where the command line says.
pub fn check(at: &ImagePath, global: &Global) -> Result<()> {
    match &at.within {
        Some(outer) if global.overlay.is_some() && !global.forgets() => {
            let text = "an overlay in a file is for images that are files; :memory: is for any";
            Err(Failure::usage(format!("{}: {text}", outer.image.display())))
        }
        _ => Ok(()),
    }
}

/// Mounts the file system of an image that another one lies in. What the command line says
/// of a file system is about that one.
pub fn mount_outer(
    image: &tane::Image,
    selector: Option<&Selector>,
    access: Access,
    global: &Global,
) -> Result<tane::Mount> {
    let at = ImagePath {
        selector: selector.cloned(),
        ..whole(image.name())
    };
    let global = global.changed(|given| (given.fs, given.options) = (None, None));
    let machine = Machine::of_image(image.clone(), false);
    let mounted = mount_volume(&machine, &at, access, &global);
    mounted.map_err(|failure| machine.explain(failure))
}
