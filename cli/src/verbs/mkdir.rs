//! tane mkdir: makes directories.

use super::chmod::Mode;
use crate::failure::Result;
use crate::session::Global;
use crate::session::{for_each_name, Access};
use std::ffi::OsString;
use tane_linux::{split, Errno, Fd, Root};

/// Make directories in an image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane mkdir disk.img:/srv/new
  tane mkdir -p -m 0750 disk.img:/srv/a/b/c")]
pub struct Args {
    /// Directories to make
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// Also the directories above; no error if one exists
    #[arg(short, long)]
    pub parents: bool,
    /// The new directory's mode instead of 0755, octal or symbolic
    #[arg(short, long)]
    pub mode: Option<Mode>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    for_each_name(&args.paths, Access::Write, global, |root, items| {
        root.sys().umask(0o022);
        let mut all_well = true;
        for item in items {
            if let Err(e) = make(root, item.path(), &args) {
                all_well = item.complain(e);
            }
        }
        Ok(all_well)
    })
}

fn make(root: &Root, path: &[u8], args: &Args) -> std::result::Result<(), Errno> {
    let Some((parent, _)) = split(path) else {
        let exists = root.open_dir(path).map(drop);
        return if args.parents {
            exists
        } else {
            exists.and(Err(Errno(libc::EEXIST)))
        };
    };
    if args.parents
        && root
            .open_dir(parent)
            .is_err_and(|e| e == Errno(libc::ENOENT))
    {
        let above = Args {
            paths: Vec::new(),
            parents: true,
            mode: None,
        };
        make(root, parent, &above)?;
    }
    let (dir, name) = root.parent(path)?;
    match root.sys().mkdir(&dir, &name, 0o777) {
        Err(Errno(libc::EEXIST)) if args.parents => return root.open_dir(path).map(drop),
        other => other?,
    }
    match &args.mode {
        Some(mode) => set_mode(&root.open_dir(path)?, mode),
        None => Ok(()),
    }
}

fn set_mode(dir: &Fd, mode: &Mode) -> std::result::Result<(), Errno> {
    let now = dir.sys().fstat(dir)?;
    dir.sys()
        .fchmod(dir, mode.applied_to(now.permissions(), true))
}
