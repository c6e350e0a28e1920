//! tane resize: a larger or smaller file system, with its partition and image.
//!
//! Each step is a process of its own, with one Linux or none, that opens nothing once it
//! has met the image; this one meets none, and believes no number that it is told.

mod steps;

use crate::args::parse_size;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{image_path, read_secrets, write_back_as_a_whole};
use serde_json::json;
use std::ffi::OsString;
use steps::Steps;

/// Make a file system larger or smaller, and with it its partition and the image
#[derive(clap::Args)]
#[command(after_help = "\
SIZE is that of the file system (with its partition, if it is on one): 20G, or +5G or
-5G from what it is, or max: as large as the place it is in.

ext2, ext3, ext4, xfs, btrfs, jfs and nilfs2 grow, and btrfs shrinks, by Linux itself,
mounted inside this process; so does nilfs2 as far as nothing is at its end. The
distribution's programs shrink ext2, ext3 and ext4 (e2fsck, resize2fs), let f2fs grow
(resize.f2fs), and ntfs do both (ntfsresize, ntfsfix), so they have to be installed; on
a partition or in a container they work on a sparse temporary copy. xfs, f2fs and jfs
cannot shrink. Windows should check an ntfs that was resized: chkdsk /f.

A raw image or qcow2 grows as needed, and a raw one shrinks with a file system that is
all of it. A partition changes with its file system (by sfdisk): the last one as far as
the image goes and further, another one into free space behind it. Other containers
keep their size: make them larger by other means, and max then fills them. A logical
partition (5 and above of an MBR) changes in a raw image only.

Examples:
  tane resize disk.img 20G
  tane resize disk.img@2 +5G           partition 2, the last one, and the image
  tane resize vm.qcow2@1 max           into what is free behind partition 1")]
pub struct Args {
    /// The image; with @SELECTOR one of several file systems in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// The new size: 20G, +5G, -5G or max
    #[arg(value_name = "SIZE", allow_hyphen_values = true)]
    pub size: String,
}

enum Wanted {
    To(u64),
    Max,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let at = image_path(&args.image, global)?;
    write_back_as_a_whole(&at, global);
    if !global.kept.is_session() {
        read_secrets(global)?;
    }
    let steps = Steps::new(&at, global);
    let (kind, place) = steps.look()?;
    let old = place.size();
    let size = match wanted(&args.size, old)? {
        Wanted::To(size) => size / 4096 * 4096,
        Wanted::Max => place.most(),
    };
    if size != old {
        place.check(&at)?;
    }
    if size >= old {
        steps.grow(&kind, &place, size)?;
    } else {
        steps.shrink(&kind, &place, size)?;
    }
    let capacity = steps.capacity()?;
    let mut out = Output::new();
    if global.json {
        let image = args.image.as_os_str().as_encoded_bytes();
        let told = json!({
            "fs": kind,
            "old_size": old,
            "size": size,
            "capacity": capacity,
        });
        out.json(&names::named("image", image, told))?;
    } else if global.verbose {
        let image = names::plain(args.image.as_os_str().as_encoded_bytes());
        out.line(&format!("{image}: {kind}, from {old} to {size} bytes"))?;
    }
    out.flush()?;
    Ok(0)
}

fn wanted(text: &str, old: u64) -> Result<Wanted> {
    let bad = |e: String| Failure::usage(format!("resize: {text}: {e}"));
    if text == "max" {
        return Ok(Wanted::Max);
    }
    let size = |digits: &str| parse_size(digits).map_err(bad);
    let size = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => old.saturating_add(size(more)?),
        (_, Some(less)) => old.saturating_sub(size(less)?),
        _ => size(text)?,
    };
    match size {
        0 => Err(bad("nothing would be left".into())),
        size => Ok(Wanted::To(size)),
    }
}
