//! Images whose files are open and whose kernels are booted, before any of these sees what
//! is in them: neither takes anything of the host's after that.

use super::machine::{boot, kernel_image, tiny_image};
use super::{jail, nested, netfs, opening, redo, traced, Access};
use crate::failure::{Failure, Result};
use crate::names::plain;
use crate::session::Global;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use tane::{BootedImage, DiskImage, ImagePath};

/// Most kernels that wait for their turn. Each takes some MiB and threads.
pub(super) const MOST: usize = 16;

/// Those that the command will want.
static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

struct Waiting {
    at: ImagePath,
    access: Access,
    prepared: Result<Prepared>,
}

/// What waits for its turn.
pub enum Prepared {
    Image(Box<BootedImage>),
    /// Of a server.
    Files(netfs::Ready),
}

/// The one that waits, or a new one: with the first of them those that the command will
/// open later.
pub fn get(at: &ImagePath, access: Access, global: &Global) -> Result<Prepared> {
    let mut waiting = WAITING.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(i) = waiting
        .iter()
        .position(|w| (&w.at, w.access) == (at, access))
    {
        return waiting.swap_remove(i).prepared;
    }
    let outermost = at
        .layers()
        .skip(1)
        .fold(access, |access, _| nested::of_outer(access, global));
    if outermost == Access::Write {
        redo::tidy(at.outermost(), global);
    }
    let secrets = global.kept.secrets(global)?;
    let (kernel, tiny) = (kernel_image(global)?, tiny_image(global));
    jail::enter(Some(at), &[Some(&kernel), tiny.as_deref()], access, global)?;
    traced::prepare(global)?;
    let mine = prepare(at, access, &secrets, global);
    jail::booted(at);
    let mut kernels = at.layers().count();
    // The wait for them is for when their turn comes: this command may have them now.
    let global = &global.changed(|options| options.wait = None);
    for (at, access) in jail::others(at, access, global) {
        kernels += at.layers().count();
        if kernels > MOST {
            break;
        }
        match prepare(&at, access, &secrets, global) {
            // Perhaps by this command: in its turn it is free.
            Err(failed) if failed.is_busy => {}
            done => {
                jail::booted(&at);
                let prepared = done.map_err(|failed| failed.failure);
                waiting.push(Waiting {
                    at,
                    access,
                    prepared,
                });
            }
        }
    }
    jail::close(global)?;
    mine.map_err(|failed| failed.failure)
}

struct Failed {
    /// Somebody else has the image.
    is_busy: bool,
    failure: Failure,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed {
            is_busy: false,
            failure,
        }
    }
}

fn prepare(
    at: &ImagePath,
    access: Access,
    secrets: &[Vec<u8>],
    global: &Global,
) -> std::result::Result<Prepared, Failed> {
    if at.outermost().is_netfs() {
        return Ok(Prepared::Files(netfs::prepare(at, global)?));
    }
    nested::check(at, global)?;
    let options = opening::options(access, secrets, global)?;
    // Which of its volumes is meant is said when it is mounted.
    let named = ImagePath {
        selector: None,
        ..at.clone()
    };
    let opened = options.open_files(&named, &opening::hooks(at, access, global));
    let opened = opened.map_err(|e| Failed {
        is_busy: e.errno() == libc::EBUSY,
        failure: Failure::of_image(&e),
    })?;
    if options.write && !global.quiet {
        for (image, disk) in opened.disks() {
            tell_what_is_written(image, disk, global.verbose);
        }
    }
    let booted = opened.resolved().boot(|what| boot(what, global))?;
    Ok(Prepared::Image(Box::new(booted)))
}

/// The image may have said itself which files it consists of. Many are named by `verbose`
/// only.
fn tell_what_is_written(image: &Path, opened: &DiskImage, verbose: bool) {
    const FEW: usize = 4;
    let name = |path: &Path| plain(path.as_os_str().as_bytes()).to_string();
    let Some((itself, parts)) = opened.layers().split_first() else {
        return;
    };
    let parts = parts
        .iter()
        .filter(|part| part.write && part.path != itself.path);
    let mut parts: Vec<_> = parts.map(|part| name(&part.path)).collect();
    // A file with a container in it appears once for each.
    parts.dedup();
    let left = match verbose {
        true => 0,
        false => parts.len().saturating_sub(FEW),
    };
    parts.truncate(parts.len() - left);
    if left > 0 {
        parts.push(format!("{left} more (-v names them)"));
    }
    if !parts.is_empty() {
        let (image, parts) = (name(image), parts.join(", "));
        crate::tell::note(&format!(
            "{image}: these parts of it are written too: {parts}"
        ));
    }
}
