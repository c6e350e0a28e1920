//! Names and UUIDs of file systems that are there, by each one's own program.

use super::check;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::programs::{tool, Tool};
use std::path::Path;

const BTRFSTUNE: Tool = tool("btrfstune", "btrfs-progs");
const FATLABEL: Tool = tool("fatlabel", "dosfstools");
const NTFSLABEL: Tool = tool("ntfslabel", "ntfs-3g");
const TUNE2FS: Tool = tool("tune2fs", "e2fsprogs");
const TUNE_EXFAT: Tool = tool("tune.exfat", "exfatprogs");
const XFS_DB: Tool = tool("xfs_db", "xfsprogs");

fn unable(kind: &str, what: &str) -> Failure {
    Failure::new(
        SOME_FAILED,
        format!("the {what} of {kind} cannot be changed"),
    )
}

/// Gives the file system in this file another name; "" takes it away.
pub fn set_label(kind: &str, file: &Path, label: &str) -> Result<()> {
    let (tool, args): (Tool, &[&str]) = match kind {
        "vfat" if label.is_empty() => {
            let mut command = FATLABEL.command()?;
            return FATLABEL.run(command.arg("-r").arg(file), &[0]).map(drop);
        }
        "vfat" => (FATLABEL, &[]),
        "ntfs" | "ntfs3" => (NTFSLABEL, &["--force"]),
        "exfat" => {
            let mut command = TUNE_EXFAT.command()?;
            let command = command.args(["-L", label]).arg(file);
            return TUNE_EXFAT.run(command, &[0]).map(drop);
        }
        other => return Err(unable(other, "name")),
    };
    let mut command = tool.command()?;
    tool.run(command.args(args).arg(file).arg(label), &[0])
        .map(drop)
}

/// Kinds whose serial number has 32 bits, written ABCD-EF01.
pub fn is_short(kind: &str) -> bool {
    ["vfat", "exfat"].contains(&kind)
}

/// Gives it another UUID, or of FAT and exFAT the serial number that serves for one.
pub fn set_uuid(kind: &str, file: &Path, uuid: &str) -> Result<()> {
    let serial = uuid.replace('-', "");
    let exfat = format!("0x{serial}");
    let uuid_of_xfs = format!("uuid {uuid}");
    let (tool, args): (Tool, Vec<&str>) = match kind {
        "ext2" | "ext3" | "ext4" => {
            // tune2fs refuses what was not just checked, since it writes all checksums.
            if check::check(kind, file, true)?.state == check::State::Damaged {
                let text = "is damaged: tane fsck --repair first";
                return Err(Failure::new(SOME_FAILED, text));
            }
            (TUNE2FS, vec!["-U", uuid])
        }
        "xfs" => (XFS_DB, vec!["-x", "-c", &uuid_of_xfs]),
        "btrfs" => (BTRFSTUNE, vec!["-f", "-U", uuid]),
        "exfat" => (TUNE_EXFAT, vec!["-I", &exfat]),
        "vfat" => {
            let mut command = FATLABEL.command()?;
            let command = command.arg("-i").arg(file).arg(&serial);
            return FATLABEL.run(command, &[0]).map(drop);
        }
        other => return Err(unable(other, "UUID")),
    };
    let mut command = tool.command()?;
    tool.run(command.args(args).arg(file), &[0]).map(drop)
}
