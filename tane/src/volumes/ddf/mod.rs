//! DDF: the metadata of RAID controllers, at the end of each disk, which mdadm has too.
//! It is read here; device mapper puts volumes together, for reading only.
//!
//! ```text
//! member.rs  what a disk says
//! plan.rs    which parts of which disks a volume consists of, and how
//! ```

mod member;
mod plan;

use super::mapper::{Mapper, Target};
use super::{Made, VolumeKind, Volumes, Writes};
use crate::error::{Context, Result};
use crate::kernel::Kernel;
use crate::probe::FileSystem;
use crate::sys::SysResult;
pub(super) use member::{last, Member, MARK};
use plan::{Extent, Plan, Shape};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the mark at the end of a disk says. Of a disk with partitions, which a controller may
/// have had once, it takes metadata that give the disk a part of a volume.
pub(super) fn at_end(
    kernel: &Kernel,
    device: &Path,
    has_partitions: bool,
) -> SysResult<Option<FileSystem>> {
    let mut found = member::is_member(kernel, device)?;
    if found && has_partitions {
        found = Member::read(kernel, device)?.is_some_and(|member| !member.is_spare());
    }
    Ok(found.then(|| FileSystem {
        fstype: "ddf_raid_member".into(),
        also: Vec::new(),
        uuid: None,
        label: None,
    }))
}

impl Volumes {
    pub(super) fn add_ddf(&mut self, members: &[Member]) -> Result<()> {
        let mut volumes: BTreeMap<[u8; 24], Vec<&Member>> = BTreeMap::new();
        for member in members {
            for record in &member.records {
                let of_it = volumes.entry(record.volume).or_default();
                if of_it.iter().all(|m| m.device != member.device) {
                    of_it.push(member);
                }
            }
        }
        for (volume, of_it) in volumes {
            let mut on: Vec<_> = of_it
                .iter()
                .filter_map(|m| self.index_of(&m.device))
                .collect();
            on.sort_unstable();
            let names = of_it.iter().flat_map(|m| &m.names);
            let mut name = names.filter(|(id, _)| *id == volume).map(|(_, name)| name);
            let name = name.rfind(|name| !name.is_empty()).cloned();
            let made = Plan::of(&volume, members).and_then(|plan| {
                // Of this level the kernel does not take that its disks are equal.
                if self.writes == Writes::Last && plan.is_made_equal() {
                    return Err("is of level 6, which is not put together for writing".into());
                }
                let made = self.assemble(&plan);
                made.map(|node| (node, plan)).map_err(|e| e.to_string())
            });
            match made {
                Ok((node, plan)) => {
                    let size = plan.len().saturating_mul(512);
                    let id = Some(id_of(&volume));
                    self.push(VolumeKind::Raid, node, on, size, name, id)?;
                    if let Some(made) = self.list.last_mut() {
                        made.note = plan.note();
                    }
                }
                Err(why) => {
                    let what = name.as_deref().unwrap_or("a volume without a name");
                    for index in on {
                        let note = &mut self.list[index].note;
                        let before = note.take().map(|note| note + "; ").unwrap_or_default();
                        *note = Some(format!("{before}{what}, of a DDF group, {why}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Its node. Nothing is written to any disk, nor made equal.
    fn assemble(&mut self, plan: &Plan) -> Result<PathBuf> {
        let mapper = self.mapper()?;
        let len = plan.len();
        let (kind, parameters) = match &plan.shape {
            Shape::Copy(extent) => ("linear", place(extent)),
            Shape::Striped { chunk, extents } => {
                let places: Vec<_> = extents.iter().map(place).collect();
                let words = format!("{} {chunk} {}", extents.len(), places.join(" "));
                ("striped", words)
            }
            Shape::Parity {
                kind,
                chunk,
                extents,
            } => {
                let options = match plan.is_made_equal() {
                    true => format!("1 {chunk}"),
                    false => format!("2 {chunk} nosync"),
                };
                let mut words = format!("{kind} {options} {}", extents.len());
                for extent in extents {
                    words += &match extent {
                        Some(extent) => format!(" - {}", self.part(&mapper, extent, plan.each)?),
                        None => " - -".into(),
                    };
                }
                ("raid", words)
            }
        };
        self.map(&mapper, len, kind, parameters)
    }

    /// A device that is one extent, where the kernel takes no places on devices.
    fn part(&mut self, mapper: &Mapper, extent: &Extent, len: u64) -> Result<String> {
        let node = self.map(mapper, len, "linear", place(extent))?;
        Ok(node.display().to_string())
    }

    fn map(
        &mut self,
        mapper: &Mapper,
        len: u64,
        kind: &'static str,
        parameters: String,
    ) -> Result<PathBuf> {
        let name = self.new_name();
        let target = Target {
            start: 0,
            len,
            kind,
            parameters,
        };
        let node = mapper.create(&name, &[target], true);
        let node = node.map_err(|errno| errno.on("assemble", Path::new("a DDF volume")))?;
        self.made.push(Made::Mapped(name));
        Ok(node)
    }
}

/// As device mapper takes it.
fn place(extent: &Extent) -> String {
    format!("{} {}", extent.device.display(), extent.start)
}

/// As mdadm writes it.
fn id_of(volume: &[u8; 24]) -> String {
    let words = volume.chunks_exact(4);
    let words = words.map(|w| {
        w.iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>()
    });
    words.collect::<Vec<_>>().join(":")
}

/// Whether the bytes are a disk that says how a volume is put together; see
/// [`super::hostile`].
pub(super) fn fuzz(bytes: &[u8]) -> bool {
    let read = |at: u64, len: usize| {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..))?;
        rest.get(..len).map(<[u8]>::to_vec)
    };
    let anchor = read(last(bytes.len() as u64), 512).unwrap_or_default();
    let Some(member) = Member::of_anchor(Path::new("/dev/vda"), &anchor, read) else {
        return false;
    };
    let members = std::slice::from_ref(&member);
    let plans = member.records.iter();
    let plans = plans.map(|record| Plan::of(&record.volume, members));
    // Each is made, also after one that makes sense.
    let lens: Vec<_> = plans.flatten().map(|plan| plan.len()).collect();
    lens.iter().any(|len| *len > 0)
}
