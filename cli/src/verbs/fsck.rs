//! tane fsck: whether a file system is sound.

use crate::args::Global;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::{declare, image_path, write_back_as_a_whole, Access, Needs, Target};
use crate::tools::check::{self, State};
use serde_json::json;
use std::ffi::OsString;

/// Check the file system in an image, and repair it if asked
#[derive(clap::Args)]
#[command(after_help = "\
The distribution's own programs do the work (e2fsck, xfs_repair, btrfs check,
fsck.f2fs, fsck.vfat, fsck.exfat, jfs_fsck, fsck.minix, ntfsfix), so they have to be
installed; no root is needed. On a partition, in a container (qcow2 and others) or in
a LUKS or LVM volume they work on a sparse temporary copy (in TMPDIR, else /var/tmp);
what they repair is copied back, as a whole: if that is
interrupted, IMAGE.tane-redo has the rest, and the next command that writes to the
image finishes it.

ntfsfix is no chkdsk: it looks at the boot sectors and the first records of the file
table, and with --repair restores these from their copies and empties the journal.
fsck.minix repairs little without a person to ask: that it is still damaged is told.
nilfs2 and udf have no program; hfsplus has none in Debian.

Without --repair nothing is changed. A journal that was not replayed counts as damage
for some of them: mounting replays it, as any verb that writes does.

Exit codes: 0 sound, or all repaired; 1 damaged; 3 cannot be opened.

Examples:
  tane fsck disk.img
  tane fsck -v disk.qcow2@2            show what the program says
  tane fsck --repair disk.img")]
pub struct Args {
    /// The image; with @SELECTOR one of several file systems in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// Repair what can be repaired, without asking
    #[arg(long)]
    pub repair: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let at = image_path(&args.image, global)?;
    let access = match args.repair {
        true => Access::Write,
        false => Access::Read,
    };
    declare(Needs::images([(&at, access)]).programs());
    if args.repair {
        write_back_as_a_whole(&at, global);
    }
    let mut target = Target::open(&at, access, false, global)?;
    let kind = target.fstype.clone().ok_or_else(|| {
        let text = "no file system that is known; --fs says its type";
        Failure::image(format!("{}: {text}", at.image.display()))
    })?;
    if args.repair && kind == "xfs" {
        // xfs_repair cannot replay the log; whatever is wrong, it says itself.
        if let Ok(mount) = target.mount(global) {
            let _ = mount.unmount();
        }
        target.flush()?;
    }
    // It opens for writing what it only looks at: so it gets a copy.
    target.is_file &= args.repair || kind != "f2fs";
    let outcome = target.work(access, false, |path| check::check(&kind, path, args.repair))?;
    let damaged = outcome.state == State::Damaged;
    if !global.json && (global.verbose || damaged && !global.quiet) {
        eprint!("{}", outcome.said);
    }
    let mut out = Output::new();
    if global.json {
        let image = args.image.as_os_str().as_encoded_bytes();
        let told = json!({
            "fs": kind,
            "state": outcome.state.word(),
            "program": outcome.program,
            "output": outcome.said,
        });
        out.json(&names::named("image", image, told))?;
    } else if !global.quiet {
        let image = names::plain(args.image.as_os_str().as_encoded_bytes());
        out.line(&format!("{image}: {kind}, {}", outcome.state.word()))?;
        if damaged && !args.repair {
            eprintln!("tane: {image}: tane fsck --repair may repair it; keep a copy");
        }
    }
    out.flush()?;
    Ok(if damaged { SOME_FAILED } else { 0 })
}
