//! tane diff: what differs between two images, or an image and a directory.

use super::entry;
use crate::compare::told::{Told, Wanted};
use crate::compare::{self, Aspect, Aspects, Differences, Entry, Pair, PairVisitor, Top};
use crate::failure::{Failure, Result};
use crate::names::{self, shown};
use crate::output::Output;
use crate::session::Global;
use crate::session::{
    self, address, declare, enter_before, image_path, is_without_jail, start_teller, tells, Access,
    End, Needs,
};
use crate::show;
use crate::tell;
use crate::users::Users;
use serde_json::Map;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use tane::Address;
use tane_copy::patterns::Excludes;
use tane_linux::{Errno, Fd, Kind};

/// Show what differs between two images, or an image and a directory of the host
#[derive(clap::Args)]
#[command(after_help = "\
Compared are types, content, targets of symlinks, device numbers, modes, owners,
modification times, extended attributes (ACLs, capabilities) and link counts;
--compare names others, --ignore leaves some out. Paths are those below OLD and NEW.
Neither is changed.

The exit code is 0 if nothing differs and 1 if something does, or could not be
compared; 3 if an image cannot be opened.

Examples:
  tane diff old.img new.img
  tane diff --exclude lost+found disk.img tree      a directory of the host
  tane diff --content old.img:/etc new.img:/etc | less
  tane diff --ignore owner,mtime disk.img@2:/srv srv
  tane diff --json a.qcow2 b.qcow2 | jq 'select(.change == \"added\").path'")]
pub struct Args {
    /// An image, what is in it, or a directory of the host
    #[arg(value_name = "OLD")]
    pub old: OsString,
    /// What it is compared with
    #[arg(value_name = "NEW")]
    pub new: OsString,
    /// Show what differs in texts, as a patch
    #[arg(short, long)]
    pub content: bool,
    /// Compare these, and nothing else
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub compare: Vec<Aspect>,
    /// Do not compare these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub ignore: Vec<Aspect>,
    /// Leave out what matches a pattern with *, ? and [...], and all below it: names
    /// wherever they are, or with a / paths below OLD and NEW; can be repeated
    #[arg(short = 'x', long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Do not read files that have the same size and modification time
    #[arg(long)]
    pub quick: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let places = [tree(&args.old, global)?, tree(&args.new, global)?];
    let images = places.iter().filter_map(|place| match place {
        Address::Image(at) => Some(at),
        Address::Host(_) => None,
    });
    enter_before(images, global)?;
    let mut told = told(&args, &places, global)?;
    declare(needs(&places, told.iter().any(Option::is_some)));
    let old = End::open(&places[0], Access::Read, global)?;
    let new = End::open(&places[1], Access::Read, global)?;
    let differ = compare(&args, global, &places, &old, &new, told.each_mut());
    let closed = old.close().and(new.close());
    let differ = differ?;
    closed?;
    Ok(u8::from(differ))
}

/// Aspects that are compared.
fn wanted(args: &Args) -> impl Iterator<Item = Aspect> + '_ {
    let wanted = match &args.compare[..] {
        [] => &Aspect::USUAL[..],
        some => some,
    };
    let wanted = wanted.iter().filter(|a| !args.ignore.contains(a));
    wanted.copied()
}

/// Directories of the host, beside an image or in a session: other processes read them, whose
/// Linux meets none.
fn told(args: &Args, places: &[Address; 2], global: &Global) -> Result<[Option<Told>; 2]> {
    let wants = |aspect| wanted(args).any(|wanted| wanted == aspect);
    let wanted = Wanted {
        content: args.content || wants(Aspect::Content),
        targets: wants(Aspect::Target),
        xattrs: wants(Aspect::Xattrs),
        flags: wants(Aspect::Flags),
        excludes: args.exclude.clone(),
        depth: usize::MAX,
    };
    let has_image = places.iter().any(|at| matches!(at, Address::Image(_)));
    let is_split = has_image && !is_without_jail(global) && !global.kept.is_session();
    let one = |at: &Address, argument: &OsStr| match at {
        Address::Host(path) if tells() => {
            let told = session::told(path, &wanted);
            told.map(Some)
                .map_err(|e| Failure::file(argument.as_bytes(), e))
        }
        Address::Host(path) if is_split => start_teller(path, &wanted, global).map(Some),
        _ => Ok(None),
    };
    Ok([one(&places[0], &args.old)?, one(&places[1], &args.new)?])
}

fn needs(places: &[Address; 2], is_told: bool) -> Needs {
    let images = places.iter().filter_map(|place| match place {
        Address::Image(at) => Some((at, Access::Read)),
        Address::Host(_) => None,
    });
    let needs = Needs::images(images);
    if is_told {
        return needs.handed();
    }
    places.iter().fold(needs, |needs, place| match place {
        Address::Image(_) => needs,
        Address::Host(path) => needs.read(path),
    })
}

/// A name that is no directory of the host is an image.
fn tree(argument: &OsStr, global: &Global) -> Result<Address> {
    match address(argument, global)? {
        Address::Host(path) if !path.is_dir() && !global.kept.is_session() => {
            image_path(argument, global).map(Address::Image)
        }
        found => Ok(found),
    }
}

fn compare(
    args: &Args,
    global: &Global,
    places: &[Address; 2],
    old: &End,
    new: &End,
    [told_old, told_new]: [&mut Option<Told>; 2],
) -> Result<bool> {
    let (old_root, new_root) = (old.root()?, new.root()?);
    let start = |root, at: &Address, argument: &OsStr| {
        let path = match at {
            Address::Host(path) => path.as_os_str().as_bytes(),
            Address::Image(at) => &at.path,
        };
        let fail = |e| Failure::file(argument.as_bytes(), e);
        entry(root, path).map_err(fail)
    };
    let start = |root, told: &Option<Told>, at, argument| match told {
        Some(_) => Ok(None),
        None => start(root, at, argument).map(Some),
    };
    let old_top = start(&old_root, told_old, &places[0], &args.old)?;
    let new_top = start(&new_root, told_new, &places[1], &args.new)?;
    let mut printer = Printer {
        args,
        excludes: Excludes::new(&args.exclude),
        aspects: Aspects {
            wanted: wanted(args).collect(),
            quick: args.quick,
        },
        json: global.json,
        quiet: global.quiet,
        users: [Users::default(), Users::default()],
        out: Output::new(),
        differ: false,
    };
    if global.json {
        let both = [(&old_root, &places[0]), (&new_root, &places[1])];
        printer.users = both.map(|(root, at)| match at {
            Address::Image(_) => Users::of(root),
            // Numbers: the host's names are not the image's.
            Address::Host(_) => Users::default(),
        });
    }
    let (Some(old), Some(new)) = (top(&old_top, told_old), top(&new_top, told_new)) else {
        return Err(Failure::usage("diff: there is nothing to be compared"));
    };
    let walked = compare::walk(old, new, &mut printer);
    printer.out.flush()?;
    walked?;
    Ok(printer.differ)
}

/// None: neither.
fn top<'t, 'a>(
    found: &'t Option<(Fd<'a>, CString)>,
    told: &'t mut Option<Told>,
) -> Option<Top<'t, 'a>> {
    match found {
        Some((dir, name)) => Some(Top::Kernel(dir, name)),
        None => told.as_mut().map(Top::Told),
    }
}

struct Printer<'r> {
    args: &'r Args,
    excludes: Excludes,
    aspects: Aspects,
    json: bool,
    quiet: bool,
    users: [Users; 2],
    out: Output,
    differ: bool,
}

impl PairVisitor for Printer<'_> {
    fn visit(&mut self, pair: &Pair) -> Result<bool> {
        let either = pair.old.as_ref().or(pair.new.as_ref());
        let is_dir = either.is_some_and(|e| e.stat.kind() == Kind::Directory);
        if self.excludes.has(pair.path, is_dir) {
            return Ok(false);
        }
        match (&pair.old, &pair.new) {
            (Some(old), None) => self.alone(pair, "removed", old, 0)?,
            (None, Some(new)) => self.alone(pair, "added", new, 1)?,
            (Some(old), Some(new)) => match Differences::between(old, new, &self.aspects)? {
                Ok(found) if found.is_empty() => {}
                Ok(found) => self.changed(pair, found)?,
                Err((is_new, e)) => self.unreadable(is_new, pair.path, e),
            },
            (None, None) => {}
        }
        Ok(true)
    }

    fn unreadable(&mut self, is_new: bool, path: &[u8], error: Errno) {
        self.differ = true;
        let argument = if is_new {
            &self.args.new
        } else {
            &self.args.old
        };
        let shown = match path {
            b"." => argument.as_bytes().to_vec(),
            path => [argument.as_bytes(), b" at ", path].concat(),
        };
        tell::failure(&Failure::file(&shown, error));
    }
}

impl Printer<'_> {
    /// A file that one of the two has.
    fn alone(&mut self, pair: &Pair, change: &str, entry: &Entry, side: usize) -> Result<()> {
        self.differ = true;
        let patch = self.patch(pair, entry.stat.kind() == Kind::File);
        if self.json {
            let mut object = Map::new();
            names::put(&mut object, "path", pair.path);
            object.insert("change".into(), change.into());
            let file = show::json("path", pair.path, &entry.stat, &self.users[side]);
            let key = if side == 0 { "old" } else { "new" };
            let keep = |(key, _): &(String, _)| !key.starts_with("path");
            let file: Map<_, _> = file.into_iter().filter(keep).collect();
            object.insert(key.into(), file.into());
            return self.object(object, patch);
        }
        let kind = entry.stat.kind().word();
        self.line(change, pair.path, kind)?;
        self.out.bytes(&patch.unwrap_or_default())
    }

    fn changed(&mut self, pair: &Pair, found: Differences) -> Result<()> {
        self.differ = true;
        let patch = self.patch(pair, found.content);
        if self.json {
            let mut object = Map::new();
            names::put(&mut object, "path", pair.path);
            object.insert("change".into(), "changed".into());
            object.insert("what".into(), found.what.into());
            object.insert("old".into(), found.old.into());
            object.insert("new".into(), found.new.into());
            return self.object(object, patch);
        }
        self.line("changed", pair.path, &found.text.join(", "))?;
        self.out.bytes(&patch.unwrap_or_default())
    }

    fn line(&mut self, change: &str, path: &[u8], what: &str) -> Result<()> {
        if self.quiet && self.args.content {
            // The patch alone.
            return Ok(());
        }
        self.out
            .line(&format!("{change}: {} ({what})", shown(path)))
    }

    fn object(
        &mut self,
        mut object: Map<String, serde_json::Value>,
        patch: Option<Vec<u8>>,
    ) -> Result<()> {
        if let Some(patch) = patch {
            names::put(&mut object, "patch", &patch);
        }
        self.out.json(&object.into())
    }

    /// With --content, the difference in lines.
    fn patch(&mut self, pair: &Pair, wanted: bool) -> Option<Vec<u8>> {
        if !wanted || !self.args.content {
            return None;
        }
        match compare::patch(pair.path, pair.old.as_ref(), pair.new.as_ref()) {
            Ok(patch) => Some(patch),
            Err((is_new, e)) => {
                self.unreadable(is_new, pair.path, e);
                None
            }
        }
    }
}
