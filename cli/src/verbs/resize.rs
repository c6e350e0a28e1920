//! tane resize: a larger or smaller file system, with its partition and image.

use crate::args::{parse_size, Global};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::{declare, image_path, is_raw, write_back_as_a_whole, Access, Needs, Target};
use crate::tools::{check, online, partition, Tool};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use tane::ImagePath;
use tane::VolumeKind;

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

A raw image grows as needed, and shrinks with a file system that is all of it. In an
image with a partition table the file system has to be on the last partition, which
changes with it (by sfdisk). Other containers keep their size: qemu-img resize
changes it, and max then fills it.

Examples:
  tane resize disk.img 20G
  tane resize disk.img@2 +5G           partition 2, the last one, and the image
  qemu-img resize vm.qcow2 40G && tane resize vm.qcow2 max")]
pub struct Args {
    /// The image; with @SELECTOR one of several file systems in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// The new size: 20G, +5G, -5G or max
    #[arg(value_name = "SIZE", allow_hyphen_values = true)]
    pub size: String,
}

/// What partitions start and end on.
const ALIGN: u64 = 1 << 20;

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
    declare(Needs::images([(&at, Access::Write)]).programs());
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
        Wanted::Max => room(&target, &at, global)?,
    };
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

/// As large as it may be where it is.
fn room(target: &Target, at: &ImagePath, global: &Global) -> Result<u64> {
    match target.kind {
        VolumeKind::Partition(_) if is_last(target) && is_raw(at, global) => {
            let len = at.image.metadata().map_err(|e| fail(at, &e.to_string()))?;
            let end = len.len().saturating_sub(ALIGN) / ALIGN * ALIGN;
            Ok(end.saturating_sub(target.start).max(target.size))
        }
        _ => Ok(target.size),
    }
}

fn is_last(target: &Target) -> bool {
    target.last_start == Some(target.start)
}

fn grow(target: Target, at: &ImagePath, kind: &str, size: u64, global: &Global) -> Result<()> {
    if !online::GROW.contains(&kind) && !["f2fs", "ntfs3"].contains(&kind) {
        return Err(fail(at, &format!("{kind} cannot be resized")));
    }
    if size > target.size {
        let raw = is_raw(at, global) && at.image.is_file();
        match target.kind {
            _ if !raw => {
                let text = "only raw images grow: use qemu-img resize, then max";
                return Err(fail(at, text));
            }
            VolumeKind::Disk => lengthen(&at.image, size).map_err(|e| fail(at, &e))?,
            VolumeKind::Partition(n) if is_last(&target) => {
                lengthen(&at.image, target.start + size + ALIGN).map_err(|e| fail(at, &e))?;
                partition::resize(&at.image, n, size)?;
            }
            _ => {
                return Err(fail(
                    at,
                    "is not on the last partition, nor the whole image",
                ))
            }
        }
    }
    drop(target);
    let target = Target::open(at, Access::Write, false, global)?;
    match kind {
        "f2fs" => target.work(Access::Write, false, |path| {
            let mut command = RESIZE_F2FS.command()?;
            RESIZE_F2FS.run(command.arg(path), &[0]).map(drop)
        }),
        "ntfs3" => target.work(Access::Write, false, |path| ntfs(path, None)),
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
    let (volume, raw) = (target.kind.clone(), target.is_file);
    drop(target);
    let target = Target::open(at, Access::Write, false, global)?;
    match kind {
        _ if online::SHRINK.contains(&kind) => {
            by_kernel(&target, at, kind, size, global)?;
            drop(target);
        }
        "ext2" | "ext3" | "ext4" => target.work(Access::Write, false, |path| {
            // resize2fs refuses what was not just checked.
            let checked = check::check(kind, path, true)?;
            if checked.state == check::State::Damaged {
                return Err(fail(at, "is damaged: tane fsck --repair first"));
            }
            let mut command = RESIZE2FS.command()?;
            let size = format!("{}K", size / 1024);
            RESIZE2FS.run(command.arg(path).arg(size), &[0]).map(drop)
        })?,
        "ntfs3" => target.work(Access::Write, false, |path| ntfs(path, Some(size)))?,
        "xfs" | "f2fs" | "jfs" => return Err(fail(at, &format!("{kind} cannot shrink"))),
        other => return Err(fail(at, &format!("{other} cannot be resized"))),
    }
    match volume {
        VolumeKind::Disk if raw && at.image.is_file() => {
            let file = File::options().write(true).open(&at.image);
            let done = file.and_then(|file| file.set_len(size));
            done.map_err(|e| fail(at, &e.to_string()))
        }
        VolumeKind::Partition(n) if is_raw(at, global) => partition::resize(&at.image, n, size),
        _ => Ok(()),
    }
}

fn lengthen(image: &Path, size: u64) -> std::result::Result<(), String> {
    let file = File::options().write(true).open(image);
    let done = file.and_then(|file| match file.metadata()?.len() < size {
        true => file.set_len(size),
        false => Ok(()),
    });
    done.map_err(|e| e.to_string())
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
