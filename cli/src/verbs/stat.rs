//! tane stat: everything about a file.

mod format;

use super::entry;
use crate::failure::{Failure, Result};
use crate::names::{self, shown};
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access, Item};
use crate::show;
use crate::users::Users;
use format::Format;
use serde_json::Value;
use std::ffi::OsString;
use tane_linux::{Errno, Kind, Root, Stat, Time, Xattrs};

/// Show all there is to know about files of an image
#[derive(clap::Args)]
#[command(after_help = "\
FORMAT (of -c; --format is about the image) has the sequences of GNU stat, with its flags and widths: %n name, %N in quotes, %s
size, %a mode in octal, %A for people, %f in hexadecimal, %F type, %u %U user, %g %G group,
%h links, %i inode, %b blocks of %B bytes, %o best size of a read, %d %D device, %r %R %t %T
which device it is, %m where it is mounted (/), and times for people and in seconds: %x %X
access, %y %Y modification, %z %Z change, %w %W birth.

Examples:
  tane stat disk.img:/etc/passwd
  tane stat -c '%a %U %n' disk.img:/etc/shadow
  tane stat --json disk.img:/usr/bin/ping | jq .xattrs")]
pub struct Args {
    /// Files in images
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub files: Vec<OsString>,
    /// Follow symlinks
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// Print a line of this for each file instead
    #[arg(short = 'c', value_name = "FORMAT", value_parser = Format::plain)]
    #[arg(conflicts_with = "printf")]
    pub line: Option<Format>,
    /// The same without the end of the line, and with escapes (\n, \t, \0)
    #[arg(long, value_name = "FORMAT", value_parser = Format::escaped)]
    pub printf: Option<Format>,
}

pub struct Found {
    stat: Stat,
    birth: Option<Time>,
    target: Option<Vec<u8>>,
    xattrs: Xattrs,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if global.json && (args.line.is_some() || args.printf.is_some()) {
        return Err(Failure::usage(
            "stat: a format and --json exclude each other",
        ));
    }
    let mut out = Output::new();
    show::learn_time_zone();
    let code = for_each_image(&args.files, Access::Read, global, |root, items| {
        let users = Users::of(root);
        let mut all_well = true;
        for item in items {
            match find(root, item.path(), args.dereference) {
                Ok(found) if global.json => out.json(&json(item, &found, &users))?,
                Ok(found) if args.line.is_some() || args.printf.is_some() => {
                    let format = args.line.iter().chain(&args.printf);
                    let name = item.argument.as_encoded_bytes();
                    format
                        .map(|f| f.of(name, &found, &users))
                        .try_for_each(|text| out.bytes(&text))?;
                    out.text(if args.line.is_some() { "\n" } else { "" })?;
                }
                Ok(found) => print(item, &found, &users, &mut out)?,
                Err(e) => all_well = item.complain(e),
            }
        }
        Ok(all_well)
    })?;
    out.flush()?;
    Ok(code)
}

fn find(root: &Root, path: &[u8], follow: bool) -> std::result::Result<Found, Errno> {
    let follow = follow || path.ends_with(b"/");
    let nofollow = if follow { 0 } else { libc::O_NOFOLLOW };
    let handle = root.open(path, libc::O_PATH | nofollow)?;
    let sys = root.sys();
    let stat = sys.fstatat(&handle, c"", libc::AT_EMPTY_PATH)?;
    let birth = sys.birth_time(&handle);
    let (mut target, mut xattrs) = (None, Xattrs::default());
    if matches!(stat.kind(), Kind::File | Kind::Directory) {
        xattrs = root
            .open(path, libc::O_RDONLY | nofollow)
            .and_then(|fd| Xattrs::of(&fd))?;
    } else if !follow {
        let (dir, name) = entry(root, path)?;
        xattrs = Xattrs::of_entry(&dir, &name).unwrap_or_default();
        if stat.kind() == Kind::Symlink {
            target = Some(sys.readlink(&dir, &name)?);
        }
    }
    Ok(Found {
        stat,
        birth,
        target,
        xattrs,
    })
}

fn print(item: &Item, found: &Found, users: &Users, out: &mut Output) -> Result<()> {
    let Found { stat, .. } = found;
    let target = found
        .target
        .as_ref()
        .map_or(String::new(), |t| format!(" -> {}", shown(t)));
    out.line(&format!("  File: {}{target}", shown(item.path())))?;
    out.line(&format!(
        "  Size: {:<15} Blocks: {:<10} IO Block: {:<6} {}",
        stat.size,
        stat.blocks,
        stat.block_size,
        stat.kind().word()
    ))?;
    let (major, minor) = show::device(stat.dev);
    let device = format!("{major},{minor}");
    let mut line = format!(
        "Device: {device:<13} Inode: {:<11} Links: {}",
        stat.ino, stat.nlink
    );
    if stat.kind().is_device() {
        let (major, minor) = show::device(stat.rdev);
        line += &format!("     Device type: {major},{minor}");
    }
    out.line(&line)?;
    out.line(&format!(
        "Access: ({:04o}/{})  Uid: ({:5}/{:>8})   Gid: ({:5}/{:>8})",
        stat.permissions(),
        show::mode(stat.mode),
        stat.uid,
        users.user(stat.uid).unwrap_or("UNKNOWN"),
        stat.gid,
        users.group(stat.gid).unwrap_or("UNKNOWN"),
    ))?;
    let rows = [
        ("Access", stat.atime),
        ("Modify", stat.mtime),
        ("Change", stat.ctime),
    ];
    for (what, time) in rows {
        out.line(&format!("{what}: {}", exact(time)))?;
    }
    out.line(&format!(
        " Birth: {}",
        found.birth.map_or("-".into(), exact)
    ))?;
    for (name, value) in found.xattrs.iter() {
        out.line(&format!(
            " Xattr: {} = {}",
            shown(name.to_bytes()),
            shown(value)
        ))?;
    }
    Ok(())
}

fn exact(time: Time) -> String {
    let date = show::local(time, c"%Y-%m-%d %H:%M:%S");
    format!("{date}.{:09} {}", time.nsec, show::local(time, c"%z"))
}

fn json(item: &Item, found: &Found, users: &Users) -> Value {
    let mut object = show::json("path", item.path(), &found.stat, users);
    names::put(
        &mut object,
        "image",
        item.at.image.as_os_str().as_encoded_bytes(),
    );
    if let Some(birth) = found.birth {
        object.insert("btime".into(), show::utc(birth).into());
    }
    if let Some(target) = &found.target {
        names::put(&mut object, "target", target);
    }
    object.insert("xattrs".into(), super::xattr::json(&found.xattrs));
    object.into()
}
