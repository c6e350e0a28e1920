//! tane rm: removes files and, with -r, directories.

use super::entry;
use crate::failure::{Failure, Result};
use crate::session::Global;
use crate::session::{for_each_found, for_each_image, Access, Item};
use crate::tell;
use crate::walk::{walk, Next, Visit, Visitor};
use std::ffi::OsString;
use tane_linux::{Errno, Kind, Root};

/// Remove files and directories from an image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane rm disk.img:/etc/machine-id
  tane rm -rf disk.img:/var/cache/apt")]
pub struct Args {
    /// What to remove
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub paths: Vec<OsString>,
    /// Directories too, with everything in them
    #[arg(short, long, short_alias = 'R')]
    pub recursive: bool,
    /// No complaint about what is not there
    #[arg(short, long)]
    pub force: bool,
}

struct Remover {
    verbose: bool,
    all_well: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let work = |root: &Root, items: &[Item]| {
        let mut all_well = true;
        for item in items {
            all_well &= match remove(root, item, &args, global) {
                Err(Errno(libc::ENOENT)) if args.force => true,
                Err(e) => item.complain(e),
                Ok(well) => well,
            };
        }
        Ok(all_well)
    };
    match args.force {
        true => for_each_found(&args.paths, Access::Write, global, work),
        false => for_each_image(&args.paths, Access::Write, global, work),
    }
}

fn remove(
    root: &Root,
    item: &Item,
    args: &Args,
    global: &Global,
) -> std::result::Result<bool, Errno> {
    let (dir, name) = entry(root, item.path())?;
    let stat = dir.sys().lstat(&dir, &name)?;
    if stat.kind() == Kind::Directory && !args.recursive {
        return Err(Errno(libc::EISDIR));
    }
    if name.as_c_str() == c"." {
        // The root itself, or a path with "/." or "..".
        return Err(Errno(libc::EBUSY));
    }
    let mut remover = Remover {
        verbose: global.verbose,
        all_well: true,
    };
    let _ = walk(&dir, &name, item.path(), &mut remover);
    Ok(remover.all_well)
}

impl Visitor for Remover {
    type Error = std::convert::Infallible;

    fn visit(&mut self, visit: &Visit) -> std::result::Result<Next, Self::Error> {
        let is_dir = visit.stat.kind() == Kind::Directory;
        if is_dir && !visit.after {
            return Ok(Next::Into);
        }
        let flags = if is_dir { libc::AT_REMOVEDIR } else { 0 };
        match visit.dir.sys().unlink(visit.dir, visit.name, flags) {
            Ok(()) if self.verbose => eprintln!("{}", tell::line_of_file("removed ", visit.path)),
            Ok(()) => {}
            Err(e) => self.unreadable(visit.path, e),
        }
        Ok(Next::Past)
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        tell::failure(&Failure::file(path, error));
    }
}
