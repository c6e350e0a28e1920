//! Modules out of the tree, for an image: what Kbuild takes is where that image is built.

use super::digest;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::verbs::kernel::{failed, is_plain, needs_tools, place, recipes, Told};
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_kernel_build::{has_kbuild, modules, prepared_source};
use tane_kernel_build::{Layout, Lock, Order, Recipe};

#[derive(clap::Args)]
pub struct Args {
    /// A directory with a Kbuild or Makefile (obj-m := NAME.o) and sources
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The image that is to load them
    #[arg(long, value_name = "NAME", default_value = "lab")]
    image: String,
    #[command(flatten)]
    place: place::PlaceArgs,
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    // What is stopped goes on from there the next time.
    interrupt::stop_soon();
    let listener = Told::new(global);
    let directory = sources(&args.directory)?;
    needs_tools()?;
    let (layout, _lock) = layout(&args.place, &listener)?;
    let recipe = Recipe::named(&layout, &args.image).map_err(Failure::usage)?;
    let layout = match &recipe.experiment {
        Some(experiment) => layout.with_experiment(experiment),
        None => layout,
    };
    let source = prepared_source(&layout, &listener).map_err(|text| failed(NO_IMAGE, text))?;
    let order = Order {
        layout: &layout,
        recipe: &recipe,
        elf: layout.images().join(format!("tane-{}.elf", args.image)),
        jobs: args.place.jobs(),
        force: false,
        // Nobody else has anything there.
        replaces: true,
        listener: &listener,
    };
    let made = modules(&source, &order, &directory);
    let made = made.map_err(|text| failed(SOME_FAILED, text))?;
    made.iter().try_for_each(|file| digest::add(file))?;
    tell(&made, &args.image, global)
}

/// Where the modules are built, and what says which there are.
fn sources(directory: &Path) -> Result<PathBuf> {
    let found = directory.canonicalize();
    let found = found.map_err(|e| Failure::of_host(directory, &e))?;
    let shown = directory.display();
    if !has_kbuild(&found) {
        let text = format!("{shown}: no Kbuild and no Makefile says which modules there are");
        let failure = Failure::new(SOME_FAILED, text).about(directory.as_os_str().as_bytes());
        return Err(failure.remedy("one line in a file Kbuild does, for hello.c: obj-m := hello.o"));
    }
    if !is_plain(&found) {
        let text = format!("{shown}: make takes no name with spaces, colons or signs");
        return Err(Failure::new(SOME_FAILED, text).remedy("give the directory another name"));
    }
    Ok(found)
}

/// A checkout's own build, where the command is one's; else as for `tane kernel build`.
fn layout(args: &place::PlaceArgs, listener: &Told) -> Result<(Layout, Option<Lock>)> {
    if args.work.is_none() && args.recipes.is_none() {
        if let Some(checkout) = recipes::checkout() {
            let layout = Layout::new(checkout.join("kernel"), checkout.join("build"));
            return Ok((layout.with_origin(args.source.clone()), None));
        }
    }
    let place = args.take(listener)?;
    let origin = args.origin(&place.work, listener)?;
    Ok((place.layout.with_origin(Some(origin)), Some(place.lock)))
}

fn tell(made: &[PathBuf], image: &str, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    for path in made {
        let bytes = std::fs::metadata(path)
            .map_err(|e| Failure::of_host(path, &e))?
            .len();
        let name = path.as_os_str().as_bytes();
        if global.json {
            let told = json!({ "image": image, "bytes": bytes });
            out.json(&names::named("module", name, told))?;
        } else {
            out.name(name)?;
            out.line(&format!(": {bytes} bytes, for the image {image}"))?;
        }
    }
    out.flush()?;
    Ok(0)
}
