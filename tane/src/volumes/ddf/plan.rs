//! Which parts of which disks a volume consists of, and how.

use super::member::{Member, Record};
use std::path::PathBuf;

/// States of a disk.
const ONLINE: u16 = 1;
const FAILED: u16 = 1 << 1;
const REBUILDING: u16 = 1 << 2;
const MISSING: u16 = 1 << 6;

pub(super) struct Extent {
    pub device: PathBuf,
    /// In sectors.
    pub start: u64,
}

pub(super) enum Shape {
    /// All of it is on each of several.
    Copy(Extent),
    Striped {
        chunk: u64,
        extents: Vec<Extent>,
    },
    Parity {
        /// As dm-raid writes it.
        kind: &'static str,
        chunk: u64,
        extents: Vec<Option<Extent>>,
    },
}

pub(super) struct Plan {
    pub shape: Shape,
    /// What the volume has of each disk, in sectors.
    pub each: u64,
    lacks: usize,
    of: usize,
}

impl Plan {
    /// By all that disks say; else why not.
    pub fn of(volume: &[u8; 24], members: &[Member]) -> Result<Self, String> {
        let disks = Disks::new(volume, members);
        let records = members.iter().flat_map(|member| &member.records);
        let records: Vec<_> = records.filter(|record| record.volume == *volume).collect();
        let newest = |part: u8| {
            let of_part = records.iter().filter(|record| record.part == part);
            of_part.max_by_key(|record| record.changes).copied()
        };
        let first = *records.first().ok_or("is not described")?;
        if first.parts > 1 {
            let parts: Vec<_> = (0..first.parts).map(newest).collect();
            let parts: Option<Vec<_>> = parts.into_iter().collect();
            let parts = parts.ok_or("lacks disks: are images missing (--with)?")?;
            return Self::of_mirrors(&parts, &disks);
        }
        let record = records.iter().max_by_key(|record| record.changes);
        let record = *record.ok_or("is not described")?;
        let extents: Vec<_> = record.extents.iter().map(|e| disks.extent(*e)).collect();
        let (of, there) = (extents.len(), extents.iter().flatten().count());
        let lacks = of - there;
        let may_lack = match record.level {
            1 => of.saturating_sub(1),
            5 => 1,
            6 => 2,
            _ => 0,
        };
        if of == 0 || lacks > may_lack {
            let text = format!("lacks {lacks} of its {of} disks: are images missing (--with)?");
            return Err(text);
        }
        let chunk = || record.chunk.ok_or("has no size of its chunks");
        let parity = |kind| -> Result<Shape, String> {
            Ok(Shape::Parity {
                kind,
                chunk: chunk()?,
                extents: Vec::new(),
            })
        };
        let mut shape = match (record.level, record.qualifier) {
            (0, 0) => Shape::Striped {
                chunk: chunk()?,
                extents: Vec::new(),
            },
            (5, 0) => parity("raid5_ra")?,
            (5, 2) => parity("raid5_la")?,
            (5, 3) => parity("raid5_ls")?,
            (6, 1) => parity("raid6_zr")?,
            (6, 2) => parity("raid6_nr")?,
            (6, 3) => parity("raid6_nc")?,
            (1, _) => {
                let copy = extents.into_iter().flatten().next();
                return Self::new(
                    Shape::Copy(copy.ok_or("lacks its disks")?),
                    record,
                    lacks,
                    of,
                );
            }
            _ => return Err(unknown(record)),
        };
        match &mut shape {
            Shape::Parity { extents: to, .. } => *to = extents,
            Shape::Striped { extents: to, .. } => *to = extents.into_iter().flatten().collect(),
            Shape::Copy(_) => {}
        }
        Self::new(shape, record, lacks, of)
    }

    /// Stripes over mirrors, each of which is a part: of each the first disk that is good.
    fn of_mirrors(parts: &[&Record], disks: &Disks) -> Result<Self, String> {
        let first = parts[0];
        let is_like = |part: &&Record| {
            let (a, b) = (part, first);
            (a.level, a.chunk, a.len) == (1, b.chunk, b.len)
        };
        // "Spanned" is striped, too, with parts that may differ in length.
        if !matches!(first.second_level, 0 | 3) || !parts.iter().all(is_like) {
            return Err(unknown(first));
        }
        let mut extents = Vec::new();
        let (mut lacks, mut of) = (0, 0);
        for part in parts {
            let there: Vec<_> = part.extents.iter().map(|e| disks.extent(*e)).collect();
            lacks += there.iter().filter(|extent| extent.is_none()).count();
            of += there.len();
            let copy = there.into_iter().flatten().next();
            let missing = "lacks both disks of a mirror: are images missing (--with)?";
            extents.push(copy.ok_or(missing)?);
        }
        let chunk = first.chunk.ok_or("has no size of its chunks")?;
        Self::new(Shape::Striped { chunk, extents }, first, lacks, of)
    }

    fn new(shape: Shape, record: &Record, lacks: usize, of: usize) -> Result<Self, String> {
        // Chunks are whole.
        let each = match shape {
            Shape::Copy(_) => record.len,
            Shape::Striped { chunk, .. } | Shape::Parity { chunk, .. } => {
                record.len / chunk * chunk
            }
        };
        let plan = Self {
            shape,
            each,
            lacks,
            of,
        };
        match plan
            .count()
            .checked_mul(each)
            .filter(|len| (1..1 << 54).contains(len))
        {
            Some(_) => Ok(plan),
            None => Err("makes no sense".into()),
        }
    }

    /// As many disks' room is its own.
    fn count(&self) -> u64 {
        match &self.shape {
            Shape::Copy(_) => 1,
            Shape::Striped { extents, .. } => extents.len() as u64,
            Shape::Parity { kind, extents, .. } => {
                let parity = if kind.starts_with("raid6") { 2 } else { 1 };
                (extents.len() as u64).saturating_sub(parity)
            }
        }
    }

    /// Whether the kernel would make its disks equal, where it can write to them.
    pub fn is_made_equal(&self) -> bool {
        matches!(self.shape, Shape::Parity { kind, .. } if kind.starts_with("raid6"))
    }

    /// In sectors.
    pub fn len(&self) -> u64 {
        self.count() * self.each
    }

    pub fn note(&self) -> Option<String> {
        let (lacks, of) = (self.lacks, self.of);
        (lacks > 0).then(|| format!("works without {lacks} of its {of} disks"))
    }
}

fn unknown(record: &Record) -> String {
    let (level, qualifier) = (record.level, record.qualifier);
    let name = match level {
        0x0f => "a disk alone (JBOD)".into(),
        0x1f => "disks one after the other".into(),
        0x11 => "RAID 1E".into(),
        0x15 => "RAID 5E".into(),
        0x25 => "RAID 5EE".into(),
        1 if record.parts > 1 => "RAID 1, several together".into(),
        0..=6 => format!("RAID {level} in the order {qualifier}"),
        _ => format!("of the level {level:#04x}"),
    };
    format!("is {name}, which is not read here")
}

/// The disks that are there and good, by what the newest says.
struct Disks<'a> {
    there: Vec<&'a Member>,
}

impl<'a> Disks<'a> {
    fn new(volume: &[u8; 24], members: &'a [Member]) -> Self {
        let has = |member: &&Member| member.records.iter().any(|r| r.volume == *volume);
        let newest = members
            .iter()
            .filter(has)
            .max_by_key(|member| member.changes);
        let states = newest.map_or(&[][..], |member| &member.disks);
        let is_good = |member: &&Member| {
            let state = states.iter().find(|(id, _)| *id == member.id);
            let state = state.map_or(0, |(_, state)| *state);
            state & ONLINE != 0 && state & (FAILED | REBUILDING | MISSING) == 0
        };
        Self {
            there: members.iter().filter(is_good).collect(),
        }
    }

    fn extent(&self, (id, start): (u32, u64)) -> Option<Extent> {
        let member = self.there.iter().find(|member| member.id == id)?;
        Some(Extent {
            device: member.device.clone(),
            start,
        })
    }
}
