//! tane mkfs: an empty file system.

use crate::args::parse_size;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::means::Means;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{
    declare, image_path, open_held, write_back_as_a_whole, Access, Needs, Target,
};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tane::ImagePath;
use tane_make::container::Container;
use tane_make::file::Unfinished;
use tane_make::mkfs::{self, Wish};

/// Make an empty file system in an image, a partition or a volume
#[derive(clap::Args)]
#[command(after_help = "\
The distribution's own programs do the work (mke2fs, mkfs.xfs, mkfs.btrfs, mkfs.f2fs,
mkfs.vfat, mkfs.exfat, mkntfs, jfs_mkfs, mkfs.nilfs2, mkudffs, mkfs.minix), so they
have to be installed; no root is needed. Debian has none for hfsplus. On a partition,
in a container (qcow2 and others) or in a LUKS or LVM volume they work on a sparse
temporary file (in TMPDIR, else /var/tmp), which is then copied there.

A passphrase or key that is given means the LUKS volume that it opens: the file system
is made inside, and what is outside stays. Words behind -- go to the program as they
are. What holds something already is left alone without --force. tane make-image makes
one with files in it.

Examples:
  tane mkfs --size 2G new.img                     an ext4 in a new raw image
  tane mkfs --fs xfs --label data disk.qcow2@2    on partition 2
  tane mkfs --fs ext4 disk.img -- -O ^has_journal")]
pub struct Args {
    /// The image; with @SELECTOR a partition or volume in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// Make a new image of this size: a qcow2 if its name ends so or --format says so,
    /// else raw
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// The file system's name
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Its UUID (vfat: a serial number like 1234-ABCD)
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Make it whatever is there, which is lost then
    #[arg(long)]
    pub force: bool,
    /// Arguments for the program
    #[arg(last = true, value_name = "ARGS")]
    pub extra: Vec<OsString>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let kind = global.fs.as_deref().unwrap_or("ext4");
    mkfs::tool(kind)?;
    let wish = Wish {
        label: args.label.as_deref(),
        uuid: args.uuid.as_deref(),
        fixed: None,
        sector: global.sector_size,
        extra: &args.extra,
    };
    let path = Path::new(&args.image);
    let size = match args.size {
        Some(size) => create(path, size, kind, &wish, global)?,
        None => replace(
            &image_path(&args.image, global)?,
            kind,
            &wish,
            &args,
            global,
        )?,
    };
    if global.json {
        let mut out = Output::new();
        let image = args.image.as_os_str().as_encoded_bytes();
        let told = json!({
            "fs": kind,
            "size": size,
        });
        out.json(&names::named("image", image, told))?;
        out.flush()?;
    }
    Ok(0)
}

/// In a file that is not there yet, and goes again if that fails.
fn create(path: &Path, size: u64, kind: &str, wish: &Wish, global: &Global) -> Result<u64> {
    let container = Container::of(path, global.format)?;
    let fail = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::AlreadyExists => ": --size is for new images; resize grows others",
            _ => "",
        };
        Failure::new(SOME_FAILED, format!("{}: {e}{hint}", path.display()))
    };
    let file = File::options().write(true).create_new(true).open(path);
    let made = file.and_then(|file| {
        file.set_len(size)?;
        file.metadata()
    });
    let made = made.map_err(fail)?;
    // What somebody else has put there is not ours to remove or to replace.
    let is_kept = |path: &Path| {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| (found.dev(), found.ino()) == (made.dev(), made.ino()))
    };
    let means = Means(global);
    let done = match container {
        None => mkfs::make(&means, kind, path, wish).map_err(Failure::from),
        Some(container) => contained(path, container, size, is_kept, |raw| {
            Ok(mkfs::make(&means, kind, raw, wish)?)
        }),
    };
    if done.is_err() && is_kept(path) {
        let _ = std::fs::remove_file(path);
    }
    done.map(|()| size)
}

/// In a container, which replaces the file that has kept its name.
fn contained(
    path: &Path,
    container: Container,
    size: u64,
    is_kept: impl FnOnce(&Path) -> bool,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let raw = Unfinished::create(path, "part")?;
    raw.resize(size)?;
    make(&raw.path)?;
    let made = container.fill(&raw)?;
    if is_kept(path) {
        return Ok(made.finish(path)?);
    }
    let text = format!("{}: is another file now, and stays", path.display());
    Err(Failure::new(SOME_FAILED, text))
}

fn replace(at: &ImagePath, kind: &str, wish: &Wish, args: &Args, global: &Global) -> Result<u64> {
    // What is there has its own type; --fs is that of the new one.
    let global = &global.changed(|options| options.fs = None);
    // A LUKS volume is all zeroes only when all of it was written.
    let has_key = global.key_file.is_some() || global.passphrase_file.is_some();
    let needs = Needs::images([(at, Access::Write)]).programs();
    declare(needs.no_holes(has_key));
    write_back_as_a_whole(at, global);
    let target = Target::open(at, Access::Write, true, global)?;
    if let Some(found) = target.holds().filter(|_| !args.force) {
        return Err(target.taken(&found));
    }
    let size = target.size;
    let wish = &Wish {
        sector: Some(target.sector()),
        fixed: None,
        ..*wish
    };
    if target.is_file {
        // What a mkfs leaves alone should not show through.
        let fail =
            |e: std::io::Error| Failure::new(SOME_FAILED, format!("{}: {e}", at.image.display()));
        if at.image.is_file() {
            target.work(kind, Access::Write, true, |path| {
                let file = open_held(path, Access::Write).map_err(fail)?;
                file.set_len(0)
                    .and_then(|()| file.set_len(size))
                    .map_err(fail)?;
                Ok(mkfs::make(&Means(global), kind, path, wish)?)
            })?;
            return Ok(size);
        }
    }
    target.work(kind, Access::Write, true, |path| {
        Ok(mkfs::make(&Means(global), kind, path, wish)?)
    })?;
    Ok(size)
}
