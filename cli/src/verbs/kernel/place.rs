//! Where images and what belongs to them are built, and of what.

use super::build::failed;
use super::listener::Told;
use super::{origin, recipes, work};
use crate::failure::{Result, NO_IMAGE};
use std::path::{Path, PathBuf};
use tane_kernel_build::{Layout, Lock};

#[derive(clap::Args)]
pub struct PlaceArgs {
    /// Linux's source, an archive or clean tree of 6.12 (default: Debian's package, which
    /// is fetched by apt-get where it is not installed)
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
    /// Where it is built; what is there makes the next build short, and takes 2 GB
    /// (default: tane/kernel in your cache); a directory with nothing of yours in it
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// What images are made of beside Linux (default: what was installed with tane)
    #[arg(long, value_name = "PATH")]
    pub recipes: Option<PathBuf>,
    /// Programs at a time (default: as many as there are processors)
    #[arg(long, short, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// A directory that nobody else builds in meanwhile.
pub struct Place {
    pub work: PathBuf,
    /// Without Linux's source.
    pub layout: Layout,
    pub lock: Lock,
}

impl PlaceArgs {
    pub fn take(&self, listener: &Told) -> Result<Place> {
        let work = work::find(self.work.as_deref())?;
        work::claim(&work)?;
        // One build at a time: what all are made of may be replaced by a newer one.
        let lock = Lock::take(&Layout::new(&work, &work), "work", listener)
            .map_err(|text| failed(NO_IMAGE, text))?;
        let ours = recipes::find(self.recipes.as_deref(), &work)?;
        let layout = Layout::new(ours, work.join("build"));
        Ok(Place { work, layout, lock })
    }

    /// Where Linux's source is.
    pub fn origin(&self, work: &Path, listener: &Told) -> Result<PathBuf> {
        origin::find(self.source.as_deref(), work, listener)
    }

    pub fn jobs(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(all, usize::from)
    }
}
