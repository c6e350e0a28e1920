//! tane dmesg: what the kernel says.

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Global;
use crate::session::{image_path, is_host_kernel, Access, Machine};
use serde_json::json;
use std::ffi::OsString;

/// Print the log of the Linux that would serve an image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane dmesg                    how it boots
  tane dmesg disk.img           and what it says about an image")]
pub struct Args {
    /// Also attach and mount this image, read-only
    #[arg(value_name = "IMAGE")]
    pub image: Option<OsString>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        return Err(Failure::usage("the host's kernel has a dmesg of its own"));
    }
    let mut trouble = None;
    let log = match &args.image {
        None => Machine::bare(global)?.kernel.dmesg(),
        Some(image) => {
            let at = image_path(image, global)?;
            let machine = Machine::with_image(&at, Access::Read, global)?;
            // Whatever happens, the log is what was asked for.
            trouble = machine.try_mounts(&at.image).err();
            machine.kernel.dmesg()
        }
    };
    let mut out = Output::new();
    if global.json {
        for line in log.lines() {
            out.json(&json!({ "line": line }))?;
        }
    } else {
        out.text(&log)?;
    }
    out.flush()?;
    match trouble {
        Some(failure) => Err(failure),
        None => Ok(0),
    }
}
