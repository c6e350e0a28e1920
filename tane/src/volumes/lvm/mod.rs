//! LVM2: logical volumes, from the metadata on the physical ones.
//!
//! ```text
//! text.rs group.rs   what the metadata says
//! stack.rs           a device of each part, by device mapper; linear and striped
//!   raid.rs mirror.rs thin.rs snapshot.rs cache.rs   the other kinds
//! ```

mod cache;
mod group;
mod mirror;
mod raid;
mod snapshot;
mod stack;
mod text;
mod thin;

use super::mapper::{Mapper, Target};
use super::{Made, Volume, VolumeKind, VolumeOptions, Volumes, MOST as MOST_VOLUMES};
use crate::error::Result as TaneResult;
use crate::kernel::Kernel;
use crate::sys::SysResult;
use group::{has, Group};
use stack::{Part, Stack};
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

/// The newest text of each group that these physical volumes make up, by name.
fn groups(physical: &[Physical]) -> Vec<(&str, &Value)> {
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
    groups
}

/// What others are made of, and no place for data itself.
const POOLS: [&str; 3] = ["thin-pool", "cache-pool", "vdo-pool"];

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
        for (name, text) in groups(physical) {
            if let Some(group) = Group::new(name, text, physical) {
                self.add_group(&group, &mapper, options)?;
            }
        }
        Ok(())
    }

    fn add_group(
        &mut self,
        group: &Group,
        mapper: &Mapper,
        options: &VolumeOptions,
    ) -> TaneResult<()> {
        let kernel = self.kernel.clone();
        let new_name = || super::new_name(&kernel);
        let mut stack = Stack::new(group, &kernel, mapper, self.writes, &new_name);
        let mut found = Vec::new();
        for (name, volume) in group.volumes() {
            if !has(volume, "VISIBLE") || found.len() + self.list.len() >= MOST_VOLUMES {
                continue;
            }
            let mut segments = group.segments(volume).unwrap_or_default();
            let (mut name, mut volume) = (name, volume);
            if let Some(snapshot) = segments.first().filter(|s| s.kind == "snapshot") {
                // The user knows it by its store, which is hidden.
                let Some(store) = snapshot.text.text("cow_store") else {
                    continue;
                };
                let Some(section) = group.volume(store) else {
                    continue;
                };
                (name, volume) = (store, section);
                segments = group.segments(volume).unwrap_or_default();
            }
            let is_pool = segments.first().is_some_and(|s| POOLS.contains(&s.kind));
            let pool = segments.first().and_then(|s| s.text.text("thin_pool"));
            let made = match is_pool {
                true => stack.part(name),
                false => stack.visible(name),
            };
            let read_only = options.read_only || self.is_kept(volume);
            let made = match made {
                Ok(part) if read_only && !is_pool => seal(&mut stack, part),
                made => made,
            };
            let size = segments.last().map_or(0, |s| s.start.saturating_add(s.len));
            found.push((name, volume, is_pool, pool, size.saturating_mul(512), made));
        }
        let names = std::mem::take(&mut stack.names);
        self.made.extend(names.into_iter().map(Made::Mapped));
        // What lies on another comes after it.
        found.sort_by_key(|(.., is_pool, _, _, _)| !is_pool);
        let first = self.list.len();
        for (name, volume, is_pool, pool, size, made) in found {
            let full = format!("{}/{name}", group.name);
            let is_its_pool = |v: &Volume| matches!(&v.kind, VolumeKind::Logical { name, .. } if Some(name.as_str()) == pool);
            let its_pool = self.list[first..].iter().position(is_its_pool);
            let mut volume = Volume {
                kind: VolumeKind::Logical {
                    group: group.name.to_owned(),
                    name: name.to_owned(),
                },
                device: None,
                on: its_pool.map(|at| first + at).into_iter().collect(),
                start: None,
                size,
                name: Some(full),
                uuid: volume.text("id").map(str::to_owned),
                part_type: None,
                found: None,
                note: None,
                locked: false,
                protectors: Vec::new(),
            };
            match made {
                Ok(part) => self.fill(&mut volume, part, is_pool),
                Err(why) => volume.note = Some(why),
            }
            self.list.push(volume);
        }
        Ok(())
    }

    fn fill(&self, volume: &mut Volume, part: Part, is_pool: bool) {
        if volume.on.is_empty() {
            let on = part.under.on.iter();
            volume.on = on.filter_map(|d| self.index_of(d)).collect();
        }
        volume.size = part.sectors.saturating_mul(512);
        volume.note = part.under.note;
        if is_pool {
            return;
        }
        match self.probe(&part.device, false) {
            Ok(found) => volume.found = found,
            // Others may be sound.
            Err(error) => volume.note = Some(error.to_string()),
        }
        volume.device = Some(part.device);
    }

    /// Whether LVM itself would let nothing be written to it.
    fn is_kept(&self, volume: &Value) -> bool {
        self.writes == super::Writes::Last && !has(volume, "WRITE")
    }
}

/// What is read only, though what it lies on is not.
fn seal(stack: &mut Stack, part: Part) -> group::Made<Part> {
    let target = Target {
        start: 0,
        len: part.sectors,
        kind: "linear",
        parameters: format!("{} 0", part.device.display()),
    };
    stack.device(vec![target], part.under, true)
}

/// Whether the bytes, 8 KiB of a label and then an area of metadata, describe a group of
/// which something can be told; see [`super::hostile`].
pub(super) fn fuzz(bytes: &[u8]) -> bool {
    let (head, area) = bytes.split_at(bytes.len().min(8192));
    let id = label(head).map(|(id, _)| id);
    let physical = [Physical {
        device: PathBuf::from("/dev/vda"),
        id: id.clone().unwrap_or_default(),
        text: metadata(area),
    }];
    let mut told = false;
    for (name, text) in groups(&physical) {
        let Some(group) = Group::new(name, text, &physical) else {
            continue;
        };
        for (name, volume) in group.volumes() {
            let segments = group.segments(volume).unwrap_or_default();
            told |= !segments.is_empty();
            for segment in segments {
                let _ = (segment.areas("stripes"), segment.number("stripe_count"));
            }
            let _ = (group.snapshot(name), group.stores(name));
            let _ = (group.place(name, 1), group.place("pv0", u64::MAX));
        }
    }
    told && id.is_some()
}
