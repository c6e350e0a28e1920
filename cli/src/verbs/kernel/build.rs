//! An image of one's own: one that there is, with other options. What Linux is made into
//! is of this installation (share/tane/kernel.tar.xz), Linux itself of the distribution.

use super::fragments;
use super::listener::Told;
use super::place;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_kernel_build::{build, in_the_way, missing_tools, prepared_source, recipe};
use tane_kernel_build::{Built, Layout, Order, Recipe};

#[derive(clap::Args)]
pub struct Args {
    /// Options that the image is to have, as Kconfig writes them: a file, or the name of a
    /// fragment that comes with tane; can be repeated, and the later one wins
    #[arg(long, value_name = "FILE|NAME")]
    fragment: Vec<PathBuf>,
    /// The image whose options these are added to
    #[arg(long, value_name = "NAME", default_value = "default")]
    base: String,
    /// The image to make, NAME.elf; what tells of it lies beside it
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    place: place::PlaceArgs,
    /// Build it although nothing has changed, and replace what is no such image
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, global: &Global) -> Result<u8> {
    // What is stopped goes on from there the next time.
    interrupt::stop_soon();
    let listener = Told::new(global);
    spare_fragments(args)?;
    let elf = replaceable(args)?;
    let place::Place {
        work,
        layout,
        lock: _lock,
    } = args.place.take(&listener)?;
    let (recipe, texts) = recipe(args, &layout)?;
    needs_tools()?;
    let layout = layout.with_origin(Some(args.place.origin(&work, &listener)?));
    fragments::write(&texts)?;
    let source = prepared_source(&layout, &listener).map_err(|text| failed(NO_IMAGE, text))?;
    let order = Order {
        layout: &layout,
        recipe: &recipe,
        elf,
        jobs: args.place.jobs(),
        force: args.force,
        replaces: args.force,
        listener: &listener,
    };
    let built = build(&source, &order).map_err(|text| failed(SOME_FAILED, text))?;
    tell(&order, &built, global)
}

/// What the crate says, or that somebody wanted it to end.
pub(in crate::verbs) fn failed(code: u8, text: String) -> Failure {
    match interrupt::requested() {
        true => Failure::interrupted().remedy("the next build goes on from here"),
        false => Failure::new(code, text),
    }
}

/// Where the image goes: nothing that somebody else made is replaced unasked.
fn replaceable(args: &Args) -> Result<PathBuf> {
    let path = &args.output;
    let shown = path.display();
    if path.extension().is_none_or(|ending| ending != "elf") {
        let text = format!("{shown}: what is made is NAME.elf, and others with NAME beside it");
        return Err(Failure::usage(text));
    }
    if let Some(other) = in_the_way(path).filter(|_| !args.force) {
        let text = format!(
            "{}: is there, and is of no image that was built",
            other.display()
        );
        let failure = Failure::new(SOME_FAILED, text).about(other.as_os_str().as_bytes());
        return Err(failure.remedy("give the image another name, or --force replaces it"));
    }
    std::path::absolute(path).map_err(|e| Failure::of_host(path, &e))
}

/// What lies beside the image is not to replace what it is made of: `my.config` becomes
/// `my.elf`, beside which there is a `my.config`.
fn spare_fragments(args: &Args) -> Result<()> {
    let made = ["config", "sizes", "debug", "manifest"];
    let made = made.map(|ending| args.output.with_extension(ending).canonicalize().ok());
    for fragment in &args.fragment {
        let own = fragment.canonicalize().ok();
        if own.is_some() && made.contains(&own) {
            let text = format!(
                "{}: {} would be replaced by what tells of that image",
                args.output.display(),
                fragment.display()
            );
            return Err(Failure::usage(text).remedy("give the image another name"));
        }
    }
    Ok(())
}

/// What the image is made of; and which files of options are to be written for it.
fn recipe(args: &Args, layout: &Layout) -> Result<(Recipe, Vec<(PathBuf, String)>)> {
    let known = recipe::fragments(layout).map_err(|text| Failure::new(NO_IMAGE, text))?;
    let mut recipe = Recipe::named(layout, &args.base).map_err(Failure::usage)?;
    if let Some(experiment) = &recipe.experiment {
        let text = format!("{}: is an experiment ({experiment})", args.base);
        return Err(Failure::usage(text).remedy("take another image for --base"));
    }
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for fragment in &args.fragment {
        let name = fragment
            .to_str()
            .filter(|name| !fragment.is_file() && known.contains(&name.to_string()));
        if let Some(name) = name {
            recipe = recipe.with(layout.configs().join(format!("{name}.config")));
            continue;
        }
        let (name, text) = fragments::read(fragment, &known)?;
        let file = layout
            .build()
            .join("fragments")
            .join(format!("{name}.config"));
        if texts.iter().any(|(other, _)| *other == file) {
            let text = format!(
                "{}: another fragment is called {name} too",
                fragment.display()
            );
            return Err(Failure::usage(text));
        }
        recipe = recipe.with(file.clone());
        texts.push((file, text));
    }
    Ok((recipe, texts))
}

pub(in crate::verbs) fn needs_tools() -> Result<()> {
    let missing = missing_tools();
    if missing.is_empty() {
        return Ok(());
    }
    let (tools, mut packages): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    packages.sort_unstable();
    packages.dedup();
    let text = format!("a build takes {}, not on PATH", tools.join(", "));
    let remedy = format!("Debian has them in {}", packages.join(", "));
    Err(Failure::new(NO_IMAGE, text).remedy(remedy))
}

fn tell(order: &Order, built: &Built, global: &Global) -> Result<u8> {
    let bytes = std::fs::metadata(&order.elf).map_or(0, |found| found.len());
    let options = super::files::options(&order.elf)?;
    let set = options.values().filter(|value| *value == "y").count();
    let path = order.elf.as_os_str().as_bytes();
    let mut out = Output::new();
    if global.json {
        let told = json!({
            "name": order.recipe.name, "bytes": bytes, "options": set,
            "built": !built.was_there, "warnings": built.warnings,
            "log": shown(&built.log),
        });
        out.json(&names::named("image", path, told))?;
    } else {
        out.name(path)?;
        let mib = bytes as f64 / f64::from(1 << 20);
        let state = if built.was_there { ", as it was" } else { "" };
        out.line(&format!(": {mib:.1} MiB, {set} options{state}"))?;
        if built.warnings > 0 {
            let (count, log) = (built.warnings, shown(&built.log));
            crate::tell::warning(&format!("{count} warnings of the compiler are in {log}"));
        }
    }
    out.flush()?;
    Ok(0)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
