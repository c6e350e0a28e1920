//! tane find: walks a directory and prints what matches.

mod conditions;

use super::entry;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use crate::show;
use crate::tell;
use crate::users::Users;
use crate::walk::{walk, Next, Visit, Visitor};
use conditions::{Age, Number, Permissions, Size};
use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};
use tane_copy::patterns::glob;
use tane_linux::{Entries, Errno, Kind, Root, Time};

/// Find files of an image by name, type, size, age, owner or mode
#[derive(clap::Args)]
#[command(after_help = "\
All tests must hold, and mean what they mean to GNU find, whose spelling (-name, -mtime,
-print0, ...) is understood too. N is a number, +N more than it, -N less. There is no
-exec: give --print0 to xargs -0.

Examples:
  tane find disk.img --name '*.conf'
  tane find disk.img:/var -type f -size +1M
  tane find disk.img:/etc -mtime -7 -type f            changed in the last week
  tane find disk.img -perm /6000 -user root            set-user-ID or set-group-ID
  tane find disk.img --newer disk.img:/etc/machine-id --json")]
pub struct Args {
    /// Images or directories in them
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub paths: Vec<OsString>,
    /// The name matches a pattern with *, ? and [...]
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub name: Option<String>,
    /// As --name, ignoring case (of ASCII letters)
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub iname: Option<String>,
    /// The type is one of these letters: f, d, l, p, s, c, b
    #[arg(long = "type", value_name = "LETTERS", value_parser = types)]
    pub kinds: Option<String>,
    /// The size, in units that are counted up to the next whole one: c (bytes), w, b (512
    /// bytes; also if left out), k, M, G, T
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub size: Option<Size>,
    /// An empty file, or a directory with nothing in it
    #[arg(long)]
    pub empty: bool,
    /// Modified so many days ago; 0 is within the last 24 hours
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub mtime: Option<Age>,
    /// Modified so many minutes ago
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub mmin: Option<Age>,
    /// As --mtime, of the last access
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub atime: Option<Age>,
    /// As --mmin, of the last access
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub amin: Option<Age>,
    /// As --mtime, of the last change of content, owner or mode
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub ctime: Option<Age>,
    /// As --mmin, of the last change of content, owner or mode
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub cmin: Option<Age>,
    /// The mode is MODE; has all bits of -MODE; has any bit of /MODE. Octal, or as u=rw,g=r
    #[arg(long, value_name = "[-/]MODE", allow_hyphen_values = true)]
    pub perm: Option<Permissions>,
    /// Belongs to this user (of the image's /etc/passwd, or a number)
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Belongs to this group (of the image's /etc/group, or a number)
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// The user's number
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub uid: Option<Number>,
    /// The group's number
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub gid: Option<Number>,
    /// Belongs to a number that the image's /etc/passwd does not name
    #[arg(long)]
    pub nouser: bool,
    /// Belongs to a number that the image's /etc/group does not name
    #[arg(long)]
    pub nogroup: bool,
    /// How many names (hard links) it has
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub links: Option<Number>,
    /// The inode's number
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub inum: Option<Number>,
    /// Modified later than this file of the same image
    #[arg(long, value_name = "[IMAGE:]/PATH")]
    pub newer: Option<OsString>,
    /// Go down at most this many directories
    #[arg(long, value_name = "LEVELS")]
    pub maxdepth: Option<usize>,
    /// Show nothing that is less deep
    #[arg(long, value_name = "LEVELS")]
    pub mindepth: Option<usize>,
    /// Print what is found, which is done anyway
    #[arg(long, hide = true)]
    pub print: bool,
    /// Raw names, each ended by a NUL
    #[arg(short = '0', long, visible_alias = "zero")]
    pub print0: bool,
}

fn types(text: &str) -> std::result::Result<String, String> {
    let letters: String = text.chars().filter(|&c| c != ',').collect();
    match letters.chars().find(|c| !"fdlpscb".contains(*c)) {
        None if !letters.is_empty() => Ok(letters),
        _ => Err("use the letters f, d, l, p, s, c and b".into()),
    }
}

/// Lets `tane find` understand `-name` where clap wants `--name`.
pub fn accept_single_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words = [
        "-amin",
        "-atime",
        "-cmin",
        "-ctime",
        "-empty",
        "-gid",
        "-group",
        "-iname",
        "-inum",
        "-links",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mtime",
        "-name",
        "-newer",
        "-nogroup",
        "-nouser",
        "-perm",
        "-print",
        "-print0",
        "-size",
        "-type",
        "-uid",
        "-user",
    ];
    let mut is_find = false;
    let fix = |arg: OsString| {
        is_find |= arg == "find";
        match arg.to_str() {
            Some(text) if is_find && words.contains(&text) => format!("-{text}").into(),
            _ => arg,
        }
    };
    args.map(fix).collect()
}

struct Finder<'r> {
    args: &'r Args,
    newer: Option<Time>,
    now: Time,
    /// Whose it has to be.
    owner: (Option<u32>, Option<u32>),
    out: &'r mut Output,
    users: Users,
    json: bool,
    all_well: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let code = for_each_image(&args.paths, Access::Read, global, |root, items| {
        let users = match args.needs_users() || global.json {
            true => Users::of(root),
            false => Users::default(),
        };
        let newer = args
            .newer
            .as_ref()
            .map(|n| reference(root, n, global))
            .transpose()?;
        let mut finder = Finder {
            args: &args,
            newer,
            now: now(),
            owner: args.owner(&users)?,
            out: &mut out,
            users,
            json: global.json,
            all_well: true,
        };
        for item in items {
            match entry(root, item.path()) {
                Ok((dir, name)) => walk(&dir, &name, item.path(), &mut finder)?,
                Err(e) => finder.all_well = item.complain(e),
            }
        }
        Ok(finder.all_well)
    })?;
    out.flush()?;
    Ok(code)
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Time {
        sec: since.as_secs() as i64,
        nsec: since.subsec_nanos(),
    }
}

impl Args {
    fn needs_users(&self) -> bool {
        self.user.is_some() || self.group.is_some() || self.nouser || self.nogroup
    }

    /// The numbers of --user and --group.
    fn owner(&self, users: &Users) -> Result<(Option<u32>, Option<u32>)> {
        let unknown = |what: &str, name: &str| {
            let text = format!("find: no {what} {name} in the image: numbers work too");
            Failure::usage(text)
        };
        let user = |name: &String| users.find_user(name).ok_or_else(|| unknown("user", name));
        let group = |name: &String| users.find_group(name).ok_or_else(|| unknown("group", name));
        let user = self.user.as_ref().map(user).transpose()?;
        Ok((user, self.group.as_ref().map(group).transpose()?))
    }
}

/// The time of the file that --newer names: a path inside, with or without
/// the image in front of it.
fn reference(root: &Root, argument: &OsString, global: &Global) -> Result<Time> {
    let bytes = argument.as_encoded_bytes();
    let here = global.kept.here().map(|here| here.path(bytes).path);
    let path = match bytes.windows(2).position(|w| w == b":/") {
        Some(colon) if !bytes.starts_with(b"/") => &bytes[colon + 1..],
        _ => here.as_deref().unwrap_or(bytes),
    };
    let stat = root.stat(path, true).map_err(|e| Failure::file(bytes, e))?;
    Ok(stat.mtime)
}

impl Finder<'_> {
    fn matches(&mut self, visit: &Visit) -> bool {
        let deep = self.args.mindepth.is_none_or(|min| visit.depth >= min);
        deep && self.is_called(visit)
            && self.is_as_old(visit)
            && self.belongs(visit)
            && self.is_such(visit)
    }

    fn is_called(&self, visit: &Visit) -> bool {
        let base = tane_linux::base_name(visit.path).unwrap_or(b"/");
        let Args { name, iname, .. } = self.args;
        let lower = || base.to_ascii_lowercase();
        name.as_ref().is_none_or(|p| glob(p.as_bytes(), base))
            && iname
                .as_ref()
                .is_none_or(|p| glob(p.to_ascii_lowercase().as_bytes(), &lower()))
    }

    fn is_as_old(&self, visit: &Visit) -> bool {
        let (args, stat, now) = (self.args, visit.stat, self.now);
        let days = |age: Option<Age>, then| age.is_none_or(|age| age.holds_in_days(then, now));
        let minutes = |age: Option<Age>, then| age.is_none_or(|a| a.holds_in_minutes(then, now));
        days(args.mtime, stat.mtime)
            && days(args.atime, stat.atime)
            && days(args.ctime, stat.ctime)
            && minutes(args.mmin, stat.mtime)
            && minutes(args.amin, stat.atime)
            && minutes(args.cmin, stat.ctime)
            && self.newer.is_none_or(|t| stat.mtime > t)
    }

    fn belongs(&self, visit: &Visit) -> bool {
        let (args, stat) = (self.args, visit.stat);
        self.owner.0.is_none_or(|uid| uid == stat.uid)
            && self.owner.1.is_none_or(|gid| gid == stat.gid)
            && args.uid.is_none_or(|n| n.holds(stat.uid.into()))
            && args.gid.is_none_or(|n| n.holds(stat.gid.into()))
            && !(args.nouser && self.users.user(stat.uid).is_some())
            && !(args.nogroup && self.users.group(stat.gid).is_some())
    }

    fn is_such(&mut self, visit: &Visit) -> bool {
        let (args, stat) = (self.args, visit.stat);
        let is_dir = stat.kind() == Kind::Directory;
        let perm = args.perm.as_ref();
        let letter = stat.kind().letter();
        args.kinds.as_ref().is_none_or(|k| k.contains(letter))
            && args.size.is_none_or(|size| size.holds(stat.size))
            && perm.is_none_or(|perm| perm.holds(stat.permissions(), is_dir))
            && args.links.is_none_or(|n| n.holds(stat.nlink))
            && args.inum.is_none_or(|n| n.holds(stat.ino))
            && (!args.empty || self.is_empty(visit))
    }

    fn is_empty(&mut self, visit: &Visit) -> bool {
        match visit.stat.kind() {
            Kind::File => visit.stat.size == 0,
            Kind::Directory => {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
                let dir = visit.dir.sys().openat(visit.dir, visit.name, flags, 0);
                match dir.and_then(|dir| Entries::read(&dir)) {
                    Ok(entries) => entries.list.is_empty(),
                    Err(e) => {
                        self.unreadable(visit.path, e);
                        false
                    }
                }
            }
            _ => false,
        }
    }
}

impl Visitor for Finder<'_> {
    type Error = Failure;

    fn visit(&mut self, visit: &Visit) -> Result<Next> {
        if visit.after {
            return Ok(Next::Past);
        }
        if self.matches(visit) {
            if self.json {
                let object = show::json("path", visit.path, visit.stat, &self.users);
                self.out.json(&object.into())?;
            } else if self.args.print0 {
                self.out.bytes(visit.path)?;
                self.out.bytes(b"\0")?;
            } else {
                self.out.name(visit.path)?;
                self.out.text("\n")?;
            }
        }
        let deep = self.args.maxdepth.is_some_and(|max| visit.depth >= max);
        Ok(if deep { Next::Past } else { Next::Into })
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        tell::failure(&Failure::file(path, error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_spelling_is_understood_after_the_verb_only() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let fixed = accept_single_dashes(args("tane find d.img -name x -0").into_iter());
        assert_eq!(fixed, args("tane find d.img --name x -0"));
        let same = args("tane ls -name");
        assert_eq!(accept_single_dashes(same.clone().into_iter()), same);
    }
}
