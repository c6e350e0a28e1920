//! tane resize: a larger or smaller file system, with its partition and image.

use crate::args::{parse_size, Global};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::{declare, image_path, write_back_as_a_whole, Access, Needs, Target};
use crate::tools::place::Place;
use crate::tools::{check, online, Tool};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use tane::ImagePath;

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

const RESIZE2FS: Tool = Tool {
    program: "resize2fs",
    package: "e2fsprogs",
};
const RESIZE_F2FS: Tool = Tool {
    program: "resize.f2fs",
    package: "f2fs-tools",
};
const NTFSRESIZE: Tool = Tool {
    program: "ntfsresize",
    package: "ntfs-3g",
};

enum Wanted {
    To(u64),
    Max,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let at = image_path(&args.image, global)?;
    // Several kernels, one after another, and programs in between.
    declare(Needs::images([(&at, Access::Write)]).programs().again());
    write_back_as_a_whole(&at, global);
    let target = Target::open(&at, Access::Read, false, global)?;
    let kind = target.fstype.clone().ok_or_else(|| {
        let text = "no file system that is known; --fs says its type";
        Failure::image(format!("{}: {text}", at.image.display()))
    })?;
    let kind = match kind.as_str() {
        // As its programs call it.
        "ntfs" => "ntfs3".to_owned(),
        _ => kind,
    };
    let old = target.size;
    let size = match wanted(&args.size, old)? {
        Wanted::To(size) => size / 4096 * 4096,
        Wanted::Max => Place::of(&target).most(),
    };
    if size != old {
        Place::of(&target).check(&at, global)?;
    }
    if size >= old {
        grow(target, &at, &kind, size, global)?;
    } else {
        shrink(target, &at, &kind, size, global)?;
    }
    let after = Target::open(&at, Access::Read, false, global)?;
    let mount = after.mount(global).map_err(|e| unmountable(&at, &e))?;
    let capacity = mount.statfs().map(|fs| fs.total).unwrap_or(0);
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

fn fail(at: &ImagePath, text: &str) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {text}", at.image.display()))
}

fn unmountable(at: &ImagePath, e: &tane::Error) -> Failure {
    Failure::image(format!("{}: cannot be mounted: {e}", at.image.display()))
}

fn grow(target: Target, at: &ImagePath, kind: &str, size: u64, global: &Global) -> Result<()> {
    if !online::GROW.contains(&kind) && !["f2fs", "ntfs3"].contains(&kind) {
        return Err(fail(at, &format!("{kind} cannot be resized")));
    }
    let place = Place::of(&target);
    let larger = size > target.size;
    drop(target);
    if larger {
        place.grow(at, size, global)?;
    }
    let target = Target::open(at, Access::Write, false, global)?;
    match kind {
        "f2fs" => target.work(kind, Access::Write, false, |path| {
            let mut command = RESIZE_F2FS.command()?;
            RESIZE_F2FS.run(command.arg(path), &[0]).map(drop)
        }),
        "ntfs3" => target.work(kind, Access::Write, false, |path| ntfs(path, None)),
        _ => by_kernel(&target, at, kind, size, global),
    }
}

/// By ntfsresize: to so many bytes, or to all of the file.
fn ntfs(path: &Path, size: Option<u64>) -> Result<()> {
    let mut command = NTFSRESIZE.command()?;
    // Twice: it neither asks nor minds that the last resize set the dirty flag.
    command.args(["--force", "--force", "--no-progress-bar"]);
    if let Some(size) = size {
        command.args(["--size", &size.to_string()]);
    }
    NTFSRESIZE.run(command.arg(path), &[0])?;
    // It leaves the second boot sector to Windows, and the dirty flag, with which
    // Linux does not write.
    check::check("ntfs3", path, true).map(drop)
}

fn shrink(target: Target, at: &ImagePath, kind: &str, size: u64, global: &Global) -> Result<()> {
    let place = Place::of(&target);
    drop(target);
    let target = Target::open(at, Access::Write, false, global)?;
    match kind {
        _ if online::SHRINK.contains(&kind) => {
            by_kernel(&target, at, kind, size, global)?;
            drop(target);
        }
        "ext2" | "ext3" | "ext4" => target.work(kind, Access::Write, false, |path| {
            // resize2fs refuses what was not just checked.
            let checked = check::check(kind, path, true)?;
            if checked.state == check::State::Damaged {
                return Err(fail(at, "is damaged: tane fsck --repair first"));
            }
            let mut command = RESIZE2FS.command()?;
            let size = format!("{}K", size / 1024);
            RESIZE2FS.run(command.arg(path).arg(size), &[0]).map(drop)
        })?,
        "ntfs3" => target.work(kind, Access::Write, false, |path| ntfs(path, Some(size)))?,
        "xfs" | "f2fs" | "jfs" => return Err(fail(at, &format!("{kind} cannot shrink"))),
        other => return Err(fail(at, &format!("{other} cannot be resized"))),
    }
    place.shrink(at, size, global)
}

/// Mounted, by the file system's own system call.
fn by_kernel(
    target: &Target,
    at: &ImagePath,
    kind: &str,
    size: u64,
    global: &Global,
) -> Result<()> {
    let mount = target.mount(global).map_err(|e| unmountable(at, &e))?;
    let done = online::resize(&target.machine().kernel, &mount, kind, size);
    done.map_err(|e| {
        let text = match (kind, e.raw_os_error()) {
            ("nilfs2", Some(libc::EBUSY)) => {
                "the part that would go holds data, which nilfs2 itself does not move".to_owned()
            }
            _ => format!("Linux does not resize it: {e}"),
        };
        fail(at, &text)
    })?;
    let unmounted = mount.unmount();
    unmounted.map_err(|e| fail(at, &format!("not everything was written: {e}")))?;
    target.flush()
}
