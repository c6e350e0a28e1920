//! tane mv: renames within an image.

use super::entry;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names::plain;
use crate::session::Global;
use crate::session::{for_each_image, inner_path, Access};
use std::ffi::{CString, OsString};
use tane_linux::{base_name, Errno, Kind, Root};

/// Move or rename files within an image
#[derive(clap::Args)]
#[command(after_help = "\
DEST may leave out the image. To move between images, use cp and then rm.

Examples:
  tane mv disk.img:/etc/motd disk.img:/etc/motd.old
  tane mv disk.img:/a disk.img:/b /srv          both into /srv of the same image")]
pub struct Args {
    /// What to move
    #[arg(required = true, value_name = "IMAGE:/SOURCE")]
    pub sources: Vec<OsString>,
    /// The new name, or the directory to move into
    #[arg(value_name = "[IMAGE:]/DEST")]
    pub dest: OsString,
    /// Leave files alone that exist already
    #[arg(short = 'n', long)]
    pub no_clobber: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let dest = path_in(&args.dest, &args.sources, global)?;
    for_each_image(&args.sources, Access::Write, global, |root, items| {
        let into = root
            .stat(&dest, true)
            .is_ok_and(|s| s.kind() == Kind::Directory);
        if !into && items.len() > 1 {
            let text = format!("{}: not a directory", plain(&dest));
            return Err(Failure::new(SOME_FAILED, text));
        }
        let mut all_well = true;
        for item in items {
            if let Err(e) = rename(root, item.path(), &dest, into, args.no_clobber) {
                all_well = item.complain(e);
            }
        }
        Ok(all_well)
    })
}

/// A second path of the same image, given with or without it.
pub fn path_in(second: &OsString, firsts: &[OsString], global: &Global) -> Result<Vec<u8>> {
    let bytes = second.as_encoded_bytes();
    if bytes.starts_with(b"/") && !bytes.windows(2).any(|w| w == b":/") {
        return Ok(bytes.to_vec());
    }
    let second = inner_path(second, global)?;
    for first in firsts {
        if !inner_path(first, global)?.same_image(&second) {
            let text = format!("{}: not the same image: use tane cp", plain(bytes));
            return Err(Failure::usage(text));
        }
    }
    Ok(second.path)
}

fn rename(
    root: &Root,
    from: &[u8],
    to: &[u8],
    into: bool,
    no_clobber: bool,
) -> std::result::Result<(), Errno> {
    let (old_dir, old) = entry(root, from)?;
    let (new_dir, new) = match into {
        true => {
            let base = base_name(from).ok_or(Errno(libc::EBUSY))?;
            let name = CString::new(base).map_err(|_| Errno(libc::EINVAL))?;
            (root.open_dir(to)?, name)
        }
        false => root.parent(to)?,
    };
    let flags = if no_clobber {
        libc::RENAME_NOREPLACE
    } else {
        0
    };
    match root.sys().rename(&old_dir, &old, &new_dir, &new, flags) {
        Err(Errno(libc::EEXIST)) if no_clobber => Ok(()),
        other => other,
    }
}
