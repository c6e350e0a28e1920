//! tane label: the name of a file system.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{declare, image_path, write_back_as_a_whole, Access, Needs, Target};
use crate::tools::{identity, online};
use serde_json::json;
use std::ffi::OsString;
use tane::ImagePath;

/// Show or change the name of a file system
#[derive(clap::Args)]
#[command(after_help = "\
Of ext2, ext3, ext4, xfs, btrfs and f2fs Linux itself changes it, mounted inside this
process; of vfat, exfat and ntfs their own programs do (fatlabel, tune.exfat, ntfslabel).
\"\" takes the name away.

Examples:
  tane label disk.img
  tane label disk.img@2 data")]
pub struct Args {
    /// The image; with @SELECTOR one of several file systems in it
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
    /// The new name; without, it is shown
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    interrupt::be_orderly();
    let at = image_path(&args.image, global)?;
    if let Some(name) = &args.name {
        declare(Needs::images([(&at, Access::Write)]).programs());
        write_back_as_a_whole(&at, global);
        change(&at, name, global)?;
    } else {
        declare(Needs::images([(&at, Access::Read)]));
        let target = Target::open(&at, Access::Read, false, global)?;
        tell(&args.image, &target, target.label.as_deref(), global)?;
    }
    Ok(0)
}

fn change(at: &ImagePath, name: &str, global: &Global) -> Result<()> {
    let target = Target::open(at, Access::Write, false, global)?;
    let kind = kind_of(&target, at)?;
    if !online::NAMED.contains(&kind.as_str()) {
        return target.work(&kind, Access::Write, false, |path| {
            identity::set_label(&kind, path, name)
        });
    }
    let fail = |text: String| Failure::new(SOME_FAILED, format!("{}: {text}", at.image.display()));
    let mount = target.mount(global);
    let mount = mount.map_err(|e| Failure::image(format!("{}: {e}", at.image.display())))?;
    let done = online::set_label(&target.machine().kernel, &mount, name);
    let unmounted = mount.unmount();
    done.map_err(|e| fail(format!("{kind} does not take that name: {e}")))?;
    unmounted.map_err(|e| fail(format!("not everything was written: {e}")))?;
    target.flush()
}

/// What file system it is whose name or UUID is asked about.
pub fn kind_of(target: &Target, at: &ImagePath) -> Result<String> {
    target.fstype.clone().ok_or_else(|| {
        let text = "no file system that is known; --fs says its type";
        Failure::image(format!("{}: {text}", at.image.display()))
    })
}

/// Prints what was asked for, an empty line if there is none; as JSON all of it.
pub fn tell(image: &OsString, target: &Target, what: Option<&str>, global: &Global) -> Result<()> {
    let mut out = Output::new();
    if global.json {
        let told = json!({
            "fs": target.fstype,
            "label": target.label,
            "uuid": target.uuid,
        });
        out.json(&names::named("image", image.as_encoded_bytes(), told))?;
    } else {
        let shown = what.map(|what| names::plain(what.as_bytes()));
        out.line(&shown.unwrap_or_default())?;
    }
    out.flush()
}
