//! tane fsck: whether a file system is sound.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{declare, image_path, write_back_as_a_whole, Access, Needs, Target};
use crate::tell;
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
what they repair is copied back, as a whole: if that is interrupted, IMAGE.tane-redo
has the rest, and the next command that writes to the image finishes it.

ntfsfix is no chkdsk: it looks at the boot sectors and the first records of the file
table, and with --repair restores these from their copies and empties the journal.
fsck.minix repairs little without a person to ask: that it is still damaged is told.
nilfs2 and udf have no program; hfsplus has none in Debian.

Without --repair nothing is changed. A journal that was not replayed counts as damage
for some of them: mounting replays it, as any verb that writes does.

What the program says is shown, cut short, where it found something; all of it with -v.

Exit codes: 0 sound, or all repaired; 1 damaged; 3 cannot be opened.

Examples:
  tane fsck disk.img
  tane fsck -v disk.qcow2@2            all that the program says
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
    if target.is_part {
        let text = "lies on several devices, and btrfs check is given one alone";
        let failure = Failure::image(format!("{}: {text}", at.image.display()));
        return Err(failure.remedy("reading finds wrong checksums too: tane tar create - ..."));
    }
    if args.repair && kind == "xfs" {
        // xfs_repair cannot replay the log; whatever is wrong, it says itself.
        if let Ok(mount) = target.mount(global) {
            let _ = mount.unmount();
        }
        target.flush()?;
    }
    // It opens for writing what it only looks at: so it gets a copy.
    target.is_file &= args.repair || kind != "f2fs";
    let outcome = target.work(&kind, access, false, |path| {
        check::check(&kind, path, args.repair)
    })?;
    let damaged = outcome.state == State::Damaged;
    let found = outcome.state != State::Clean && !global.quiet;
    if !global.json && (global.verbose || found) {
        eprint!("{}", excerpt(&outcome.said, global.verbose));
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
            tell::note(&format!(
                "{image}: tane fsck --repair may repair it; keep a copy"
            ));
        }
    }
    out.flush()?;
    Ok(if damaged { SOME_FAILED } else { 0 })
}

/// What the program said; unless all is wanted, its first lines, and the last ones, which
/// sum up.
fn excerpt(said: &str, all: bool) -> String {
    const FIRST: usize = 20;
    const LAST: usize = 5;
    let lines: Vec<_> = said.lines().collect();
    if all || lines.len() <= FIRST + LAST + 1 {
        return said.to_owned();
    }
    let left_out = lines.len() - FIRST - LAST;
    let (first, last) = (&lines[..FIRST], &lines[FIRST + left_out..]);
    let gap = format!("... {left_out} more lines (-v shows them)");
    [&first.join("\n"), &gap, &last.join("\n"), ""].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_cut_in_its_middle_and_its_end_is_kept() {
        let lines = |n: usize| (0..n).map(|i| format!("{i}\n")).collect::<String>();
        assert_eq!(excerpt(&lines(26), false), lines(26));
        assert_eq!(excerpt(&lines(1000), true), lines(1000));
        let cut = excerpt(&lines(1000), false);
        let cut: Vec<_> = cut.lines().collect();
        assert_eq!(
            cut[19..22],
            ["19", "... 975 more lines (-v shows them)", "995"]
        );
        assert_eq!((cut.len(), cut[25]), (26, "999"));
    }
}
