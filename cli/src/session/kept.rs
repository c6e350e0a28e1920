//! Images that stay open from one command of a session (`tane sh`) to the next.
//!
//! One kernel serves them all, save those that would be mistaken for one that is
//! open already, such as a copy of it: these get a kernel of their own. An image
//! is opened for reading until the first command that writes to it.

mod files;
mod undo;

use super::image::{mount, Opened};
use super::machine::Machine;
use super::{confines_session, jail, secrets, Access, Here};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use crate::tell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tane::{ImagePath, Selector};
use undo::Undo;

/// A handle to what a session keeps; of other commands, to nothing.
#[derive(Clone, Default)]
pub struct Kept(Option<Arc<Mutex<Inner>>>);

/// Why no command of a session writes to images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnlyReads {
    /// The user said so.
    AsTold,
    /// Nobody has said that any should before the first image was met: whoever has taken a
    /// session over could say that a command was typed.
    Unasked,
}

#[derive(Default)]
struct Inner {
    only_reads: Option<OnlyReads>,
    /// Images that it does not write to, while it does to others.
    read: Vec<PathBuf>,
    here: Option<Here>,
    images: Vec<Image>,
    kernel: Option<tane::Kernel>,
    /// Secrets are read once: a second look at standard input sees what follows.
    secrets: Vec<(SecretFiles, Vec<Vec<u8>>)>,
    /// What images were opened with, if it is something of their own.
    options: Vec<(PathBuf, Global)>,
    /// Commands can be undone.
    undo: Option<Undo>,
}

type SecretFiles = (Option<PathBuf>, Option<PathBuf>);

struct Image {
    file: PathBuf,
    access: Access,
    mounts: Vec<(Option<Selector>, Arc<Opened>)>,
    machine: Arc<Machine>,
}

/// An image that is to be opened.
struct Request<'r> {
    file: PathBuf,
    at: &'r ImagePath,
    access: Access,
    global: &'r Global,
    secrets: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let images = self.inner().map_or(0, |i| i.images.len());
        write!(f, "Kept({images} images)")
    }
}

/// The name a file has whatever it is called.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

impl Kept {
    /// That of a session.
    pub fn session() -> Kept {
        Kept(Some(Arc::default()))
    }

    /// From now on none of its commands writes to images; how these are opened, then.
    pub fn only_reads(&self, why: OnlyReads) -> Access {
        if let Some(mut inner) = self.inner() {
            inner.only_reads = Some(why);
        }
        Access::Read
    }

    /// None of its commands that were known when it began writes to these.
    pub fn only_reads_these(&self, files: impl Iterator<Item = PathBuf>) {
        if let Some(mut inner) = self.inner() {
            inner.read = files.collect();
        }
    }

    /// An error if the session does not have that done to an image.
    pub fn permits(&self, image: &Path, access: Access, global: &Global) -> Result<()> {
        match self.inner() {
            Some(inner) => inner.permits(image, access, global),
            None => Ok(()),
        }
    }

    fn inner(&self) -> Option<MutexGuard<'_, Inner>> {
        let inner = self.0.as_ref()?;
        Some(inner.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub fn is_session(&self) -> bool {
        self.0.is_some()
    }

    pub fn here(&self) -> Option<Here> {
        self.inner()?.here.clone()
    }

    pub fn go(&self, here: Option<Here>) {
        if let Some(mut inner) = self.inner() {
            inner.here = here;
        }
    }

    /// The kernel that the images share, booted when it is first asked for; None
    /// outside of a session.
    pub fn kernel(&self, global: &Global) -> Result<Option<tane::Kernel>> {
        self.inner().map(|mut i| i.kernel(global)).transpose()
    }

    /// What opens encrypted volumes.
    pub fn secrets(&self, global: &Global) -> Result<Vec<Vec<u8>>> {
        match self.inner() {
            Some(mut inner) => inner.secrets(global),
            None => secrets::given(global),
        }
    }

    /// Reads them ahead, where that is no line of standard input. What cannot be read is told
    /// when it is needed.
    pub fn read_secrets(&self, global: &Global) {
        if global.passphrase_file.as_deref() != Some(Path::new("-")) {
            let _ = self.secrets(global);
        }
    }

    /// A file system of an image, opened if it is not; None outside of a session,
    /// and for an image inside another, which each command opens anew.
    pub fn open(
        &self,
        at: &ImagePath,
        access: Access,
        global: &Global,
    ) -> Result<Option<Arc<Opened>>> {
        let Some(mut inner) = self.inner() else {
            return Ok(None);
        };
        inner.permits(&at.image, access, global)?;
        match at.within.is_some() {
            true => Ok(None),
            false => inner.open(at, access, global).map(Some),
        }
    }

    /// From now on, this image is opened with these options.
    pub fn remember(&self, image: &Path, global: &Global) -> Result<()> {
        self.close(image)?;
        if let Some(mut inner) = self.inner() {
            let file = real(image);
            inner.options.retain(|(known, _)| *known != file);
            // Without the handle: what is kept must not keep itself.
            let kept = Kept::default();
            let global = Global {
                kept,
                ..global.clone()
            };
            inner.options.push((file, global));
        }
        Ok(())
    }

    /// Somebody wants the image for himself: closes it. The options for it.
    pub fn release(&self, image: &Path, global: &Global) -> Result<Global> {
        self.close(image)?;
        let inner = self.inner();
        let own = inner.and_then(|i| i.options_for(&real(image)));
        let kept = self.clone();
        Ok(own.map_or_else(|| global.clone(), |own| Global { kept, ..own }))
    }

    /// Unmounts an image; false: it is not open.
    pub fn close(&self, image: &Path) -> Result<bool> {
        let Some(mut inner) = self.inner() else {
            return Ok(false);
        };
        let file = real(image);
        let Some(at) = inner.images.iter().position(|i| i.file == file) else {
            return Ok(false);
        };
        inner.images.remove(at).close().map(|()| true)
    }

    /// Unmounts all; the first error, the others are told.
    pub fn close_all(&self) -> Result<()> {
        let images = self.inner().map(|mut i| std::mem::take(&mut i.images));
        all(images.into_iter().flatten().map(Image::close))
    }

    /// Everything written so far is in the images when this returns.
    pub fn sync(&self) -> Result<()> {
        let Some(inner) = self.inner() else {
            return Ok(());
        };
        let mounts = inner.images.iter().flat_map(|i| &i.mounts);
        all(mounts.map(|(_, opened)| opened.sync()))
    }

    /// The files of the images that are open, and what for.
    pub fn list(&self) -> Vec<(PathBuf, Access)> {
        let inner = self.inner();
        let list = inner.map(|i| {
            i.images
                .iter()
                .map(|i| (i.file.clone(), i.access))
                .collect()
        });
        list.unwrap_or_default()
    }
}

fn all(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut first = Ok(());
    for result in results {
        match (&first, result) {
            (Ok(()), result) => first = result,
            (Err(_), Err(failure)) => tell::failure(&failure),
            (Err(_), Ok(())) => {}
        }
    }
    first
}

impl Inner {
    fn permits(&self, image: &Path, access: Access, global: &Global) -> Result<()> {
        let name = image.display();
        let failure = |text: &str| {
            let failure = Failure::new(SOME_FAILED, format!("{name}: {text}"));
            failure.about(image.as_os_str().as_bytes())
        };
        let own = self.options_for(&real(image));
        let forgets = own.as_ref().unwrap_or(global).forgets();
        match self.only_reads {
            _ if access == Access::Read => Ok(()),
            Some(OnlyReads::AsTold) => {
                Err(failure("this session is for reading only (--read-only)"))
            }
            Some(OnlyReads::Unasked) if !forgets => {
                let failure = failure("commands that are typed, or come by a pipe, only read");
                Err(failure.remedy("tane sh --rw writes, and so do commands of -c and -f"))
            }
            None if !forgets && self.read.contains(&real(image)) => {
                let failure = failure("no command was known to write to it when the session began");
                Err(failure.remedy("tane sh --rw writes to all its images"))
            }
            _ => Ok(()),
        }
    }

    fn kernel(&mut self, global: &Global) -> Result<tane::Kernel> {
        if let Some(kernel) = self.kernel.as_ref().filter(|k| k.is_alive()) {
            return Ok(kernel.clone());
        }
        jail::enter_session(None, global)?;
        let machine = match &mut self.undo {
            Some(undo) => {
                undo.forget();
                Machine::that_goes_back(global)?
            }
            None => Machine::alone(global)?,
        };
        Ok(self.kernel.insert(machine.kernel).clone())
    }

    fn secrets(&mut self, global: &Global) -> Result<Vec<Vec<u8>>> {
        let files = (global.passphrase_file.clone(), global.key_file.clone());
        if let Some((_, known)) = self.secrets.iter().find(|(f, _)| *f == files) {
            return Ok(known.clone());
        }
        let secrets = secrets::given(global)?;
        self.secrets.push((files, secrets.clone()));
        Ok(secrets)
    }

    fn options_for(&self, file: &Path) -> Option<Global> {
        let own = self.options.iter().find(|(known, _)| known == file);
        own.map(|(_, global)| global.clone())
    }

    fn open(&mut self, at: &ImagePath, access: Access, global: &Global) -> Result<Arc<Opened>> {
        if self.undo.is_none() {
            return self.open_as(at, access, global);
        }
        let file = real(&at.image);
        if access == Access::Read && !self.images.iter().any(|i| i.file == file) {
            // As it will be: what is opened anew cannot go back to before that.
            if let Ok(opened) = self.open_as(at, Access::Write, global) {
                return Ok(opened);
            }
        }
        let opened = self.open_as(at, access, global)?;
        if access == Access::Write {
            self.remember()?;
        }
        Ok(opened)
    }

    fn open_as(&mut self, at: &ImagePath, access: Access, global: &Global) -> Result<Arc<Opened>> {
        let file = real(&at.image);
        self.bury_the_dead();
        let own = self.options_for(&file);
        let global = own.as_ref().unwrap_or(global);
        if !confines_session() {
            // The files that a first line names.
            let _ = self.secrets(global);
        }
        jail::enter_session(Some(at), global)?;
        if at.is_netfs() {
            return self.open_files(at, file, global);
        }
        let mut secrets = None;
        if let Some(i) = self.images.iter().position(|i| i.file == file) {
            let image = &mut self.images[i];
            if access == Access::Read || image.access == Access::Write {
                return image.mount(at, global);
            }
            // What is read so far was a snapshot.
            let image = self.images.remove(i);
            secrets = Some(image.machine.secrets());
            image.close()?;
        }
        let secrets = match secrets {
            Some(secrets) => secrets,
            None => self.secrets(global)?,
        };
        let request = Request {
            file,
            at,
            access,
            global,
            secrets,
        };
        let kernel = self.kernel(global)?;
        match self.add(&kernel, &request, false) {
            // One kernel cannot have two of one name or identity; and only one goes back.
            Err(_) if !self.images.is_empty() && self.undo.is_none() => {}
            other => return other,
        }
        self.add(&Machine::alone(global)?.kernel, &request, true)
    }

    fn add(&mut self, kernel: &tane::Kernel, r: &Request, alone: bool) -> Result<Arc<Opened>> {
        let machine = Machine::attach(kernel, &r.at.image, r.access, r.global, &r.secrets)?;
        if !alone && self.is_twin(&machine)? {
            let name = r.at.image.display();
            return Err(Failure::image(format!("{name}: its twin is open")));
        }
        let mut image = Image {
            file: r.file.clone(),
            access: r.access,
            mounts: Vec::new(),
            machine: Arc::new(machine),
        };
        let opened = image.mount(r.at, r.global)?;
        self.images.push(image);
        Ok(opened)
    }

    /// Whether something in it has the identity of something that is open.
    fn is_twin(&self, machine: &Machine) -> Result<bool> {
        let disks = self.images.iter();
        for image in disks.filter(|image| image.machine.disk().is_some()) {
            let known = identities(&image.machine)?;
            if identities(machine)?.iter().any(|id| known.contains(id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a dead kernel had open is lost, and was told so; the files are free.
    fn bury_the_dead(&mut self) {
        self.images.retain(|i| i.machine.kernel.is_alive());
    }
}

fn identities(machine: &Machine) -> Result<Vec<String>> {
    let volumes = machine.volumes()?.list().iter();
    let all = volumes.flat_map(|v| {
        let found = v.found.as_ref().and_then(|f| f.uuid.clone());
        [found, v.uuid.clone()]
    });
    Ok(all.flatten().collect())
}

impl Image {
    fn mount(&mut self, at: &ImagePath, global: &Global) -> Result<Arc<Opened>> {
        if let Some((_, opened)) = self.mounts.iter().find(|(s, _)| *s == at.selector) {
            return Ok(opened.clone());
        }
        let opened = Arc::new(mount(self.machine.clone(), at, self.access, global)?);
        self.mounts.push((at.selector.clone(), opened.clone()));
        Ok(opened)
    }

    fn close(self) -> Result<()> {
        all(self.mounts.into_iter().map(|(_, opened)| {
            let name = self.file.display();
            match Arc::try_unwrap(opened) {
                Ok(opened) => opened.close().map_err(|f| f.of(&name.to_string())),
                Err(_) => Err(Failure::image(format!("{name}: is in use by this command"))),
            }
        }))
    }
}
