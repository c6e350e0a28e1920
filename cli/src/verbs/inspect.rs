//! tane inspect: what is in an image.

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Global;
use crate::session::{declare, is_host_kernel, whole_image, Access, Content, Machine, Needs};
use crate::{names, show};
use serde_json::{json, Map, Value};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use tane::images::{Encryption, Layer};
use tane::{Volume, VolumeKind, Volumes};

/// Show what is in an image: partitions, volumes, file systems
#[derive(clap::Args)]
#[command(after_help = "\
The picture has a line for each volume, below what it lies on: its selector, its
size, what is on it, the label, how much of the file system is used, the installed
system, the UUID. Encrypted volumes are opened if a passphrase is given; of an image
that is encrypted as a whole nothing is known without.

Examples:
  tane inspect disk.img
  tane inspect --passphrase-file=pw disk.qcow2
  tane inspect --with=b.img a.img                      two disks of one machine
  tane inspect --json disk.img | jq '.volumes[] | select(.fs == \"ext4\").selector'")]
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
    let images = args.images.iter().map(|image| whole_image(image, global));
    let images = images.collect::<Result<Vec<_>>>()?;
    declare(Needs::images(images.iter().map(|at| (at, Access::Read))));
    for at in images {
        let machine = Machine::with_image(&at, Access::Read, global)?;
        let volumes = machine.volumes()?;
        let list = volumes.list();
        let found = Found {
            name: at.image.as_os_str().as_encoded_bytes(),
            allocated: match at.is_remote() || at.within.is_some() {
                true => None,
                false => Some(at.image.metadata().map_or(0, |m| m.blocks() * 512)),
            },
            is_inner: at.within.is_some(),
            machine: &machine,
            volumes,
            contents: list.iter().map(|v| machine.content(v)).collect(),
        };
        match global.json {
            true => out.json(&found.json())?,
            false => found.picture(&mut out)?,
        }
    }
    out.flush()?;
    Ok(0)
}

struct Found<'a> {
    name: &'a [u8],
    /// None: it is on a server, or in another image.
    allocated: Option<u64>,
    is_inner: bool,
    machine: &'a Machine,
    volumes: &'a Volumes,
    /// By volume.
    contents: Vec<Option<Content>>,
}

fn kind(volume: &Volume) -> &'static str {
    match volume.kind {
        VolumeKind::Disk => "disk",
        VolumeKind::Partition(_) => "partition",
        VolumeKind::Luks => "luks",
        VolumeKind::BitLocker => "bitlocker",
        VolumeKind::Logical { .. } => "lvm",
        VolumeKind::Raid => "raid",
        VolumeKind::Verity => "verity",
    }
}

impl Found<'_> {
    fn list(&self) -> &[Volume] {
        self.volumes.list()
    }

    fn layers(&self) -> &[Layer] {
        self.machine.disk().map(|d| d.layers()).unwrap_or_default()
    }

    /// "gpt" or "dos", by the types of the partitions on a disk.
    fn table(&self, disk: usize) -> Option<&'static str> {
        let mut parts = self.list().iter().filter(|v| v.on == [disk]);
        let kind = parts.find_map(|v| v.part_type.as_ref())?;
        Some(if kind.starts_with("0x") { "dos" } else { "gpt" })
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        names::put(&mut object, "image", self.name);
        object.insert("size".into(), self.list()[0].size.into());
        object.insert("allocated".into(), self.allocated.into());
        let layers = self.layers();
        let put = |object: &mut Map<_, _>, layer: Option<&Layer>| {
            let format = layer.map(|layer| layer.format.name());
            object.insert("format".into(), format.into());
            let encryption = layer.and_then(|layer| layer.encryption);
            let encryption = encryption.map(Encryption::name);
            object.insert("encrypted".into(), encryption.into());
        };
        put(&mut object, layers.first());
        let layers = layers.iter().map(|layer| {
            let mut object = Map::new();
            names::put(&mut object, "path", layer.path.as_os_str().as_bytes());
            put(&mut object, Some(layer));
            Value::from(object)
        });
        object.insert("layers".into(), layers.collect());
        object.insert("table".into(), self.table(0).into());
        let volumes = self.list().iter().enumerate().filter_map(|(id, v)| {
            // A disk with partitions and nothing else.
            let bare = v.kind == VolumeKind::Disk && v.found.is_none() && self.list().len() > 1;
            (!bare).then(|| self.volume(id, v))
        });
        object.insert("volumes".into(), volumes.collect());
        object.into()
    }

    fn volume(&self, id: usize, v: &Volume) -> Value {
        let found = v.found.as_ref();
        let content = self.contents[id].as_ref();
        let number = match v.kind {
            VolumeKind::Partition(n) => Some(n),
            _ => None,
        };
        json!({
            "id": id,
            "kind": kind(v),
            "on": v.on,
            "selector": self.volumes.selector(v),
            "number": number,
            "name": v.name,
            "part_uuid": v.uuid,
            "part_type": v.part_type,
            "start": v.start.or((v.kind == VolumeKind::Disk).then_some(0)),
            "size": v.size,
            "fs": found.map(|f| &f.fstype),
            "also": found.map_or(&[][..], |f| &f.also),
            "label": found.and_then(|f| f.label.as_ref()),
            "uuid": found.and_then(|f| f.uuid.as_ref()),
            "used": content.map(|c| c.used),
            "capacity": content.map(|c| c.capacity),
            "os": content.and_then(|c| c.os.as_ref()),
            "locked": v.locked,
            "protectors": v.protectors.iter().map(|p| json!({
                "kind": p.kind.name(),
                "id": p.id,
                "name": p.name,
            })).collect::<Vec<_>>(),
            "note": v.note,
        })
    }

    fn picture(&self, out: &mut Output) -> Result<()> {
        out.name(self.name)?;
        let layers = self.layers();
        let formats = layers.iter().map(|layer| match layer.encryption {
            Some(how) => format!("{} encrypted by {how}", layer.format),
            None => layer.format.to_string(),
        });
        let formats: Vec<_> = formats.collect();
        // Raw files beside each other hold a disk's parts; others are a chain.
        let beside = formats.chunk_by(|a, b| a == "raw" && a == b);
        let formats: Vec<_> = beside
            .map(|files| match files {
                [first, _, ..] if first == "raw" => format!("{} raw files", files.len()),
                files => files.join(""),
            })
            .collect();
        let formats = match &formats[..] {
            [] => "raw".to_owned(),
            several => several.join(" on "),
        };
        out.line(&format!(
            "  {formats}, {}, {}",
            show::human(self.list()[0].size),
            match self.allocated {
                Some(bytes) => format!("{} of it on the host's disk", show::human(bytes)),
                None if self.is_inner => "in another image".into(),
                None => "on a server".into(),
            }
        ))?;
        for (disk, volume) in self.list().iter().enumerate() {
            if volume.kind != VolumeKind::Disk {
                continue;
            }
            if disk > 0 {
                out.line("with")?;
            }
            let table = self.table(disk);
            if volume.found.is_some() || table.is_none() {
                out.line(&format!("  {}", self.line(disk, volume)))?;
            }
            if let Some(table) = table {
                out.line(&format!("  {table} table"))?;
            }
            self.below(disk, "  ", out)?;
        }
        Ok(())
    }

    /// What lies on the volume at `index`, and on that.
    fn below(&self, index: usize, indent: &str, out: &mut Output) -> Result<()> {
        // What lies on several is shown below the first of them.
        let list = self.list().iter().enumerate();
        let on_it: Vec<_> = list.filter(|(_, v)| v.on.first() == Some(&index)).collect();
        for (i, (at, volume)) in on_it.iter().enumerate() {
            let last = i + 1 == on_it.len();
            let (branch, rest) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            out.line(&format!("{indent}{branch}{}", self.line(*at, volume)))?;
            self.below(*at, &format!("{indent}{rest}"), out)?;
        }
        Ok(())
    }

    fn line(&self, index: usize, v: &Volume) -> String {
        let plain = |text: &String| names::plain(text.as_bytes()).into_owned();
        let mut words = Vec::new();
        words.push(match &v.kind {
            VolumeKind::Disk => "whole disk".into(),
            VolumeKind::Partition(n) => n.to_string(),
            VolumeKind::Luks | VolumeKind::BitLocker => "unlocked".into(),
            VolumeKind::Logical { .. } => v.name.as_ref().map(plain).unwrap_or_default(),
            VolumeKind::Raid => "RAID".into(),
            VolumeKind::Verity => "verified".into(),
        });
        words.push(show::human(v.size));
        let found = v.found.as_ref();
        words.push(found.map_or("nothing known".into(), |f| plain(&f.fstype)));
        if let Some(found) = found.filter(|f| !f.also.is_empty()) {
            words.push(format!("(and {}: --fs)", found.also.join(", ")));
        }
        if let Some(label) = found.and_then(|f| f.label.as_ref()) {
            words.push(format!("label={}", plain(label)));
        }
        if let Some(content) = &self.contents[index] {
            words.push(format!("{} used", show::human(content.used)));
            if let Some(os) = &content.os {
                words.push(format!("[{}]", plain(os)));
            }
        }
        if let Some(uuid) = found.and_then(|f| f.uuid.as_ref()) {
            words.push(format!("uuid={}", plain(uuid)));
        }
        if v.on.len() > 1 {
            words.push(format!("on {} volumes", v.on.len()));
        }
        if let Some(name) = v.name.as_ref().filter(|_| v.kind != VolumeKind::Disk) {
            if !matches!(v.kind, VolumeKind::Logical { .. }) {
                words.push(format!("({})", plain(name)));
            }
        }
        if let Some(note) = &v.note {
            words.push(format!("- {}", plain(note)));
        }
        words.join("  ")
    }
}
