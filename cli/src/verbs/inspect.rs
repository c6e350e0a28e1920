//! tane inspect: what is in an image.

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::{image_path, is_host_kernel, Access, Machine, Volume};
use crate::{names, show};
use serde_json::{json, Map, Value};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;

/// Show an image's partitions and file systems
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane inspect disk.img
  tane inspect --json disk.img | jq '.volumes[] | select(.fs == \"ext4\").number'")]
pub struct Args {
    /// Images
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if is_host_kernel(global) {
        return Err(Failure::usage(
            "inspect: the host's kernel serves directories only",
        ));
    }
    let mut out = Output::new();
    for image in &args.images {
        let at = image_path(image, global)?;
        let machine = Machine::with_image(&at.image, Access::Read, global)?;
        let volumes = machine.volumes()?;
        let used: Vec<_> = volumes.iter().map(|v| machine.usage(v)).collect();
        let allocated = at.image.metadata().map_or(0, |m| m.blocks() * 512);
        let name = at.image.as_os_str().as_encoded_bytes();
        if global.json {
            out.json(&json_of(name, allocated, &volumes, &used))?;
        } else {
            text_of(name, allocated, &volumes, &used, &mut out)?;
        }
    }
    out.flush()?;
    Ok(0)
}

type Usage = Option<(u64, u64)>;

fn json_of(name: &[u8], allocated: u64, volumes: &[Volume], used: &[Usage]) -> Value {
    let mut object = Map::new();
    names::put(&mut object, "image", name);
    object.insert("size".into(), volumes.first().map_or(0, |v| v.size).into());
    object.insert("allocated".into(), allocated.into());
    let volume = |(v, used): (&Volume, &Usage)| {
        let found = v.found.as_ref();
        if v.number.is_none() && found.is_none() && volumes.len() > 1 {
            return None; // a disk with partitions and nothing else
        }
        Some(json!({
            "number": v.number,
            "name": v.name,
            "start": v.start,
            "size": v.size,
            "fs": found.map(|f| &f.fstype),
            "label": found.and_then(|f| f.label.as_ref()),
            "uuid": found.and_then(|f| f.uuid.as_ref()),
            "used": used.map(|u| u.0),
            "capacity": used.map(|u| u.1),
        }))
    };
    object.insert(
        "volumes".into(),
        volumes.iter().zip(used).filter_map(volume).collect(),
    );
    object.into()
}

fn text_of(
    name: &[u8],
    allocated: u64,
    volumes: &[Volume],
    used: &[Usage],
    out: &mut Output,
) -> Result<()> {
    out.name(name)?;
    let size = volumes.first().map_or(0, |v| v.size);
    let (size, allocated) = (show::human(size), show::human(allocated));
    out.line(&format!(": {size}, {allocated} of it on the host's disk"))?;
    out.line(&format!(
        "{:>4}  {:>7}  {:>7}  {:<12} {:<16} UUID",
        "Part", "Size", "Used", "Type", "Label"
    ))?;
    for (v, used) in volumes.iter().zip(used) {
        let found = v.found.as_ref();
        if v.number.is_none() && found.is_none() && volumes.len() > 1 {
            continue;
        }
        let text =
            |s: Option<&String>| s.map_or("-".into(), |s| names::plain(s.as_bytes()).into_owned());
        out.line(&format!(
            "{:>4}  {:>7}  {:>7}  {:<12} {:<16} {}",
            v.number.map_or("all".into(), |n| n.to_string()),
            show::human(v.size),
            used.map_or("-".into(), |u| show::human(u.0)),
            text(found.map(|f| &f.fstype)),
            text(found.and_then(|f| f.label.as_ref())),
            text(found.and_then(|f| f.uuid.as_ref())),
        ))?;
    }
    Ok(())
}
