//! tane ln: hard and symbolic links.

use super::{entry, mv::path_in};
use crate::failure::Result;
use crate::session::Global;
use crate::session::{for_each_name, Access};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use tane_linux::{base_name, Errno, Kind, Root};

/// Make links in an image
#[derive(clap::Args)]
#[command(after_help = "\
With -s, TARGET is the text of the link, written as it is. Without, it is a file
of the image, with or without IMAGE: in front.

Examples:
  tane ln -s ../usr/share/zoneinfo/UTC disk.img:/etc/localtime
  tane ln /bin/busybox disk.img:/bin/ls")]
pub struct Args {
    /// What the link points to
    pub target: OsString,
    /// The link, or the directory it goes into
    #[arg(value_name = "IMAGE:/LINK")]
    pub link: OsString,
    /// A symbolic link instead of a hard one
    #[arg(short, long)]
    pub symbolic: bool,
    /// Replace what is there
    #[arg(short, long)]
    pub force: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let link = std::slice::from_ref(&args.link);
    let target = match args.symbolic {
        true => args.target.as_bytes().to_vec(),
        false => path_in(&args.target, link, global)?,
    };
    for_each_name(link, Access::Write, global, |root, items| {
        let made = make(root, &target, items[0].path(), &args);
        Ok(made.map_or_else(|e| items[0].complain(e), |()| true))
    })
}

fn make(root: &Root, target: &[u8], at: &[u8], args: &Args) -> std::result::Result<(), Errno> {
    let name = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno(libc::EINVAL));
    let into = root
        .stat(at, true)
        .is_ok_and(|s| s.kind() == Kind::Directory);
    let (dir, link) = match into {
        true => (
            root.open_dir(at)?,
            name(base_name(target).ok_or(Errno(libc::EEXIST))?)?,
        ),
        false => root.parent(at)?,
    };
    let sys = root.sys();
    let make = |link: &std::ffi::CStr| match args.symbolic {
        true => sys.symlink(&name(target)?, &dir, link),
        false => {
            let (old_dir, old) = entry(root, target)?;
            sys.link(&old_dir, &old, &dir, link)
        }
    };
    match make(&link) {
        Err(Errno(libc::EEXIST)) if args.force => {}
        other => return other,
    }
    // Make it elsewhere and move it there, so that the name is never missing.
    let temporary = name(OsStr::new(&format!(".tane-{}.link", std::process::id())).as_bytes())?;
    make(&temporary)?;
    let moved = sys.rename(&dir, &temporary, &dir, &link, 0);
    // Renaming one name of a file to another of its names does nothing.
    let _ = sys.unlink(&dir, &temporary, 0);
    moved
}
