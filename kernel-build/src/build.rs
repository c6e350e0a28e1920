// SPDX-License-Identifier: GPL-2.0-only
//! An image from its source to its manifest, unless it is there already.

use std::path::PathBuf;

use crate::layout::create_dir;
use crate::{compile, config, image, overlay, source};
use crate::{Layout, Listener, Lock, Recipe, Result, Source};

/// How an image is to be built.
pub struct Order<'a> {
    /// Where.
    pub layout: &'a Layout,
    /// Of what.
    pub recipe: &'a Recipe,
    /// The image's file, NAME.elf; what is told of it lies beside it.
    pub elf: PathBuf,
    /// Programs at a time.
    pub jobs: usize,
    /// Although nothing has changed.
    pub force: bool,
    /// What is there under the names of its files, whoever made it.
    pub replaces: bool,
    /// Who hears of it.
    pub listener: &'a dyn Listener,
}

/// What became of it.
pub struct Built {
    /// Nothing had changed.
    pub was_there: bool,
    /// What the compiler warned of.
    pub warnings: usize,
    /// What programs said.
    pub log: PathBuf,
}

/// Do the patches of every experiment still apply? Building one takes minutes.
pub fn check_experiments(layout: &Layout, listener: &dyn Listener) -> Result<usize> {
    let source = prepared_source(layout, listener)?;
    let names = experiments(layout)?;
    for name in &names {
        overlay::try_patches(&layout.with_experiment(name), &source)?;
    }
    Ok(names.len())
}

fn experiments(layout: &Layout) -> Result<Vec<String>> {
    let dir = layout.experiments();
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The tree that everything is built from, with overlay and patches in place.
pub fn prepared_source(layout: &Layout, listener: &dyn Listener) -> Result<Source> {
    let _lock = Lock::take(layout, "source", listener)?;
    create_dir(&layout.logs())?;
    let source = source::prepare(layout, listener)?;
    overlay::apply(layout, &source)?;
    Ok(source)
}

/// Build the image from that tree.
pub fn build(source: &Source, order: &Order) -> Result<Built> {
    let job = Job::new(source, order);
    let _lock = job.lock()?;
    let inputs = image::inputs(&job)?;
    let was_there = !order.force && image::is_current(&order.elf, &inputs);
    if !was_there {
        create_dir(&job.out)?;
        create_dir(order.elf.parent().unwrap_or(&job.out))?;
        std::fs::write(&job.log, "").map_err(|e| format!("{}: {e}", job.log.display()))?;
        config::configure(&job)?;
        compile::vmlinux(&job)?;
        image::finish(&job, &inputs)?;
    }
    Ok(Built {
        was_there,
        warnings: if was_there { 0 } else { image::warnings(&job) },
        log: job.log,
    })
}

/// One image under construction.
pub(crate) struct Job<'a> {
    pub order: &'a Order<'a>,
    pub source: &'a Source,
    /// Kbuild's O=.
    pub out: PathBuf,
    pub log: PathBuf,
}

impl<'a> Job<'a> {
    pub fn new(source: &'a Source, order: &'a Order) -> Job<'a> {
        let part = format!("kernel-{}", order.recipe.name);
        Job {
            order,
            source,
            out: order.layout.build().join(&part),
            log: order.layout.logs().join(format!("{part}.log")),
        }
    }

    /// Nobody else builds this image meanwhile.
    pub fn lock(&self) -> Result<Lock> {
        let part = format!("kernel-{}", self.recipe().name);
        Lock::take(self.layout(), &part, self.order.listener)
    }

    pub fn layout(&self) -> &Layout {
        self.order.layout
    }

    pub fn recipe(&self) -> &Recipe {
        self.order.recipe
    }

    /// Run a command of the build, with its output in the log.
    pub fn run(&self, command: &mut std::process::Command, title: &str) -> Result<()> {
        crate::command::logged(command, &self.log, title, self.order.listener)
    }
}
