//! A group of volumes, as its text describes it.

use super::text::Value;
use super::Physical;
use std::collections::HashMap;
use std::path::PathBuf;

/// Why there can be no device of a volume, for people.
pub(super) type Made<T> = Result<T, String>;

pub(super) fn damaged() -> String {
    "its metadata is damaged".into()
}

pub(super) struct Group<'a> {
    pub name: &'a str,
    text: &'a Value,
    physical: &'a [Physical],
    /// In sectors.
    pub extent: u64,
    /// By the volume that holds what changed: old snapshots.
    snapshots: HashMap<&'a str, Snapshot<'a>>,
}

/// What says that a volume is the store of another's snapshot.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub origin: &'a str,
    /// In sectors.
    pub chunk: u64,
    /// What is in the store is on its way back into the origin.
    pub merging: bool,
}

/// A piece of a volume; counted in sectors.
pub(super) struct Segment<'a> {
    pub text: &'a Value,
    pub kind: &'a str,
    /// What kernels that do not know it must not touch.
    pub flags: Vec<&'a str>,
    pub start: u64,
    pub len: u64,
}

impl<'a> Segment<'a> {
    pub fn number(&self, name: &str) -> Made<u64> {
        self.text.number(name).ok_or_else(damaged)
    }

    pub fn text(&self, name: &str) -> Made<&'a str> {
        self.text.text(name).ok_or_else(damaged)
    }

    /// A list of names and the extents where each begins.
    pub fn areas(&self, list: &str) -> Made<Vec<(&'a str, u64)>> {
        let pairs = self.text.list(list).chunks_exact(2);
        let area = |pair: &'a [Value]| match pair {
            [Value::Text(name), Value::Number(at)] => {
                let at = u64::try_from(*at).map_err(|_| damaged())?;
                Ok((name.as_str(), at))
            }
            _ => Err(damaged()),
        };
        pairs.map(area).collect()
    }
}

/// What physical volumes are and where a place on one is.
pub(super) enum Place {
    /// A device, and the first sector on it.
    On(PathBuf, u64),
    /// Its disk is not here; what the text calls it.
    Missing(String),
    /// It is no physical volume.
    Other,
}

impl<'a> Group<'a> {
    pub fn new(name: &'a str, text: &'a Value, physical: &'a [Physical]) -> Option<Self> {
        let mut group = Self {
            name,
            text,
            physical,
            extent: text.number("extent_size").filter(|n| *n > 0)?,
            snapshots: HashMap::new(),
        };
        for (_, volume) in group.volumes() {
            for (_, segment) in volume.sections() {
                let merging = segment.text("merging_store");
                let store = merging.or_else(|| segment.text("cow_store"));
                let (Some(store), Some(origin)) = (store, segment.text("origin")) else {
                    continue;
                };
                let snapshot = Snapshot {
                    origin,
                    chunk: segment.number("chunk_size").unwrap_or(0),
                    merging: merging.is_some(),
                };
                group.snapshots.insert(store, snapshot);
            }
        }
        Some(group)
    }

    /// All, the hidden parts of others too, by name.
    pub fn volumes(&self) -> Vec<(&'a str, &'a Value)> {
        let volumes = self.text.get("logical_volumes");
        volumes.map(Value::sections).unwrap_or_default()
    }

    pub fn volume(&self, name: &str) -> Option<&'a Value> {
        self.text.get("logical_volumes")?.child(name)
    }

    /// What the store called so is of.
    pub fn snapshot(&self, store: &str) -> Option<Snapshot<'a>> {
        self.snapshots.get(store).copied()
    }

    /// The stores of a volume's snapshots.
    pub fn stores(&self, origin: &str) -> Vec<(&'a str, Snapshot<'a>)> {
        let of_it = |(_, s): &(&&'a str, &Snapshot<'a>)| s.origin == origin;
        let stores = self.snapshots.iter().filter(of_it);
        let mut stores: Vec<_> = stores.map(|(name, s)| (*name, *s)).collect();
        stores.sort_by_key(|(name, _)| *name);
        stores
    }

    /// In the order of their places.
    pub fn segments(&self, volume: &'a Value) -> Made<Vec<Segment<'a>>> {
        let sections = volume.sections().into_iter().map(|(_, s)| s);
        let mut segments = Vec::new();
        for text in sections.filter(|s| s.number("extent_count").is_some()) {
            let sectors = |name: &str| text.number(name).and_then(|n| n.checked_mul(self.extent));
            let start = sectors("start_extent").ok_or_else(damaged)?;
            let len = sectors("extent_count").ok_or_else(damaged)?;
            start.checked_add(len).ok_or_else(damaged)?;
            let mut words = text.text("type").ok_or_else(damaged)?.split('+');
            segments.push(Segment {
                text,
                kind: words.next().unwrap_or_default(),
                flags: words.collect(),
                start,
                len,
            });
        }
        segments.sort_by_key(|s| s.start);
        Ok(segments)
    }

    pub fn place(&self, name: &str, extent: u64) -> Made<Place> {
        let section = self.text.get("physical_volumes");
        let Some(section) = section.and_then(|p| p.child(name)) else {
            return Ok(Place::Other);
        };
        let id = section.text("id").ok_or_else(damaged)?.replace('-', "");
        let Some(found) = self.physical.iter().find(|p| p.id == id) else {
            let name = section.text("device").unwrap_or(name);
            return Ok(Place::Missing(name.to_owned()));
        };
        let first = section.number("pe_start").ok_or_else(damaged)?;
        let at = extent.checked_mul(self.extent);
        let at = at.and_then(|n| n.checked_add(first)).ok_or_else(damaged)?;
        Ok(Place::On(found.device.clone(), at))
    }
}

/// Whether a volume's or physical volume's status has this flag.
pub(super) fn has(section: &Value, flag: &str) -> bool {
    let is_it = |v: &Value| matches!(v, Value::Text(text) if text == flag);
    let mut flags = section.list("status").iter();
    flags.any(is_it) || section.list("flags").iter().any(is_it)
}
