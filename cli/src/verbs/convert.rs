//! tane convert: an image, or a volume in one, into a new image or into a volume.

mod import;

use crate::copy::{Progress, ProgressMode};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{
    declare, enter_before, image_path, is_same_file, lock_replaced, Access, Making, Needs, New,
    Target,
};
use crate::tell;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::images::{buffer, create, Format};
use tane_make::container::of_image;
use tane_make::file;

/// Write all of an image, or of a partition or volume in one, into a new image or a volume
#[derive(clap::Args)]
#[command(after_help = "\
What is read is the disk that SOURCE is, whatever its container, or with a selector the
partition, LUKS, BitLocker or LVM volume or RAID set that it means, as Linux shows it:
decrypted, and put together. With a key or passphrase and no selector it is what the
encrypted volume holds.

DEST is not encrypted, whatever SOURCE is, which is told of what a key has opened. It is
a qcow2 if its name ends so or --to says so, else raw. Blocks of zeroes become
holes. It appears under its name only when it is complete.

DEST with a selector, or a LUKS volume for which there is a key, is written into: the
bytes of SOURCE (- is standard input) go to its start, and what it has behind them stays.
It is not replaced as a whole: if that is interrupted, it has the beginning of SOURCE and
the rest of what it had.

Examples:
  tane convert vm.vmdk vm.qcow2
  tane convert evidence.E01 disk.img
  tane convert disk.img@2 root.ext4           partition 2 alone
  tane convert disk.qcow2@vg/home home.img    a logical volume
  tane convert --key-file key luks.img plain.img
  tane convert --force root.ext4 disk.qcow2@2
  zcat root.gz | tane convert --force --key-file key - luks.img")]
pub struct Args {
    /// The image; with @SELECTOR a partition or volume in it; - is standard input, for a
    /// volume
    #[arg(value_name = "SOURCE")]
    pub source: OsString,
    /// The image to be made, or with @SELECTOR the partition or volume to be written
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
    /// What DEST is to be: raw or qcow2, whatever its name
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<Format>,
    /// Replace DEST if it exists (of a link, the file that it leads to), or what the volume holds
    #[arg(long)]
    pub force: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub progress: ProgressMode,
}

pub fn run(mut args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    if let Some(volume) = import::volume(&args, global)? {
        return import::run(&args, &volume, global);
    }
    if args.source == "-" {
        let text = "convert: - is for writing into a volume: DEST is none";
        return Err(Failure::usage(text));
    }
    let at = image_path(&args.source, global)?;
    let format = of_image(&args.dest, args.to)?;
    check_absent(&args)?;
    args.dest = file::replaceable(&args.dest)?;
    if is_same_file(&at.image, &args.dest) {
        return Err(fail(&args.dest, &"is SOURCE itself"));
    }
    enter_before([&at], global)?;
    let is_file = args.dest.is_file();
    let replaced = is_file.then(|| lock_replaced(&args.dest, global));
    let _replaced = replaced.transpose()?;
    let new = New::create(&args.dest, "convert")?;
    let file = new.open()?;
    declare(Needs::images([(&at, Access::Read)]).makes(Making {
        made: new.path().map(Path::to_owned).into_iter().collect(),
        name: args.dest.clone(),
        replaces: args.force,
    }));
    let source = Target::open(&at, Access::Read, true, global)?;
    let size = source.size.next_multiple_of(512);
    let wrong = |e: io::Error| new.fail(&e);
    let disk = create(file.try_clone().map_err(wrong)?, format, size).map_err(wrong)?;
    let progress = Progress::new(args.progress, || (1, size));
    let mut stored = 0;
    source.read_data(|at, data| {
        progress.update(0, at);
        if interrupt::requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        stored += data.len() as u64;
        disk.write(&[buffer(data)], at)
    })?;
    disk.flush().map_err(wrong)?;
    drop(disk);
    file.sync_all().map_err(wrong)?;
    progress.finish(1, size);
    // It took a while.
    check_absent(&args)?;
    new.finish(&args.dest, args.force)?;
    let decrypted = source.is_decrypted;
    let told = json!({
        "format": format.name(),
        "size": size,
        "stored": stored,
        "decrypted": decrypted,
        "source": names::plain(args.source.as_os_str().as_bytes()),
    });
    tell(&args, decrypted, told, global)
}

fn check_absent(args: &Args) -> Result<()> {
    // A link that leads nowhere is there, too.
    match args.force || args.dest.symlink_metadata().is_err() {
        true => Ok(()),
        false => Err(fail(&args.dest, &"exists already: --force replaces it")),
    }
}

/// What was made, for people and for programs.
fn tell(args: &Args, decrypted: bool, told: serde_json::Value, global: &Global) -> Result<u8> {
    if decrypted && !global.quiet {
        let text = "is not encrypted, as what it is a copy of is";
        tell::note(&format!("{}: {text}", args.dest.display()));
    }
    if global.json {
        let mut out = Output::new();
        let image = args.dest.as_os_str().as_bytes();
        out.json(&names::named("image", image, told))?;
        out.flush()?;
    }
    Ok(0)
}

fn fail(path: &Path, text: &dyn std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {text}", path.display()))
}
