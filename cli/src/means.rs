//! What images are made by when this command makes them: programs in their jail, a kernel
//! as the options say.

use crate::compare::told;
use crate::failure::{Failure, SOME_FAILED};
use crate::interrupt;
use crate::programs;
use crate::session::Global;
use crate::session::{
    fill_elsewhere, open_source, open_source_in, saved, spool, temporary_place, told_source,
    Machine,
};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tane::images::Spool;
use tane_copy::{Observer, SenderBy};
use tane_linux::{Packed, Xattrs};
use tane_make::told::{Entry, Had, Telling};
use tane_make::{Error, Feed, Order, Tool, Wanted};

/// Of a command with these options.
pub struct Means<'g>(pub &'g Global);

impl tane_make::Means for Means<'_> {
    fn interrupted(&self) -> bool {
        interrupt::requested()
    }

    fn temporary(&self) -> PathBuf {
        temporary_place()
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        open_source(path)
    }

    fn open_in(&self, dir: &Path, name: &Path) -> io::Result<File> {
        open_source_in(dir, name)
    }

    fn is_saved(&self, dir: &Path) -> Option<bool> {
        saved::known(dir)
    }

    fn told(&self, dir: &Path) -> Option<Box<Telling<'_>>> {
        let mut told = told_source(dir)?;
        let next = move || told.next().map_err(Error::from).transpose();
        Some(Box::new(
            std::iter::from_fn(next).map(|next| Ok(entry(&*next?))),
        ))
    }

    fn spool(&self) -> io::Result<Spool> {
        spool()
    }

    fn command(&self, tool: Tool) -> tane_make::Result<Command> {
        Ok(programs::Tool::from(tool).command()?)
    }

    fn ask(&self, tool: Tool, command: &mut Command) -> tane_make::Result<Output> {
        Ok(programs::Tool::from(tool).ask(command, &[])?)
    }

    fn ask_fed(
        &self,
        tool: Tool,
        command: &mut Command,
        owner: Option<(u32, u32)>,
        feed: &mut Feed<'_>,
    ) -> tane_make::Result<Output> {
        Ok(programs::Tool::from(tool).ask_fed(command, owner, feed)?)
    }

    fn ask_shown(
        &self,
        tool: Tool,
        command: &mut Command,
        image: &Path,
    ) -> tane_make::Result<Output> {
        Ok(programs::ask_shown(tool.into(), command, image)?)
    }

    fn fill(
        &self,
        name: &Path,
        order: &Order,
        observer: &dyn Observer,
        emit: &dyn Fn(SenderBy<'_>),
    ) -> Option<tane_make::Result<()>> {
        let done = fill_elsewhere(name, order, observer, emit);
        done.map(|done| Ok(done?))
    }

    fn kernel(&self, wanted: &Wanted) -> tane_make::Result<tane::Kernel> {
        Ok(Machine::deterministic(wanted, self.0)?.kernel)
    }
}

fn entry(told: &told::Entry) -> Entry {
    let unpacked = |packed: Vec<u8>| {
        let mut all = Xattrs::default();
        Packed(&packed).for_each(|(name, value)| all.push(name, value));
        all
    };
    Entry {
        depth: told.depth,
        name: told.name.clone(),
        stat: told.stat,
        listed: told.listed,
        target: told.target.clone(),
        had: Had {
            xattrs: told.xattrs.clone().map(unpacked),
            flags: told.stat.map(|stat| stat.flags).unwrap_or_default(),
            is_subvolume: told.is_subvolume,
        },
    }
}

/// Passes through what makes images, and comes out as it was.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Means(Box::new(failure))
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        match e {
            Error::Usage(text) => Failure::usage(text),
            Error::Failed(text, _) => Failure::new(SOME_FAILED, text),
            Error::File(path, errno) => Failure::file(&path, errno),
            Error::Kernel(text, _) => Failure::image(text),
            Error::Disk(e) => Failure::of_image(&e),
            Error::Interrupted => Failure::interrupted(),
            Error::Means(e) => match e.downcast::<Failure>() {
                Ok(failure) => *failure,
                Err(e) => Failure::new(SOME_FAILED, e.to_string()),
            },
        }
    }
}
