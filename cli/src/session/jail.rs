//! What the command may still do once an image's Linux runs in it.
//!
//! The first image that is opened shuts the process off: from then on it can open
//! the files named here and nothing else. When the last kernel has been booted,
//! and before it sees what is in its image, everything that booting took goes
//! too. `docs/jail.md` says what remains.

mod needs;
mod programs;
mod sessions;

pub use needs::Needs;
pub use sessions::{begin_session, enter_before, enter_session, is_kept_from, Shared};

use super::confined::confine_session;
use super::machine::{kernel_image, plain_image, tiny_image};
use super::{
    asker, filler, gofer, held, is_host_kernel, lower, memory, namer, netfs, opener, scratch,
    servers, target, teller, traced, whole, Access,
};
use crate::failure::{Failure, Result};
use crate::inherited;
use crate::session::Global;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tane::jail::Jail;
use tane::{is_netfs, is_remote, ImageFiles, ImagePath};

/// Private memory, unless `--memory-limit` says otherwise, in bytes.
const MEMORY: u64 = 4 << 30;
/// How long the command may take to end by itself after `--time-limit`.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    needs: Option<Needs>,
    entered: bool,
    /// Kernels that are still to be booted.
    left: usize,
    /// The images of the command are known to be opened ahead.
    ahead: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
    work(state.get_or_insert_default())
}

/// What this verb needs; of no avail in a jail. Without it: to open one image. A verb
/// of a session may name images for it, and nothing else: what its lines may do does
/// not depend on which of them comes first.
pub fn declare(needs: Needs) {
    with(|state| match &mut state.needs {
        _ if state.entered => {}
        Some(session) if session.session.is_some() => {
            let access = session.session.unwrap_or(Access::Read);
            let images = needs.images.into_iter().map(|(at, _)| (at, access));
            session.images.extend(images);
        }
        _ => state.needs = Some(needs),
    });
}

pub fn is_off(global: &Global) -> bool {
    global.no_jail || is_host_kernel(global)
}

pub(super) fn failure(e: tane::jail::Error) -> Failure {
    use tane::jail::Error;
    let text = format!("the jail cannot be set up: {e}");
    match &e {
        // A file that is not there, and no fault of the jail's.
        Error::Path(path, e) => Failure::of_host(path, e),
        Error::Limit(..) => Failure::image(text),
        Error::Threads(_) | Error::Landlock(_) | Error::Seccomp(_) | Error::Capabilities(_) => {
            Failure::image(text).remedy("--no-jail goes without, if you trust the image")
        }
    }
}

fn no_provisions(e: tane::Error) -> Failure {
    Failure::image(format!("cannot start Linux: {e}"))
}

/// An image is about to be opened, or a session's kernel to be booted.
pub(super) fn enter(
    image: Option<&ImagePath>,
    kernels: &[Option<&Path>],
    access: Access,
    global: &Global,
) -> Result<()> {
    if is_off(global) {
        return with(
            |state| match state.needs.as_ref().filter(|needs| needs.programs) {
                Some(needs) => programs::start(None, needs.fed, global),
                None => Ok(()),
            },
        );
    }
    with(|state| {
        if std::mem::replace(&mut state.entered, true) {
            return Ok(());
        }
        let mut needs = state.needs.take().unwrap_or_default();
        if needs.images.is_empty() || needs.session.is_some() {
            let access = needs.session.unwrap_or(access);
            needs.images.extend(image.map(|at| (at.clone(), access)));
        }
        let layers = |(at, _): &(ImagePath, Access)| at.layers().count();
        state.left = needs.images.iter().map(layers).sum();
        let mut jail = Jail::new();
        // Who has locked an image, for the message.
        jail.read("/proc/locks");
        for (at, access) in &needs.images {
            allow_image(&mut jail, &at.outermost().image, *access, global);
        }
        for (image, access, own) in &needs.own_options {
            allow_image(&mut jail, image, *access, own);
        }
        let all = needs.own_options.iter().map(|(.., own)| own);
        let all: Vec<_> = std::iter::once(global).chain(all).collect();
        let mut beside = Vec::new();
        for global in &all {
            for image in &global.with {
                let access = needs.session.unwrap_or(access);
                allow_image(&mut jail, image, access, global);
                beside.push((image.clone(), writes(access, global)));
            }
            for at in lower::named(global)? {
                allow_image(&mut jail, &at.image, Access::Read, global);
                beside.push((at.image, false));
            }
        }
        needs.trees.retain(|path| path.exists());
        if let Some(terms) = needs.copies.take() {
            gofer::start(&needs.trees, &needs.sources, terms, global)?;
            needs.trees.clear();
        }
        if let Some(making) = needs.makes.take() {
            let fail = |e| Failure::image(format!("the process that gives names: {e}"));
            namer::start(making).map_err(fail)?;
        }
        if let Some(image) = needs.shown.take() {
            programs::start_shower(&image, &needs, global)?;
        }
        needs.lent.retain(|path| path.exists());
        if let Some(terms) = needs.lends.take() {
            gofer::start_lender(&needs.lent, terms, global)?;
        }
        if let Some(access) = needs.session {
            // What this process needs no name for any more.
            let opened = std::mem::replace(&mut jail, Jail::new());
            let shared = &needs.sources[..];
            let written = if access == Access::Write { shared } else { &[] };
            let opener = opener::start(opened, written, shared, global)?;
            tane::images::open_by(move |path, write, flags| opener.open(path, write, flags));
            if needs.lists && !shared.is_empty() {
                teller::start_for_session(shared, global)?;
            }
            needs.sources.clear();
        }
        if needs.temporary {
            // It goes with its directory: who has no Linux sweeps that.
            let own = scratch::directory()?;
            jail.read(&own).create_beneath(own);
        }
        if needs.holds {
            let sources = std::mem::take(&mut needs.sources).into_iter();
            let (dirs, files): (Vec<_>, Vec<_>) = sources.partition(|path| path.is_dir());
            let systems = needs.fills.as_ref().map_or(1, |fills| fills.systems);
            held::hold_sources(&files, systems);
            for dir in needs.told.drain(..) {
                let line = teller::start_for_image(&dir, global)?;
                held::tell_by(dir, line);
            }
            if !dirs.is_empty() {
                held::open_by(opener::start(Jail::new(), &[], &dirs, global)?);
                needs.handed = true;
            }
            for (at, access) in &needs.images {
                held::hold(&at.image, *access);
            }
            jail = Jail::new();
        }
        if needs.programs && !needs.again {
            for (at, access) in &needs.images {
                // What is written may be another file.
                let kept = global.forgets() || global.overlay.is_some();
                let access = if kept { Access::Read } else { *access };
                held::hold(&at.outermost().image, access);
            }
            held::hold_temporary()?;
            if needs.no_holes {
                target::look_at_temporary_files();
            }
        }
        let named = needs.opened(global).into_iter().chain(beside);
        let remote = named.filter(|(image, _)| is_remote(image));
        let (files, remote): (Vec<_>, Vec<_>) = remote.partition(|(image, _)| is_netfs(image));
        let only_files = needs.session.is_none() && needs.named().all(|image| is_netfs(image));
        let knows_files = match files.is_empty() {
            true => None,
            false => Some(netfs::kernel_image(global)?),
        };
        netfs::connect(files.into_iter().map(|(address, _)| address));
        let logins = all.iter().flat_map(|global| global.logins.iter().cloned());
        servers::start(remote.into_iter(), logins)?;
        inherited::forget_proxies();
        if needs.programs {
            programs::start(Some(programs::jail(&needs, global)?), needs.fed, global)?;
        }
        // What does not exist is the verb's to complain about.
        for path in needs.sources.iter().filter(|p| p.exists()) {
            jail.read(path);
        }
        needs.rights(&mut jail);
        jail.terminal(needs.session.is_some());
        limit_memory(&mut jail, global);
        if let Some(limit) = global.time_limit {
            jail.time(limit + GRACE);
        }
        asker::write_only();
        if needs.session.is_none() && !needs.runs {
            let fail = |e| Failure::image(format!("the process that asks for passphrases: {e}"));
            asker::start().map_err(fail)?;
        }
        // It takes the place of that which knows all disks, where there are none.
        let known = kernels.iter().copied().flatten();
        let known = known.skip(usize::from(only_files && knows_files.is_some()));
        let kernels: Vec<_> = knows_files.as_deref().into_iter().chain(known).collect();
        // A kernel that is recorded is this process's.
        match needs.fills.take().filter(|_| !traced::is_awaited()) {
            Some(fills) => filler::start(fills, &kernels, global)?,
            None => {
                // Last: no other process has these descriptors.
                let memory = all.iter().map(|global| memory::most(global)).max();
                let count = needs.kernels(state.left);
                let provided = tane::provide(&kernels, count, memory.unwrap_or(tane::MEMORY));
                jail.boots_from(&provided.map_err(no_provisions)?);
                jail.changes_code(traced::is_awaited());
            }
        }
        jail.enter().map_err(failure)?;
        if needs.session.is_some() {
            confine_session();
        }
        state.needs = Some(needs);
        Ok(())
    })
}

/// The image is about to be changed, by this process or by programs of the host, for which
/// no kernel is booted.
pub fn without_linux(at: &ImagePath, access: Access, global: &Global) -> Result<()> {
    enter(Some(at), &[], access, global)?;
    booted(at);
    close(global)
}

/// A kernel is about to be booted from this file, beside which code runs that was mapped
/// before: [`close_after_copies`] comes before that.
pub(super) fn enter_alone(kernel: &Path, global: &Global) -> Result<()> {
    declare(Needs::default());
    enter(None, &[Some(kernel)], Access::Read, global)
}

/// A kernel is about to be booted that gets copies of these files of the host, and then
/// runs a program, or code that was mapped before: [`close_after_copies`] comes before that.
pub(super) fn enter_copying(sources: &[&Path], global: &Global) -> Result<()> {
    let needs = match global.runs {
        true => Needs::default().runs(),
        false => Needs::default(),
    };
    declare(sources.iter().fold(needs, |needs, path| needs.read(path)));
    enter(None, &[Some(&kernel_image(global)?)], Access::Read, global)
}

/// Nothing of the host is read any more.
pub(super) fn close_after_copies(global: &Global) -> Result<()> {
    with(|state| {
        if let Some(needs) = &mut state.needs {
            needs.sources.clear();
        }
    });
    close(global)
}

/// No kernel is booted any more. What was to be read still is.
pub(super) fn close_for_good(global: &Global) -> Result<()> {
    close(global)
}

/// What an image is made of is about to be looked at: archives and programs are met in
/// the jail too. `image` is what it will be called.
pub fn begin_making(image: &Path, mut needs: Needs, global: &Global) -> Result<()> {
    needs.programs = true;
    needs.again = true;
    declare(needs);
    let (kernel, tiny) = (kernel_image(global)?, tiny_image(global));
    let tiny = tiny.or_else(plain_image);
    enter(
        Some(&whole(image)),
        &[Some(&kernel), tiny.as_deref()],
        Access::Read,
        global,
    )
}

/// Whether programs of the host make no holes in files.
pub(super) fn keeps_from_holes() -> bool {
    with(|state| state.entered && state.needs.as_ref().is_some_and(|n| n.no_holes))
}

/// The images that this command will open beside the one that is opened first: they can
/// be opened, and their kernels booted, before any of them is looked into. None the
/// second time.
pub(super) fn others(at: &ImagePath, access: Access, global: &Global) -> Vec<(ImagePath, Access)> {
    // What has no jail has nothing to wait for; and layers are one image's.
    if is_off(global) || !global.lower.is_empty() {
        return Vec::new();
    }
    with(|state| {
        if std::mem::replace(&mut state.ahead, true) {
            return Vec::new();
        }
        let needs = state.needs.as_ref();
        let known = needs.filter(|n| n.session.is_none() && !n.programs);
        let images = known.map_or(&[][..], |needs| &needs.images);
        let times = |at: &ImagePath| {
            images
                .iter()
                .filter(|(other, _)| at.same_file(other))
                .count()
        };
        let is_other = |(other, how): &&(ImagePath, Access)| {
            (other, how) != (at, &access) && times(other) == 1
        };
        images.iter().filter(is_other).cloned().collect()
    })
}

/// The kernels of this image have been booted, or never will be.
pub(super) fn booted(at: &ImagePath) {
    with(|state| state.left = state.left.saturating_sub(at.layers().count()));
}

/// A kernel is about to see what is in its image.
pub(super) fn close(global: &Global) -> Result<()> {
    if is_off(global) {
        return Ok(());
    }
    with(|state| {
        // Sessions, and some that start programs, boot again at any time.
        let is_last = |needs: &&Needs| state.left == 0 && needs.session.is_none() && !needs.again;
        let Some(needs) = state.needs.as_ref().filter(is_last) else {
            return Ok(());
        };
        servers::seal()?;
        let mut jail = Jail::new();
        for path in &needs.sources {
            jail.read(path);
        }
        needs.rights(&mut jail);
        jail.enter().map(drop).map_err(failure)
    })
}

pub(super) fn limit_memory(jail: &mut Jail, global: &Global) {
    match global.memory_limit {
        Some(u64::MAX) => {}
        limit => drop(jail.memory(limit.unwrap_or(MEMORY))),
    }
}

/// Whether an image itself is written, rather than an overlay.
fn writes(access: Access, global: &Global) -> bool {
    access == Access::Write && !global.forgets() && global.overlay.is_none()
}

/// The files that an image consists of, as far as its first bytes tell.
fn allow_image(jail: &mut Jail, image: &Path, access: Access, global: &Global) {
    let files = ImageFiles {
        write: access == Access::Write && !global.forgets(),
        format: global.format,
        overlay: global.overlay.clone().filter(|_| !global.forgets()),
        trust: global.trust.clone(),
    };
    files.allow(jail, image);
}
