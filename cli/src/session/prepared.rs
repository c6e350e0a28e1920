//! Images whose files are open and whose kernels are booted, before any of these sees what
//! is in them: neither takes anything of the host's after that.

use super::machine::{kernel_image, tiny_image, Machine};
use super::{jail, lower, memory, nested, redo, Access};
use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::names::plain;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane::{DiskImage, ImagePath};

/// Most kernels that wait for their turn. Each takes some MiB and threads.
const MOST: usize = 16;

pub struct Prepared {
    /// Without a disk.
    pub machine: Machine,
    /// Its disks, but for one that lies in another image.
    pub opened: Vec<(PathBuf, DiskImage)>,
    pub below: Vec<(ImagePath, DiskImage)>,
    /// The image that it lies in.
    pub outer: Option<Box<Prepared>>,
}

/// Those that the command will want.
static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

struct Waiting {
    at: ImagePath,
    access: Access,
    prepared: Result<Prepared>,
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
    let mine = prepare(at, access, &secrets, global);
    jail::booted(at);
    let mut kernels = at.layers().count();
    // The wait for them is for when their turn comes: this command may have them now.
    let global = &Global {
        wait: None,
        ..global.clone()
    };
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
    let below = lower::below(access, global)?;
    let own = (at.within.is_none()).then_some(&at.image);
    let options = Machine::options(access, secrets, global);
    let redo = redo::of(access).filter(|_| at.within.is_none() && global.with.is_empty());
    let open = |image: &PathBuf| {
        let opened = match &redo {
            Some(redo) => options.clone().redo(redo.clone()).open_image(image),
            None => options.open_image(image),
        };
        let opened = opened.map_err(|e| Failed {
            is_busy: e.errno() == libc::EBUSY,
            failure: Failure::of_image(&e),
        });
        let opened = opened?;
        if access == Access::Write && !global.quiet {
            tell_what_is_written(image, &opened, global.verbose);
        }
        Ok::<_, Failed>((image.clone(), opened))
    };
    let outer = match &at.within {
        Some(outer) => {
            let access = nested::of_outer(access, global);
            Some(Box::new(prepare(outer, access, secrets, global)?))
        }
        None => None,
    };
    let opened = own.into_iter().chain(&global.with).map(open);
    let opened = opened.collect::<std::result::Result<Vec<_>, _>>()?;
    let below = lower::open(below, secrets, global)?;
    let is_plain = outer.is_none() && opened.iter().all(|(_, image)| image.is_plain());
    let kernel = match tiny_image(global).filter(|_| is_plain) {
        Some(tiny) => tiny,
        None => kernel_image(global)?,
    };
    let images = opened.iter().map(|(_, image)| image);
    let images = images.chain(below.iter().map(|(_, image)| image));
    let memory = match outer {
        // How large the inner image is nobody has seen.
        Some(_) => global.memory,
        None => memory::of(images.map(DiskImage::size), global),
    };
    Ok(Prepared {
        machine: Machine::booted(&kernel, memory, secrets.to_vec(), global)?,
        opened,
        below,
        outer,
    })
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
