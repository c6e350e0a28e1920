//! What is to be in an image: from directories, archives and container images, and what
//! other files say of their files.

use super::Args;
use crate::args::Global;
use crate::copy::{Observer, Owner, Report};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::make::build::Recipe;
use crate::make::emit::Times;
use crate::make::fill::Filling;
use crate::make::labels::Labels;
use crate::make::layer::Layers;
use crate::make::oci::{self, Choice, Store};
use crate::make::plan::{Identity, Plan};
use crate::make::tree::Tree;
use crate::make::{host, mtree, xattrs};
use crate::names::plain;
use crate::session::HOST;
use crate::sys::{Sys, Time};
use crate::tell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an image is to hold, before anything of it is made.
pub struct Gathered {
    tree: Tree,
    pub plan: Plan,
    times: Times,
    /// What could not be had, and why.
    complaints: Vec<(Vec<u8>, String)>,
    /// Which of several container images it is.
    choice: Choice,
}

impl Gathered {
    pub fn of(args: &Args, kind: &str) -> Result<Gathered> {
        let (mut complaints, mut choice) = (Vec::new(), Choice::default());
        let tree = gather(args, &mut complaints, &mut choice)?;
        let plan = Plan::of(&tree, kind);
        let times = Times {
            latest: match epoch(args)? {
                Some(sec) => Time {
                    sec: sec as i64,
                    nsec: 0,
                },
                None => plan.newest,
            },
            all: args.all_times,
        };
        Ok(Gathered {
            tree,
            plan,
            times,
            complaints,
            choice,
        })
    }

    pub fn complain(&self, report: &Report, global: &Global) {
        let is_told = self.choice.is_foreign && !global.quiet || global.verbose;
        if let Some(text) = self.choice.text.as_ref().filter(|_| is_told) {
            tell::note(text);
        }
        for (path, why) in &self.complaints {
            report.error_text(path, why.clone());
        }
    }

    /// `more`: what tells it from others of the same content.
    pub fn identity(&self, args: &Args, kind: &str, size: u64, more: &str) -> Identity {
        let made_with = format!(
            "{kind} {size} {:?} {:?}{more}",
            self.times.latest, args.label
        );
        Identity::of(&self.tree, self.times, &made_with)
    }

    pub fn recipe<'a>(
        &'a self,
        args: &'a Args,
        kind: &'a str,
        size: u64,
        identity: &'a Identity,
    ) -> Recipe<'a> {
        Recipe {
            image: &args.image,
            filling: Filling {
                kind,
                target: kind,
                tree: &self.tree,
                times: self.times,
                source: args.source.as_os_str().as_bytes(),
            },
            size,
            inodes: self.plan.inodes,
            working_set: self.plan.working_set,
            time: self.times.latest.sec.max(0) as u64,
            label: args.label.as_deref(),
            uuid: args.uuid.as_deref().unwrap_or(&identity.uuid),
            identity,
            table: args.partition_table,
            compression: args.compression.as_deref(),
        }
    }
}

fn epoch(args: &Args) -> Result<Option<u64>> {
    if args.epoch.is_some() {
        return Ok(args.epoch);
    }
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let wrong = || Failure::usage("SOURCE_DATE_EPOCH is no number of seconds");
    seconds.map(Some).ok_or_else(wrong)
}

/// Puts the tree together: sources, then owners, then what files say of files.
fn gather(
    args: &Args,
    complaints: &mut Vec<(Vec<u8>, String)>,
    choice: &mut Choice,
) -> Result<Tree> {
    if args.source.as_os_str().is_empty() {
        return Ok(Tree::new());
    }
    // A single archive is a plain one, whose files may have any name.
    let is_layered = args.source.is_dir() || !args.layer.is_empty();
    let mut into = Layers::new(is_layered);
    match args.source.is_dir() {
        true => directory(args, &mut into, choice)?,
        false => archive(args, &mut into, choice)?,
    }
    for layer in &args.layer {
        into.add(layer).map_err(|e| fail(layer, &e))?;
    }
    interrupt::check()?;
    complaints.append(&mut into.complaints);
    let mut tree = into.tree;
    if args.owner != Owner::Keep {
        for (_, id) in tree.walk() {
            let stat = &mut tree.node_mut(id).stat;
            (stat.uid, stat.gid) = args.owner.of(stat.uid, stat.gid);
        }
    }
    for path in &args.metadata {
        let text = std::fs::read(path).map_err(|e| fail(path, &e))?;
        mtree::apply(&mut tree, &text).map_err(|e| fail(path, &e))?;
    }
    for path in &args.xattrs {
        let text = std::fs::read(path).map_err(|e| fail(path, &e))?;
        xattrs::apply(&mut tree, &text).map_err(|e| fail(path, &e))?;
    }
    let mut labels = Labels::default();
    for path in &args.selinux {
        let text = std::fs::read_to_string(path).map_err(|e| fail(path, &e))?;
        labels.read(&text).map_err(|e| fail(path, &e))?;
    }
    if !args.selinux.is_empty() {
        labels.apply(&mut tree);
    }
    Ok(tree)
}

fn fail(path: &Path, e: &dyn std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {e}", path.display()))
}

fn directory(args: &Args, into: &mut Layers, choice: &mut Choice) -> Result<()> {
    let source = &args.source;
    if let Some(store) = Store::directory(source) {
        return container(&store, args, into, choice);
    }
    no_reference(args)?;
    let bytes = source.as_os_str().as_bytes();
    let found = host::add(&mut into.tree, Sys(&HOST), bytes).map_err(|e| fail(source, &e))?;
    let found = found.into_iter().map(|(path, e)| (path, e.to_string()));
    into.complaints.extend(found);
    Ok(())
}

fn archive(args: &Args, into: &mut Layers, choice: &mut Choice) -> Result<()> {
    into.add(&args.source).map_err(|e| fail(&args.source, &e))?;
    let read = std::mem::replace(&mut into.tree, Tree::new());
    if let Some(store) = Store::archive(&read) {
        return container(&store, args, into, choice);
    }
    into.tree = read;
    no_reference(args)
}

/// The layers of one image.
fn container(store: &Store, args: &Args, into: &mut Layers, choice: &mut Choice) -> Result<()> {
    let wrong = |e: String| match interrupt::check() {
        Ok(()) => fail(&args.source, &e),
        Err(interrupted) => interrupted,
    };
    let found = oci::layers(store, args.reference.as_deref()).map_err(wrong)?;
    into.whiteouts = true;
    for (name, piece) in &found.list {
        let added = into.add_piece(piece);
        added.map_err(|e| wrong(format!("{}: {e}", plain(name.as_bytes()))))?;
    }
    let text = found.choice.text;
    *choice = Choice {
        text: text.map(|text| format!("{}: {text}", args.source.display())),
        ..found.choice
    };
    Ok(())
}

fn no_reference(args: &Args) -> Result<()> {
    match &args.reference {
        None => Ok(()),
        Some(_) => Err(fail(
            &args.source,
            &"is no container image: --ref chooses among those",
        )),
    }
}
