//! tane df: how full an image is.

use crate::failure::Result;
use crate::names;
use crate::output::Output;
use crate::session::Global;
use crate::session::{for_each_image, Access};
use crate::show::human;
use serde_json::Map;
use std::ffi::OsString;
use tane_linux::{Errno, RawStatFs};

/// Show how much room is left in the file system of an image
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "\
Examples:
  tane df -h disk.img
  tane df --json disk.img@2 | jq .available")]
pub struct Args {
    /// Images
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
    /// Sizes like 4.0K and 20M instead of KiB
    #[arg(short, long = "human-readable")]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    if !global.json {
        let unit = if args.human { "Size" } else { "1K-blocks" };
        out.line(&format!(
            "{unit:>12} {:>12} {:>12} {:>5} {:>12} {:>5} Image",
            "Used", "Available", "Use%", "Inodes", "IUse%"
        ))?;
    }
    let code = for_each_image(&args.images, Access::Read, global, |root, items| {
        let mut all_well = true;
        for item in items {
            let there = root.open(item.path(), libc::O_PATH);
            match there.and_then(|fd| root.sys().fstatfs(&fd)) {
                Ok(fs) => print(
                    item.argument.as_encoded_bytes(),
                    &fs,
                    &args,
                    global,
                    &mut out,
                )?,
                Err(e @ Errno(_)) => all_well = item.complain(e),
            }
        }
        Ok(all_well)
    })?;
    out.flush()?;
    Ok(code)
}

fn print(
    image: &[u8],
    fs: &RawStatFs,
    args: &Args,
    global: &Global,
    out: &mut Output,
) -> Result<()> {
    let unit = if fs.frsize > 0 { fs.frsize } else { fs.bsize } as u64;
    let (size, free, available) = (fs.blocks * unit, fs.bfree * unit, fs.bavail * unit);
    let used = size.saturating_sub(free);
    let inodes_used = fs.files.saturating_sub(fs.ffree);
    if global.json {
        let mut object = Map::new();
        names::put(&mut object, "image", image);
        for (key, value) in [
            ("size", size),
            ("used", used),
            ("available", available),
            ("block_size", unit),
            ("inodes", fs.files),
            ("inodes_used", inodes_used),
        ] {
            object.insert(key.into(), value.into());
        }
        return out.json(&object.into());
    }
    let amount = |bytes: u64| match args.human {
        true => human(bytes),
        false => bytes.div_ceil(1024).to_string(),
    };
    out.text(&format!(
        "{:>12} {:>12} {:>12} {:>5} {:>12} {:>5} ",
        amount(size),
        amount(used),
        amount(available),
        percent(used, used + available),
        fs.files,
        percent(inodes_used, fs.files),
    ))?;
    out.name(image)?;
    out.text("\n")
}

/// Rounded up, like df: 100% only looks full if it may be.
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{}%", (u128::from(part) * 100).div_ceil(u128::from(whole))),
    }
}
