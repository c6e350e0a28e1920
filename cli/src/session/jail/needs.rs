//! What a verb needs of the host: it says so before anything is read of an image.

use super::super::{gofer, network, prepared, Access, Fills, Making};
use crate::copy::gofer::{lender, Terms};
use crate::session::Global;
use std::path::{Path, PathBuf};
use tane::jail::Jail;
use tane::{directory_of, ImagePath};

/// What a verb needs beside its only image. Declared before that is opened.
#[derive(Debug, Default)]
pub struct Needs {
    pub(super) images: Vec<(ImagePath, Access)>,
    pub(super) sources: Vec<PathBuf>,
    /// As sources, but a process of its own reads them.
    pub(super) lent: Vec<PathBuf>,
    pub(super) lends: Option<lender::Terms>,
    pub(super) trees: Vec<PathBuf>,
    pub(super) changed: Vec<PathBuf>,
    /// A process of its own gives it its name.
    pub(super) makes: Option<Making>,
    /// Processes of their own have the Linux that fills file systems.
    pub(super) fills: Option<Fills>,
    /// A process of its own writes copies.
    pub(super) copies: Option<Terms>,
    pub(super) programs: bool,
    /// So many of them read what is made meanwhile.
    pub(super) fed: usize,
    /// A process of its own shows this image's files to one of them.
    pub(super) shown: Option<PathBuf>,
    /// The image's Linux runs a program, whose standard input this process's is.
    pub(super) runs: bool,
    /// These make no holes.
    pub(super) no_holes: bool,
    /// Several kernels are booted, one after the other.
    pub(super) again: bool,
    pub(super) temporary: bool,
    /// What is read is opened before the jail is entered.
    pub(super) holds: bool,
    pub(super) handed: bool,
    /// Directories of which a process of its own tells what is in them, once for each time.
    pub(super) told: Vec<PathBuf>,
    /// Kernels are booted at any time, for images that are opened like this.
    pub(super) session: Option<Access>,
    /// Of a session: directories of what is shared are listed or compared.
    pub(super) lists: bool,
    /// Images that a session will open as commands of it say.
    pub(super) own_options: Vec<(PathBuf, Access, Global)>,
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

    /// The files of all images.
    pub(super) fn named(&self) -> impl Iterator<Item = &PathBuf> {
        let images = self.images.iter().map(|(at, _)| &at.outermost().image);
        images.chain(self.own_options.iter().map(|(image, ..)| image))
    }

    /// They, and whether they are written.
    pub(super) fn opened(&self, global: &Global) -> Vec<(PathBuf, bool)> {
        let images = self.images.iter();
        let images = images.map(|(at, access)| (&at.outermost().image, *access, global));
        let own = self.own_options.iter();
        let all = images.chain(own.map(|(image, access, own)| (image, *access, own)));
        all.map(|(image, access, global)| (image.clone(), super::writes(access, global)))
            .collect()
    }

    /// Of root's.
    pub(super) fn rights(&self, jail: &mut Jail) {
        jail.attributes(!self.sources.is_empty());
        jail.handed(self.handed || self.session.is_some());
        jail.unpacks(self.holds || self.session.is_some());
        jail.hands(gofer::gofer().is_some());
        jail.programs(self.runs).connected(network::is_begun());
    }

    /// The most layers that one of the images has.
    fn deepest(&self) -> usize {
        let layers = self.images.iter().map(|(at, _)| at.layers().count());
        layers.max().unwrap_or(1)
    }

    /// How many kernels run at a time, at most, of `all` that the images take.
    pub(super) fn kernels(&self, all: usize) -> usize {
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

    /// In these files, file systems are filled, each by a process of its own, which has Linux:
    /// this one has none.
    pub fn fills(mut self, fills: Fills) -> Self {
        self.fills = Some(fills);
        self
    }

    /// So many programs read what is made meanwhile.
    pub fn fed(mut self, programs: usize) -> Self {
        self.fed = programs;
        self
    }

    /// A program reads this image's files in a directory beside it, if there is one: a process
    /// of its own shows them there.
    pub fn shown(mut self, image: Option<&Path>) -> Self {
        self.shown = image.map(Path::to_owned);
        self
    }

    /// Programs read and write this file, which is there already.
    pub fn change(mut self, path: &Path) -> Self {
        self.changed.push(path.into());
        self
    }

    /// A session: images are opened, and their kernels booted, at any time.
    pub(super) fn session(mut self, access: Access) -> Self {
        self.session = Some(access);
        self
    }

    /// Descriptors are still to be handed over.
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

    /// What is read is opened before the jail is entered, in which nothing is; what lies in
    /// directories by a process of its own.
    pub fn holds(mut self) -> Self {
        self.holds = true;
        self
    }

    /// Of what is held: a process of its own tells what is in this directory.
    pub fn told(mut self, dir: &Path) -> Self {
        self.told.push(dir.into());
        self
    }

    /// A directory for temporary files.
    pub fn temporary(mut self) -> Self {
        self.temporary = true;
        self
    }
}
