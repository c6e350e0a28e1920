//! What every verb is given: its options, and what it goes by beside them.

use super::Kept;
use crate::args::Options;
use crate::failure::Failure;
use crate::interrupt;
use clap::Args;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tane::images::LockWait;
use tane::Address;

/// What a verb goes by.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// As they were given.
    #[command(flatten)]
    pub given: Options,
    /// Names and passwords that were in addresses.
    #[arg(skip)]
    pub logins: Vec<tane::images::Login>,
    /// What is open already.
    #[arg(skip)]
    pub kept: Kept,
    /// What is read and written is needed once.
    #[arg(skip)]
    pub copies: bool,
    /// A program is run by the Linux of an image.
    #[arg(skip)]
    pub runs: bool,
    /// The layers of --lower are below another image than the one to be opened.
    #[arg(skip)]
    pub alone: bool,
}

impl Deref for Global {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.given
    }
}

impl DerefMut for Global {
    fn deref_mut(&mut self) -> &mut Options {
        &mut self.given
    }
}

impl Global {
    /// With other options.
    pub fn changed(&self, change: impl FnOnce(&mut Options)) -> Global {
        let mut other = self.clone();
        change(&mut other.given);
        other
    }

    /// For verbs that copy, be it to standard output.
    pub fn copying(&self) -> Global {
        Global {
            copies: true,
            ..self.clone()
        }
    }

    /// For the destination of a copy: the layers are below the source.
    pub fn above(&self, source: &Address, dest: &Address) -> Result<Global, Failure> {
        let text = match (source, dest) {
            _ if self.lower.is_empty() => None,
            (Address::Host(_), _) => Some("is for images that are read, and the source is none"),
            (Address::Image(a), Address::Image(b)) if a.same_file(b) => {
                Some("shows several images as one for reading, and this one is written")
            }
            _ => None,
        };
        if let Some(text) = text {
            return Err(Failure::usage(format!("--lower {text}")));
        }
        Ok(Global {
            alone: true,
            ..self.clone()
        })
    }

    /// How to wait for other programs, if that is wanted.
    pub fn patience(&self) -> Option<LockWait> {
        let quiet = self.quiet;
        Some(LockWait {
            limit: self.wait?,
            interrupted: Arc::new(interrupt::requested),
            say: Arc::new(move |text| {
                if !quiet {
                    crate::tell::note(text);
                }
            }),
        })
    }
}
