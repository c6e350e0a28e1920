//! tane ls: lists directories.

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::names::shown;
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access, Item};
use crate::show;
use crate::tell;
use crate::users::Users;
use std::ffi::{CString, OsString};
use tane_linux::{join, Entries, Errno, Fd, Kind, Root, Stat};

/// List directories of an image
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Names with unusual characters are quoted for the shell on a terminal and written
raw elsewhere. Users and groups are those of the image's /etc/passwd and group.

Examples:
  tane ls disk.img                    the root directory
  tane ls -lh disk.img:/var/log
  tane ls -R --zero disk.img:/ | xargs -0 ...
  tane ls --json disk.img:/etc | jq -r 'select(.size > 4096).name'")]
pub struct Args {
    /// Images (their root) or files and directories in them
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub paths: Vec<OsString>,
    /// Long listing: mode, links, owner, size, time
    #[arg(short)]
    pub long: bool,
    /// Also names that begin with a dot
    #[arg(short, long, visible_short_alias = 'A')]
    pub all: bool,
    /// Also the directories below
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Directories themselves, not what is in them
    #[arg(short, long)]
    pub directory: bool,
    /// Sizes like 4.0K and 20M
    #[arg(short, long = "human-readable")]
    pub human: bool,
    /// Inode numbers
    #[arg(short, long)]
    pub inode: bool,
    /// Numbers instead of users and groups
    #[arg(short, long)]
    pub numeric: bool,
    /// Newest first
    #[arg(short = 't')]
    pub by_time: bool,
    /// Largest first
    #[arg(short = 'S')]
    pub by_size: bool,
    /// A line for each name, which is so anyway
    #[arg(short = '1')]
    pub lines: bool,
    /// The other way round
    #[arg(short, long)]
    pub reverse: bool,
    /// Raw names, each ended by a NUL
    #[arg(short = '0', long)]
    pub zero: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

struct Row {
    name: Vec<u8>,
    stat: Stat,
    target: Option<Vec<u8>>,
}

struct Lister<'r, 'a> {
    args: &'r Args,
    root: &'r Root<'a>,
    users: Users,
    out: &'r mut Output,
    json: bool,
    all_well: bool,
    first: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let many = args.paths.len() > 1 || args.recursive;
    if args.long {
        show::learn_time_zone();
    }
    let code = for_each_image(&args.paths, Access::Read, global, |root, items| {
        let users = Users::of(root);
        let (out, json) = (&mut out, global.json);
        let mut lister = Lister {
            args: &args,
            root,
            users,
            out,
            json,
            all_well: true,
            first: true,
        };
        let many = many || items.len() > 1;
        for item in items {
            if let Err(e) = lister.argument(item, many)? {
                lister.all_well = item.complain(e);
            }
        }
        Ok(lister.all_well)
    })?;
    out.flush()?;
    Ok(code)
}

impl<'a> Lister<'_, 'a> {
    fn argument(&mut self, item: &Item, many: bool) -> Result<std::result::Result<(), Errno>> {
        let path = item.path();
        let stat = match self.root.stat(path, path.ends_with(b"/")) {
            Ok(stat) => stat,
            Err(e) => return Ok(Err(e)),
        };
        if stat.kind() == Kind::Directory && !self.args.directory {
            let dir = match self.root.open_dir(path) {
                Ok(dir) => dir,
                Err(e) => return Ok(Err(e)),
            };
            return self.directory(dir, path, many).map(Ok);
        }
        let target = match self.root.parent(path) {
            Ok((dir, name)) => self.target(&dir, &name, &stat),
            Err(_) => None,
        };
        self.print(
            &[Row {
                name: path.into(),
                stat,
                target,
            }],
            b"",
        )?;
        Ok(Ok(()))
    }

    fn target(&self, dir: &Fd, name: &std::ffi::CStr, stat: &Stat) -> Option<Vec<u8>> {
        let wanted = stat.kind() == Kind::Symlink && (self.args.long || self.json);
        wanted.then(|| self.root.sys().readlink(dir, name).ok())?
    }

    fn directory(&mut self, dir: Fd<'a>, path: &[u8], headed: bool) -> Result<()> {
        interrupt::check()?;
        let mut rows = Vec::new();
        let entries = match Entries::read(&dir) {
            Ok(entries) => entries,
            Err(e) => return self.unreadable(path, e),
        };
        for entry in &entries.list {
            let name = entries.name(entry);
            if name.to_bytes().starts_with(b".") && !self.args.all {
                continue;
            }
            match self.root.sys().lstat(&dir, name) {
                Ok(stat) => {
                    let target = self.target(&dir, name, &stat);
                    rows.push(Row {
                        name: name.to_bytes().into(),
                        stat,
                        target,
                    });
                }
                Err(e) => self.unreadable(&join(path, name), e)?,
            }
        }
        self.sort(&mut rows);
        if headed && !self.json && !self.args.zero {
            let gap = if std::mem::take(&mut self.first) {
                ""
            } else {
                "\n"
            };
            self.out.text(gap)?;
            self.out.name(path)?;
            self.out.text(":\n")?;
        }
        self.print(&rows, path)?;
        if !self.args.recursive {
            return Ok(());
        }
        for row in rows.iter().filter(|r| r.stat.kind() == Kind::Directory) {
            let name = CString::new(row.name.as_slice()).unwrap_or_default();
            let below = join(path, &name);
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            match self.root.sys().openat(&dir, &name, flags, 0) {
                Ok(dir) => self.directory(dir, &below, true)?,
                Err(e) => self.unreadable(&below, e)?,
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, path: &[u8], e: Errno) -> Result<()> {
        self.all_well = false;
        tell::failure(&Failure::file(path, e));
        Ok(())
    }

    fn sort(&self, rows: &mut [Row]) {
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        if self.args.by_size {
            rows.sort_by_key(|r| std::cmp::Reverse(r.stat.size));
        }
        if self.args.by_time {
            rows.sort_by_key(|r| std::cmp::Reverse(r.stat.mtime));
        }
        if self.args.reverse {
            rows.reverse();
        }
    }

    fn print(&mut self, rows: &[Row], dir: &[u8]) -> Result<()> {
        if self.json {
            return rows.iter().try_for_each(|row| self.print_json(row, dir));
        }
        let columns: Vec<_> = rows.iter().map(|row| self.columns(row)).collect();
        let widths: Vec<usize> = (0..columns.first().map_or(0, Vec::len))
            .map(|i| columns.iter().map(|c| c[i].len()).max().unwrap_or(0))
            .collect();
        for (row, columns) in rows.iter().zip(&columns) {
            for (i, (text, &width)) in columns.iter().zip(&widths).enumerate() {
                // Owner and group are words; the rest are numbers.
                let left = columns.len() > 5 && matches!(columns.len() - i, 3 | 4);
                let cell = if left {
                    format!("{text:<width$} ")
                } else {
                    format!("{text:>width$} ")
                };
                self.out.text(&cell)?;
            }
            self.print_name(row, dir)?;
        }
        Ok(())
    }

    fn print_name(&mut self, row: &Row, dir: &[u8]) -> Result<()> {
        if self.args.zero {
            if self.args.recursive {
                self.out.bytes(dir)?;
                self.out.text(if dir.ends_with(b"/") { "" } else { "/" })?;
            }
            self.out.bytes(&row.name)?;
            return self.out.bytes(b"\0");
        }
        self.out.name(&row.name)?;
        if let Some(target) = row.target.as_deref().filter(|_| self.args.long) {
            self.out.text(" -> ")?;
            self.out.name(target)?;
        }
        self.out.text("\n")
    }

    fn columns(&self, row: &Row) -> Vec<String> {
        let stat = &row.stat;
        let mut columns = Vec::new();
        if self.args.inode {
            columns.push(stat.ino.to_string());
        }
        if !self.args.long {
            return columns;
        }
        let named = |name: Option<&str>, id: u32| match name {
            Some(name) if !self.args.numeric => shown(name.as_bytes()).into_owned(),
            _ => id.to_string(),
        };
        columns.push(show::mode(stat.mode));
        columns.push(stat.nlink.to_string());
        columns.push(named(self.users.user(stat.uid), stat.uid));
        columns.push(named(self.users.group(stat.gid), stat.gid));
        columns.push(match stat.kind() {
            kind if kind.is_device() => {
                let (major, minor) = show::device(stat.rdev);
                format!("{major}, {minor}")
            }
            _ if self.args.human => show::human(stat.size),
            _ => stat.size.to_string(),
        });
        columns.push(show::listed_time(stat.mtime));
        columns
    }

    fn print_json(&mut self, row: &Row, dir: &[u8]) -> Result<()> {
        let mut object = show::json("name", &row.name, &row.stat, &self.users);
        if !dir.is_empty() {
            crate::names::put(&mut object, "directory", dir);
        }
        if let Some(target) = &row.target {
            crate::names::put(&mut object, "target", target);
        }
        self.out.json(&object.into())
    }
}
