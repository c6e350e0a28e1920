// SPDX-License-Identifier: GPL-2.0-only
//! `xtask kernel`: Debian's Linux source, our overlay, our patches and a
//! configuration in; one ELF image that the loader maps out.
//!
//!   source.rs    the pristine tree, unpacked once
//!   overlay.rs   arch/tane linked in, kernel/patches applied
//!   recipe.rs    what an image's configuration consists of
//!   config.rs    fragments merged, and every requested symbol verified
//!   compile.rs   make, reproducibly
//!   nops.rs      room for a call at the start of each function, where there is any
//!   image.rs     stripped image, debug image and manifest

mod compile;
mod config;
mod image;
mod nops;
mod overlay;
mod recipe;
mod source;

use std::path::PathBuf;

use crate::layout::{create_dir, Layout};
use crate::{lock, Result};

use recipe::Recipe;
pub use source::Source;

struct Options {
    configs: Vec<String>,
    jobs: usize,
    force: bool,
}

pub fn main(layout: &Layout, args: &[String]) -> Result<()> {
    if args == ["--list"] {
        for (name, fragments) in recipe::all(layout)? {
            println!("{name}: {}", fragments.join(" "));
        }
        return Ok(());
    }
    let options = parse(args)?;
    for name in &options.configs {
        let recipe = Recipe::named(layout, name)?;
        let mine = recipe.experiment.as_ref();
        let mine = mine.map(|name| layout.with_experiment(name));
        let layout = mine.as_ref().unwrap_or(layout);
        let source = prepared_source(layout)?;
        build(layout, &source, &recipe, &options)?;
    }
    Ok(())
}

/// Do the patches of every experiment still apply? Building one takes minutes.
pub fn check_experiments(layout: &Layout) -> Result<()> {
    let source = prepared_source(layout)?;
    let names = experiments(layout)?;
    for name in &names {
        overlay::try_patches(&layout.with_experiment(name), &source)?;
    }
    println!("experiments: {} apply", names.len());
    Ok(())
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
pub fn prepared_source(layout: &Layout) -> Result<Source> {
    let _lock = lock::take(layout, "source")?;
    create_dir(&layout.logs())?;
    create_dir(&layout.images())?;
    let source = source::prepare(layout)?;
    overlay::apply(layout, &source)?;
    Ok(source)
}

fn build(layout: &Layout, source: &Source, recipe: &Recipe, options: &Options) -> Result<()> {
    let _lock = lock::take(layout, &format!("kernel-{}", recipe.name))?;
    let inputs = image::inputs(layout, source, recipe)?;
    if !options.force && image::is_current(layout, recipe, &inputs) {
        return Ok(());
    }
    let job = Job {
        layout,
        source,
        recipe,
        jobs: options.jobs,
        out: layout.build().join(format!("kernel-{}", recipe.name)),
        log: layout.logs().join(format!("kernel-{}.log", recipe.name)),
    };
    create_dir(&job.out)?;
    std::fs::write(&job.log, "").map_err(|e| format!("{}: {e}", job.log.display()))?;
    config::configure(&job)?;
    compile::vmlinux(&job)?;
    image::finish(&job, &inputs)
}

/// One image under construction.
struct Job<'a> {
    layout: &'a Layout,
    source: &'a Source,
    recipe: &'a Recipe,
    jobs: usize,
    /// Kbuild's O=.
    out: PathBuf,
    log: PathBuf,
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        configs: Vec::new(),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        force: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--config" => options.configs.push(value()?.clone()),
            "--jobs" | "-j" => {
                options.jobs = value()?
                    .parse()
                    .ok()
                    .filter(|&jobs| jobs > 0)
                    .ok_or("--jobs needs a number above 0")?;
            }
            "--force" => options.force = true,
            _ => return Err(format!("kernel: unknown option {arg}\n{}", crate::USAGE)),
        }
    }
    if options.configs.is_empty() {
        options.configs.push("default".to_string());
    }
    Ok(options)
}
