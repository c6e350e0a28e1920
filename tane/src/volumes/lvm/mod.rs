//! LVM2: logical volumes, from the metadata on the physical ones.

mod text;

use super::mapper::Target;
use super::{Made, Volume, VolumeKind, VolumeOptions, Volumes};
use crate::error::Result as TaneResult;
use crate::kernel::Kernel;
use crate::sys::SysResult;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use text::{parse, Value};

const MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// More metadata than LVM makes room for, in bytes.
const MOST: u64 = 64 << 20;

/// What a physical volume says of itself and of its group.
pub(super) struct Physical {
    pub device: PathBuf,
    /// Without hyphens.
    id: String,
    /// The group's text, if this volume has a copy.
    text: Option<Value>,
}

/// A logical volume, as a device can be made of it.
pub(super) struct Logical {
    pub group: String,
    pub name: String,
    pub uuid: Option<String>,
    /// Or why there can be none.
    pub targets: Result<Vec<Target>, String>,
    /// In bytes.
    pub size: u64,
    /// The devices it lies on.
    pub on: Vec<PathBuf>,
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Physical {
    /// None if the device's label makes no sense.
    pub fn read(kernel: &Kernel, device: &Path) -> SysResult<Option<Self>> {
        let head = kernel.read_device(device, 0, 8192)?;
        let Some((id, areas)) = label(&head) else {
            return Ok(None);
        };
        let mut text = None;
        for (at, len) in areas {
            if !(512..=MOST).contains(&len) || text.is_some() {
                continue;
            }
            let area = kernel.read_device(device, at, len as usize)?;
            text = metadata(&area);
        }
        Ok(Some(Self {
            device: device.to_owned(),
            id,
            text,
        }))
    }
}

/// The volume's id, and where its metadata is.
fn label(head: &[u8]) -> Option<(String, Vec<(u64, u64)>)> {
    let sector = (0..4).find(|i| {
        head.get(i * 512..)
            .is_some_and(|s| s.starts_with(b"LABELONE"))
    })?;
    let label = &head[sector * 512..];
    let header = label.get(le32(label, 20)? as usize..)?;
    let id = String::from_utf8(header.get(..32)?.to_vec()).ok()?;
    // Data areas, then those of metadata; each list ends with zeros.
    let mut lists = [Vec::new(), Vec::new()];
    let mut at = 40;
    for list in &mut lists {
        loop {
            let area = (le64(header, at)?, le64(header, at + 8)?);
            at += 16;
            if area.0 == 0 {
                break;
            }
            list.push(area);
        }
    }
    let [_, areas] = lists;
    Some((id, areas))
}

/// The newest text of an area, which is a ring behind the first sector.
fn metadata(area: &[u8]) -> Option<Value> {
    if area.get(4..20)? != MAGIC {
        return None;
    }
    let (offset, len) = (le64(area, 40)? as usize, le64(area, 48)? as usize);
    let end = area.len();
    if !(512..end).contains(&offset) || len > end - 512 {
        return None;
    }
    let straight = len.min(end - offset);
    let mut text = area[offset..offset + straight].to_vec();
    text.extend_from_slice(&area[512..512 + len - straight]);
    parse(std::str::from_utf8(&text).ok()?)
}

/// The logical volumes of all groups that these physical ones make up.
pub(super) fn logical(physical: &[Physical]) -> Vec<Logical> {
    // The newest text of each group.
    let mut groups: HashMap<&str, (&str, &Value)> = HashMap::new();
    for text in physical.iter().filter_map(|p| p.text.as_ref()) {
        for (name, group) in text.sections() {
            let Some(id) = group.text("id") else { continue };
            let newest = groups.entry(id).or_insert((name, group));
            if group.number("seqno") > newest.1.number("seqno") {
                *newest = (name, group);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|(name, _)| *name);
    let mut found = Vec::new();
    for (name, group) in groups {
        let volumes = group.get("logical_volumes");
        for (volume, section) in volumes.map(Value::sections).unwrap_or_default() {
            let visible = |v: &Value| *v == Value::Text("VISIBLE".into());
            if section.list("status").iter().any(visible) {
                found.push(one(name, group, volume, section, physical));
            }
        }
    }
    found
}

fn one(group_name: &str, group: &Value, name: &str, volume: &Value, all: &[Physical]) -> Logical {
    let mut on = Vec::new();
    let mut end = 0;
    let targets = targets(group, volume, all, &mut on, &mut end);
    Logical {
        group: group_name.to_owned(),
        name: name.to_owned(),
        uuid: volume.text("id").map(str::to_owned),
        targets,
        size: end * 512,
        on,
    }
}

fn targets(
    group: &Value,
    volume: &Value,
    all: &[Physical],
    on: &mut Vec<PathBuf>,
    end: &mut u64,
) -> Result<Vec<Target>, String> {
    let damaged = || String::from("its metadata is damaged");
    let extent = group.number("extent_size").ok_or_else(damaged)?;
    let mut targets = Vec::new();
    let mut segments: Vec<_> = volume.sections().into_iter().map(|(_, s)| s).collect();
    segments.retain(|s| s.number("extent_count").is_some());
    segments.sort_by_key(|s| s.number("start_extent"));
    let mut problem = None;
    for segment in segments {
        let sectors = |path: &str| segment.number(path).and_then(|n| n.checked_mul(extent));
        let start = sectors("start_extent").ok_or_else(damaged)?;
        let len = sectors("extent_count").ok_or_else(damaged)?;
        *end = start.checked_add(len).ok_or_else(damaged)?;
        let kind = segment.text("type").ok_or_else(damaged)?;
        if kind != "striped" {
            problem = Some(format!("volumes of the type {kind} are not supported"));
            continue;
        }
        let mut places = Vec::new();
        for pair in segment.list("stripes").chunks_exact(2) {
            let (Value::Text(physical), Value::Number(at)) = (&pair[0], &pair[1]) else {
                return Err(damaged());
            };
            let section = group.get("physical_volumes").and_then(|p| p.get(physical));
            let section = section.ok_or_else(damaged)?;
            let id = section.text("id").ok_or_else(damaged)?.replace('-', "");
            let Some(device) = all.iter().find(|p| p.id == id) else {
                let name = section.text("device").unwrap_or(physical);
                problem = Some(format!("its physical volume {name} is missing (--with)"));
                continue;
            };
            let first = section.number("pe_start").ok_or_else(damaged)?;
            let at = u64::try_from(*at).ok().and_then(|n| n.checked_mul(extent));
            let at = at.and_then(|n| n.checked_add(first)).ok_or_else(damaged)?;
            places.push(format!("{} {at}", device.device.display()));
            if !on.contains(&device.device) {
                on.push(device.device.clone());
            }
        }
        let (kind, parameters) = match &places[..] {
            [] => continue,
            [only] => ("linear", only.clone()),
            several => {
                let stripe = segment.number("stripe_size").ok_or_else(damaged)?;
                let count = several.len();
                ("striped", format!("{count} {stripe} {}", several.join(" ")))
            }
        };
        targets.push(Target {
            start,
            len,
            kind,
            parameters,
        });
    }
    match problem {
        Some(problem) => Err(problem),
        None if targets.is_empty() => Err(damaged()),
        None => Ok(targets),
    }
}

impl Volumes {
    pub(super) fn add_logical(
        &mut self,
        physical: &[Physical],
        options: &VolumeOptions,
    ) -> TaneResult<()> {
        if physical.is_empty() {
            return Ok(());
        }
        let mapper = self.mapper()?;
        for volume in logical(physical) {
            let on: Vec<_> = volume.on.iter().filter_map(|d| self.index_of(d)).collect();
            let full = format!("{}/{}", volume.group, volume.name);
            let name = self.new_name();
            let made = volume.targets.and_then(|targets| {
                let made = mapper.create(&name, &targets, options.read_only);
                made.map_err(|errno| errno.on("make", Path::new(&full)).to_string())
            });
            let kind = VolumeKind::Logical {
                group: volume.group,
                name: volume.name,
            };
            match made {
                Ok(node) => {
                    self.made.push(Made::Mapped(name));
                    self.push(kind, node, on, volume.size, Some(full), volume.uuid)?;
                }
                Err(why) => self.list.push(Volume {
                    kind,
                    device: None,
                    on,
                    start: None,
                    size: volume.size,
                    name: Some(full),
                    uuid: volume.uuid,
                    part_type: None,
                    found: None,
                    note: Some(why),
                    locked: false,
                }),
            }
        }
        Ok(())
    }
}
