//! tane tree: a picture of what is in a directory.

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use crate::show;
use crate::tell;
use crate::users::Users;
use std::ffi::{CString, OsString};
use tane_linux::{join, Entries, Errno, Fd, Kind, Root, Stat};

/// Draw directories of an image as a tree
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Examples:
  tane tree disk.img:/etc/systemd
  tane tree -d -L 2 disk.img                two levels of directories
  tane tree -ash disk.img:/home             everything, with sizes
  tane tree --json disk.img | jq 'select(.depth == 1).path'")]
pub struct Args {
    /// Images (their root) or directories in them
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub paths: Vec<OsString>,
    /// Also names that begin with a dot
    #[arg(short, long)]
    pub all: bool,
    /// Only directories
    #[arg(short, long)]
    pub directories: bool,
    /// Go down at most this many directories
    #[arg(short = 'L', long, value_name = "LEVELS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub level: Option<u32>,
    /// Modes
    #[arg(short, long)]
    pub permissions: bool,
    /// Sizes in bytes
    #[arg(short, long)]
    pub size: bool,
    /// Sizes like 4.0K and 20M
    #[arg(short, long = "human-readable")]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

struct Row {
    name: CString,
    stat: Stat,
    target: Option<Vec<u8>>,
}

struct Level<'a> {
    fd: Fd<'a>,
    identity: (u64, u64),
    path_len: usize,
    rows: std::vec::IntoIter<Row>,
}

struct Artist<'r> {
    args: &'r Args,
    json: bool,
    image: &'r [u8],
    users: Users,
    out: &'r mut Output,
    directories: u64,
    files: u64,
    all_well: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let (mut directories, mut files) = (0, 0);
    let code = for_each_image(&args.paths, Access::Read, global, |root, items| {
        let mut artist = Artist {
            args: &args,
            json: global.json,
            image: items[0].at.image.as_os_str().as_encoded_bytes(),
            users: Users::of(root),
            out: &mut out,
            directories: 0,
            files: 0,
            all_well: true,
        };
        for item in items {
            if let Err(e) = artist.draw(root, item.path())? {
                artist.all_well = item.complain(e);
            }
        }
        directories += artist.directories;
        files += artist.files;
        Ok(artist.all_well)
    })?;
    if !global.json {
        let of = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let directories = of(directories, "directory", "directories");
        out.line(&match args.directories {
            true => format!("\n{directories}"),
            false => format!("\n{directories}, {}", of(files, "file", "files")),
        })?;
    }
    out.flush()?;
    Ok(code)
}

impl Artist<'_> {
    /// Outer failures concern the output, inner ones the directory.
    fn draw(&mut self, root: &Root, path: &[u8]) -> Result<std::result::Result<(), Errno>> {
        let opened = root.open_dir(path).and_then(|fd| {
            let stat = fd.sys().fstat(&fd)?;
            Ok((self.level(fd, path)?, stat))
        });
        let (level, stat) = match opened {
            Ok(opened) => opened,
            Err(e) => return Ok(Err(e)),
        };
        self.directories += 1;
        self.print(&[], path, path, &stat, None)?;
        let mut levels = vec![level];
        let mut path = path.to_vec();
        while let Some(level) = levels.last_mut() {
            interrupt::check()?;
            path.truncate(level.path_len);
            let Some(row) = level.rows.next() else {
                levels.pop();
                continue;
            };
            path = join(&path, &row.name);
            let (name, target) = (row.name.to_bytes(), row.target.as_deref());
            self.print(&levels, name, &path, &row.stat, target)?;
            if row.stat.kind() != Kind::Directory {
                self.files += 1;
                continue;
            }
            self.directories += 1;
            let deep = |max| levels.len() >= max as usize;
            if self.args.level.is_some_and(deep) {
                continue;
            }
            match self.below(&levels, &row, &path) {
                Ok(level) => levels.push(level),
                Err(e) => self.unreadable(&path, e),
            }
        }
        Ok(Ok(()))
    }

    fn below<'a>(
        &mut self,
        levels: &[Level<'a>],
        row: &Row,
        path: &[u8],
    ) -> std::result::Result<Level<'a>, Errno> {
        let identity = row.stat.identity();
        let above = levels.last().filter(|_| {
            // A damaged image may hold a directory within itself.
            !levels.iter().any(|l| l.identity == identity)
        });
        let dir = &above.ok_or(Errno(libc::ELOOP))?.fd;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = dir.sys().openat(dir, &row.name, flags, 0)?;
        self.level(fd, path)
    }

    fn level<'a>(&mut self, fd: Fd<'a>, path: &[u8]) -> std::result::Result<Level<'a>, Errno> {
        let sys = fd.sys();
        let identity = sys.fstat(&fd)?.identity();
        let mut entries = Entries::read(&fd)?;
        entries.sort_by_name();
        let mut rows = Vec::new();
        for entry in &entries.list {
            let name = entries.name(entry);
            if name.to_bytes().starts_with(b".") && !self.args.all {
                continue;
            }
            let stat = match sys.lstat(&fd, name) {
                Ok(stat) => stat,
                Err(e) => {
                    self.unreadable(&join(path, name), e);
                    continue;
                }
            };
            if self.args.directories && stat.kind() != Kind::Directory {
                continue;
            }
            let is_link = stat.kind() == Kind::Symlink;
            rows.push(Row {
                name: name.into(),
                stat,
                target: is_link.then(|| sys.readlink(&fd, name).ok()).flatten(),
            });
        }
        Ok(Level {
            fd,
            identity,
            path_len: path.len(),
            rows: rows.into_iter(),
        })
    }

    /// The line of a file below `levels`; none are above an argument itself.
    fn print(
        &mut self,
        levels: &[Level],
        name: &[u8],
        path: &[u8],
        stat: &Stat,
        target: Option<&[u8]>,
    ) -> Result<()> {
        if self.json {
            let mut object = show::json("path", path, stat, &self.users);
            names::put(&mut object, "image", self.image);
            object.insert("depth".into(), levels.len().into());
            if let Some(target) = target {
                names::put(&mut object, "target", target);
            }
            return self.out.json(&object.into());
        }
        if let Some((last, above)) = levels.split_last() {
            for level in above {
                let more = !level.rows.as_slice().is_empty();
                self.out.text(if more { "│   " } else { "    " })?;
            }
            let more = !last.rows.as_slice().is_empty();
            self.out.text(if more { "├── " } else { "└── " })?;
            self.details(stat)?;
        }
        self.out.name(name)?;
        if let Some(target) = target {
            self.out.text(" -> ")?;
            self.out.name(target)?;
        }
        self.out.text("\n")
    }

    fn details(&mut self, stat: &Stat) -> Result<()> {
        let mut details = Vec::new();
        if self.args.permissions {
            details.push(show::mode(stat.mode));
        }
        match () {
            () if self.args.human => details.push(format!("{:>4}", show::human(stat.size))),
            () if self.args.size => details.push(format!("{:>11}", stat.size)),
            () => {}
        }
        if details.is_empty() {
            return Ok(());
        }
        self.out.text(&format!("[{}]  ", details.join(" ")))
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        tell::failure(&Failure::file(path, error));
    }
}
