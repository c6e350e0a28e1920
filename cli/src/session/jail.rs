//! What the command may still do once an image's Linux runs in it.
//!
//! The first image that is opened shuts the process off: from then on it can open
//! the files named here and nothing else. When the last kernel has been booted,
//! and before it sees what is in its image, everything that booting took goes
//! too. `docs/jail.md` says what remains.

mod programs;

use super::machine::{kernel_image, tiny_image};
use super::{
    asker, filler, gofer, held, is_host_kernel, lower, memory, namer, prepared, scratch, servers,
    target, traced, Access, Fills, Making,
};
use crate::args::Global;
use crate::copy::gofer::{lender, Terms};
use crate::failure::{Failure, Result};
use crate::inherited;
use crate::tell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tane::jail::{Files, Jail};
use tane::{directory_of, is_remote, ImageFiles, ImagePath};

/// Private memory, unless `--memory-limit` says otherwise, in bytes.
const MEMORY: u64 = 4 << 30;
/// How long the command may take to end by itself after `--time-limit`.
const GRACE: Duration = Duration::from_secs(2);

/// What a verb needs beside its only image. Declared before that is opened.
#[derive(Debug, Default)]
pub struct Needs {
    images: Vec<(ImagePath, Access)>,
    sources: Vec<PathBuf>,
    /// As sources, but a process of its own reads them.
    lent: Vec<PathBuf>,
    lends: Option<lender::Terms>,
    trees: Vec<PathBuf>,
    created: Vec<PathBuf>,
    changed: Vec<PathBuf>,
    /// A process of its own gives it its name.
    makes: Option<Making>,
    /// Processes of their own have the Linux that fills file systems.
    fills: Option<Fills>,
    /// A process of its own writes copies.
    copies: Option<Terms>,
    programs: bool,
    /// The image's Linux runs a program, whose standard input this process's is.
    runs: bool,
    /// These make no holes.
    no_holes: bool,
    /// Several kernels are booted, one after the other.
    again: bool,
    temporary: bool,
    handed: bool,
    /// Kernels are booted at any time, for images that are opened like this.
    session: Option<Access>,
    /// Images that a session will open with options of their own.
    own_options: Vec<(PathBuf, Global)>,
}

impl Needs {
    /// Each of these is opened once, by a kernel of its own, in any order.
    pub fn images<'a>(images: impl IntoIterator<Item = (&'a ImagePath, Access)>) -> Self {
        let images = images.into_iter();
        Needs {
            images: images.map(|(at, access)| (at.clone(), access)).collect(),
            ..Needs::default()
        }
    }

    /// A file of the host, or a directory with all beneath it, is read. A symlink
    /// is one that is followed.
    pub fn read(mut self, path: &Path) -> Self {
        self.sources.push(path.into());
        self
    }

    /// Something is written as `path` of the host, or into it if it is a directory.
    pub fn write(mut self, path: &Path) -> Self {
        self.trees.push(directory_of(path));
        self
    }

    /// What is written are copies, with the owners and attributes of what they are copies
    /// of, as far as one may.
    pub fn copies(mut self, terms: Terms) -> Self {
        self.copies = Some(terms);
        self
    }

    /// What is read is copied: a process of its own does it, as these terms say.
    pub fn lends(mut self, terms: lender::Terms) -> Self {
        self.lends = Some(terms);
        self
    }

    /// As [`Self::read`], by that process.
    pub fn lend(mut self, path: &Path) -> Self {
        self.lent.push(path.into());
        self
    }

    /// Of root's.
    fn rights(&self, jail: &mut Jail) {
        jail.attributes(!self.sources.is_empty()).names_only(true);
        jail.handed(self.handed).hands(gofer::gofer().is_some());
        jail.programs(self.runs);
    }

    /// The most layers that one of the images has.
    fn deepest(&self) -> usize {
        let layers = self.images.iter().map(|(at, _)| at.layers().count());
        layers.max().unwrap_or(1)
    }

    /// How many kernels run at a time, at most, of `all` that the images take.
    fn kernels(&self, all: usize) -> usize {
        /// The last ones may not have ended yet.
        const AGAIN: usize = 2;
        match self.session {
            Some(_) => prepared::MOST,
            None if self.again => AGAIN * self.deepest(),
            // Those that wait, one that is written meanwhile, and the one whose turn it is.
            None => all.clamp(1, prepared::MOST + 1 + self.deepest()),
        }
    }

    /// Of the host, a file is made: it is open, and a process of its own gives it its name.
    pub fn makes(mut self, making: Making) -> Self {
        self.makes = Some(making);
        self
    }

    /// In this file, file systems are filled, each by a process of its own, which has Linux:
    /// this one has none.
    pub fn fills(mut self, fills: Fills) -> Self {
        self.fills = Some(fills);
        self
    }

    /// Programs read and write this file, which is there already.
    pub fn change(mut self, path: &Path) -> Self {
        self.changed.push(path.into());
        self
    }

    /// A session: images are opened, and their kernels booted, at any time. Files are
    /// made and written in its own directory, if it has one.
    fn session(mut self, access: Access, own: Option<&Path>) -> Self {
        self.session = Some(access);
        self.created.extend(own.map(Path::to_owned));
        self
    }

    /// Descriptors are still to be handed over.
    #[cfg(feature = "fuse")]
    pub fn handed(mut self) -> Self {
        self.handed = true;
        self
    }

    /// Programs of the host work on the image, run by a process of its own in their own
    /// jail, and share a directory for temporary files with this one.
    pub fn programs(mut self) -> Self {
        self.programs = true;
        self.temporary()
    }

    /// The Linux in this process runs a program.
    pub fn runs(mut self) -> Self {
        self.runs = true;
        self
    }

    /// What the programs write is told from what they leave alone.
    pub fn no_holes(mut self, yes: bool) -> Self {
        self.no_holes = yes;
        self
    }

    /// The image is opened, and its kernel booted, several times.
    pub fn again(mut self) -> Self {
        self.again = true;
        self
    }

    /// A directory for temporary files.
    pub fn temporary(mut self) -> Self {
        self.temporary = true;
        self
    }
}

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
        Some(session) if session.session.is_some() => session.images.extend(needs.images),
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
            |state| match state.needs.as_ref().is_some_and(|n| n.programs) {
                true => programs::start(None, global),
                false => Ok(()),
            },
        );
    }
    with(|state| {
        if std::mem::replace(&mut state.entered, true) {
            return Ok(());
        }
        let mut needs = state.needs.take().unwrap_or_default();
        if needs.images.is_empty() || needs.session.is_some() {
            needs.images.extend(image.map(|at| (at.clone(), access)));
        }
        let layers = |(at, _): &(ImagePath, Access)| at.layers().count();
        state.left = needs.images.iter().map(layers).sum();
        let mut jail = Jail::new();
        // Who has locked an image, for the message.
        jail.read("/proc/locks");
        for (at, access) in &needs.images {
            let image = &at.outermost().image;
            let access = needs.session.unwrap_or(*access);
            let own = needs.own_options.iter().find(|(named, _)| named == image);
            allow_image(&mut jail, image, access, own.map_or(global, |(_, own)| own));
        }
        let all = needs.own_options.iter().map(|(_, own)| own);
        let all: Vec<_> = std::iter::once(global).chain(all).collect();
        let mut beside = Vec::new();
        for global in &all {
            for image in &global.with {
                allow_image(&mut jail, image, needs.session.unwrap_or(access), global);
                beside.push(image.clone());
            }
            for at in lower::named(global)? {
                allow_image(&mut jail, &at.image, Access::Read, global);
                beside.push(at.image);
            }
            if needs.session.is_some() {
                let secrets = [&global.passphrase_file, &global.key_file];
                needs.sources.extend(secrets.into_iter().flatten().cloned());
            }
        }
        needs.trees.retain(|path| path.exists());
        if let Some(terms) = needs.copies.take() {
            let in_session = matches!(terms, Terms::Session);
            gofer::start(&needs.trees, terms, global)?;
            if !in_session {
                needs.trees.clear();
            }
        }
        if let Some(making) = needs.makes.take() {
            let fail = |e| Failure::image(format!("the process that gives names: {e}"));
            namer::start(making).map_err(fail)?;
        }
        needs.lent.retain(|path| path.exists());
        if let Some(terms) = needs.lends.take() {
            gofer::start_lender(&needs.lent, terms, global)?;
        }
        for path in &needs.trees {
            jail.write_beneath(path);
        }
        for path in needs.created.iter().filter(|p| p.exists()) {
            jail.create_beneath(path);
        }
        if needs.temporary {
            // It goes with its directory: who has no Linux sweeps that.
            let own = scratch::directory()?;
            jail.read(&own).create_beneath(own);
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
        let named = needs.images.iter().map(|(at, _)| &at.outermost().image);
        let remote = named.chain(&beside).filter(|image| is_remote(image));
        let logins = all.iter().flat_map(|global| global.logins.iter().cloned());
        servers::start(remote.map(PathBuf::as_path), logins)?;
        inherited::forget_proxies();
        if needs.programs {
            programs::start(Some(programs::jail(&needs, global)?), global)?;
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
        let kernels: Vec<_> = kernels.iter().copied().flatten().collect();
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
        let held = jail.enter().map_err(failure)?;
        if held.files == Files::No && !needs.trees.is_empty() && !global.quiet {
            tell::warning(
                "this host has no Landlock, so that a hostile image could write outside of \
                 the destination too (Linux 5.19 and newer have it)",
            );
        }
        state.needs = Some(needs);
        Ok(())
    })
}

/// What a session may do with files of the host.
pub struct Shared<'s> {
    /// Read and write beneath these.
    pub dirs: &'s [PathBuf],
    /// Read these.
    pub sources: &'s [PathBuf],
    /// Write these, or into them.
    pub dests: &'s [PathBuf],
}

/// A session begins. Beside `images`, with options of their own where they have some, it
/// may open what its first line names that opens anything, and of the host what is shared.
/// The jail closes before the first of them is opened.
pub fn begin_session(
    images: Vec<(PathBuf, Option<Global>)>,
    shared: &Shared,
    own: Option<&Path>,
    access: Access,
    global: &Global,
) -> Result<()> {
    let mut needs = Needs::default().session(access, own);
    // `lcd` goes elsewhere.
    let absolute = |path: &PathBuf| {
        let full = std::path::absolute(path);
        full.map_err(|e| Failure::of_host(path, &e))
    };
    for dir in shared.dirs {
        let dir = &absolute(dir)?;
        needs = needs.read(dir).lend(dir);
        needs = needs.write(dir).copies(Terms::Session);
    }
    for path in shared.sources.iter().filter(|path| !path.is_symlink()) {
        needs = needs.lend(&absolute(path)?);
    }
    if !needs.lent.is_empty() {
        let places = needs.lent.clone();
        needs = needs.lends(lender::Terms::Session(places));
    }
    for path in shared.dests {
        needs = needs.write(&absolute(path)?).copies(Terms::Session);
    }
    for (image, options) in images {
        needs.images.push((whole(&image), access));
        needs.own_options.extend(options.map(|own| (image, own)));
    }
    let is_known = !needs.images.is_empty();
    declare(needs);
    match is_known {
        true => enter_session(None, global),
        false => Ok(()),
    }
}

/// A session is about to open an image, or to boot a kernel.
pub(super) fn enter_session(image: Option<&ImagePath>, global: &Global) -> Result<()> {
    let (kernel, tiny) = (kernel_image(global)?, tiny_image(global));
    enter(
        image,
        &[Some(&kernel), tiny.as_deref()],
        Access::Read,
        global,
    )
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

/// What an image is made of is about to be looked at: archives and programs are met in
/// the jail too. `image` is what it will be called.
pub fn begin_making(image: &Path, mut needs: Needs, global: &Global) -> Result<()> {
    needs.programs = true;
    needs.again = true;
    declare(needs);
    let (kernel, tiny) = (kernel_image(global)?, tiny_image(global));
    let tiny = tiny.or_else(tane::tiny_image);
    enter(
        Some(&whole(image)),
        &[Some(&kernel), tiny.as_deref()],
        Access::Read,
        global,
    )
}

/// A session runs, in a jail.
pub fn confines_session() -> bool {
    with(|state| state.entered && state.needs.as_ref().is_some_and(|n| n.session.is_some()))
}

/// Whether programs of the host make no holes in files.
pub(super) fn keeps_from_holes() -> bool {
    with(|state| state.entered && state.needs.as_ref().is_some_and(|n| n.no_holes))
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
                let images = needs.images.iter().map(|(at, _)| &at.outermost().image);
                let lists = [
                    &needs.sources,
                    &needs.lent,
                    &needs.trees,
                    &needs.changed,
                    &needs.created,
                ];
                images.chain(lists.into_iter().flatten()).any(shared)
            })
        })
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
        for path in &needs.trees {
            jail.write_beneath(path);
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

/// A file, as an image.
fn whole(image: &Path) -> ImagePath {
    ImagePath {
        image: image.into(),
        selector: None,
        path: b"/".to_vec(),
        within: None,
    }
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
