// SPDX-License-Identifier: GPL-2.0-only
//! Modules that somebody has written, built out of the tree by Linux's own Kbuild
//! (Documentation/kbuild/modules.rst): with the headers, options, compiler and exported
//! symbols of an image, which is the one that can load them.

use std::path::{Path, PathBuf};

use crate::build::Job;
use crate::{build, compile, image, layout};
use crate::{Order, Result, Source};

/// Build those that the directory's Kbuild or Makefile names, and the image before them
/// unless it is there; their files, which lie in that directory.
pub fn modules(source: &Source, order: &Order, directory: &Path) -> Result<Vec<PathBuf>> {
    build(source, order)?;
    let job = Job::new(source, order);
    let _lock = job.lock()?;
    takes_modules(&job)?;
    prepare(&job)?;
    compile::modules(&job, directory)?;
    made(directory)
}

/// Whether there is what says which modules there are.
pub fn has_kbuild(directory: &Path) -> bool {
    let files = ["Kbuild", "Makefile"].map(|name| directory.join(name));
    files.iter().any(|file| file.is_file())
}

fn takes_modules(job: &Job) -> Result<()> {
    let config = layout::read(&job.out.join(".config"))?;
    match config.lines().any(|line| line == "CONFIG_MODULES=y") {
        true => Ok(()),
        false => Err(format!(
            "{}: this image loads no modules (CONFIG_MODULES)",
            job.recipe().name
        )),
    }
}

/// Once for each image that was built.
fn prepare(job: &Job) -> Result<()> {
    let stamp = job.out.join(".tane-modules");
    let inputs = image::inputs(job)?;
    let symbols = job.out.join("Module.symvers");
    let is_ready = symbols.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|s| s == inputs);
    if is_ready {
        return Ok(());
    }
    compile::prepare_modules(job)?;
    // No module is Linux's own: what vmlinux exports is all there is.
    layout::write(&symbols, &layout::read(&job.out.join("vmlinux.symvers"))?)?;
    layout::write(&stamp, &inputs)
}

/// Kbuild's list has the objects that they are linked from.
fn made(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = layout::read(&directory.join("modules.order"))?;
    let objects = list.lines().filter(|line| !line.is_empty());
    // Linux 6.12 names them from the root, later ones from the directory.
    let modules = objects.map(|object| directory.join(object).with_extension("ko"));
    Ok(modules.collect())
}
