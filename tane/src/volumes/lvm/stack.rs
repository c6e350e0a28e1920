//! Devices for the volumes of a group: those that others consist of first. The
//! tables are those of LVM2's own libdevmapper.

use super::group::{damaged, Group, Made, Place, Segment};
use super::text::Value;
use crate::error::Context;
use crate::kernel::Kernel;
use crate::volumes::mapper::{Mapper, Target};
use crate::volumes::Writes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// LVM stacks half as many kinds of volumes.
const DEEPEST: u32 = 16;

/// A device inside the kernel for a volume or a hidden part of one.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub device: PathBuf,
    pub sectors: u64,
    pub under: Under,
}

/// What something lies on.
#[derive(Clone, Debug, Default)]
pub(super) struct Under {
    /// Physical volumes.
    pub on: Vec<PathBuf>,
    /// What it does without, for people.
    pub note: Option<String>,
}

impl Under {
    pub fn add(&mut self, other: &Under) {
        for device in &other.on {
            self.add_device(device);
        }
        if self.note.is_none() {
            self.note.clone_from(&other.note);
        }
    }

    fn add_device(&mut self, device: &Path) {
        if !self.on.iter().any(|d| d == device) {
            self.on.push(device.to_owned());
        }
    }
}

pub(super) struct Stack<'a> {
    pub group: &'a Group<'a>,
    pub kernel: &'a Kernel,
    pub mapper: &'a Mapper,
    pub writes: Writes,
    /// A name that no device of the mapper has.
    pub new_name: &'a dyn Fn() -> String,
    /// What the mapper has of ours, oldest first: whoever owns the stack removes it.
    pub names: Vec<String>,
    made: HashMap<String, Made<Part>>,
    /// With their snapshots, or as such.
    pub visible: HashMap<String, Made<Part>>,
    depth: u32,
}

pub(super) fn missing(name: &str) -> String {
    format!("its physical volume {name} is missing (--with)")
}

impl<'a> Stack<'a> {
    pub fn new(
        group: &'a Group<'a>,
        kernel: &'a Kernel,
        mapper: &'a Mapper,
        writes: Writes,
        new_name: &'a dyn Fn() -> String,
    ) -> Self {
        Self {
            group,
            kernel,
            mapper,
            writes,
            new_name,
            names: Vec::new(),
            made: HashMap::new(),
            visible: HashMap::new(),
            depth: 0,
        }
    }

    /// The device of what the text calls so, without its snapshots.
    pub fn part(&mut self, name: &str) -> Made<Part> {
        if let Some(known) = self.made.get(name) {
            return known.clone();
        }
        if self.depth == DEEPEST {
            return Err(damaged());
        }
        // This is what a volume that lies on itself finds.
        self.made.insert(name.to_owned(), Err(damaged()));
        self.depth += 1;
        let made = self.make(name);
        self.depth -= 1;
        self.made.insert(name.to_owned(), made.clone());
        made
    }

    fn make(&mut self, name: &str) -> Made<Part> {
        let group = self.group;
        let volume = group.volume(name).ok_or_else(damaged)?;
        let mut under = Under::default();
        let mut targets = Vec::new();
        for segment in group.segments(volume)? {
            let (kind, parameters) = self.target(volume, &segment, &mut under)?;
            targets.push(Target {
                start: segment.start,
                len: segment.len,
                kind,
                parameters,
            });
        }
        self.device(targets, under, self.writes == Writes::Refused)
    }

    pub fn device(&mut self, targets: Vec<Target>, under: Under, read_only: bool) -> Made<Part> {
        let last = targets.last().ok_or_else(damaged)?;
        let sectors = last.start.checked_add(last.len).ok_or_else(damaged)?;
        let name = (self.new_name)();
        let made = self.mapper.create(&name, &targets, read_only);
        let device = made.map_err(|errno| {
            let error = errno.on("map", Path::new(self.group.name));
            let why = self.reason().unwrap_or_else(|| error.to_string());
            format!("the kernel's device mapper refuses it: {why}")
        })?;
        self.names.push(name);
        Ok(Part {
            device,
            sectors,
            under,
        })
    }

    /// A piece of a device as one of its own.
    pub fn piece(&mut self, of: &Part, start: u64, len: u64) -> Made<Part> {
        if start.checked_add(len).is_none_or(|end| end > of.sectors) {
            return Err(damaged());
        }
        let target = Target {
            start: 0,
            len,
            kind: "linear",
            parameters: format!("{} {start}", of.device.display()),
        };
        let read_only = self.writes == Writes::Refused;
        self.device(vec![target], of.under.clone(), read_only)
    }

    /// What the kernel said last about a table.
    fn reason(&self) -> Option<String> {
        let log = self.kernel.dmesg();
        let said = |line: &'_ str| {
            let (_, said) = line.split_once("device-mapper: table: ")?;
            Some(said.to_owned())
        };
        let said = log.lines().rev().find_map(said)?;
        // The device's numbers tell nobody anything.
        let words = said.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
        Some(words.trim().to_owned())
    }

    fn target(
        &mut self,
        volume: &Value,
        segment: &Segment,
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        match segment.kind {
            "striped" | "linear" => self.striped(segment, under),
            "error" => Ok(("error", String::new())),
            "zero" => Ok(("zero", String::new())),
            "mirror" => self.mirror(volume, segment, under),
            "thin-pool" => self.thin_pool(volume, segment, under),
            "thin" => self.thin(segment, under),
            "cache" => self.cache(segment, under),
            "writecache" => self.write_cache(segment, under),
            "integrity" => self.integrity(segment, under),
            kind if kind.starts_with("raid") => self.raid(segment, under),
            kind => Err(format!("volumes of the type {kind} are not supported")),
        }
    }

    fn striped(&mut self, segment: &Segment, under: &mut Under) -> Made<(&'static str, String)> {
        let mut places = Vec::new();
        for (name, extent) in segment.areas("stripes")? {
            let (device, at) = self.area(name, extent, under)?;
            places.push(format!("{} {at}", device.display()));
        }
        match &places[..] {
            [] => Err(damaged()),
            [only] => Ok(("linear", only.clone())),
            several => {
                let stripe = segment.number("stripe_size")?;
                let (count, places) = (several.len(), several.join(" "));
                Ok(("striped", format!("{count} {stripe} {places}")))
            }
        }
    }

    /// A place on a physical volume, or on a part of this group.
    pub fn area(&mut self, name: &str, extent: u64, under: &mut Under) -> Made<(PathBuf, u64)> {
        match self.group.place(name, extent)? {
            Place::On(device, at) => {
                under.add_device(&device);
                Ok((device, at))
            }
            Place::Missing(name) => Err(missing(&name)),
            Place::Other => {
                let part = self.part(name)?;
                under.add(&part.under);
                let at = extent.checked_mul(self.group.extent).ok_or_else(damaged)?;
                Ok((part.device, at))
            }
        }
    }

    /// The part that a segment names under this word.
    pub fn named(&mut self, segment: &Segment, word: &str, under: &mut Under) -> Made<Part> {
        let part = self.part(segment.text(word)?)?;
        under.add(&part.under);
        Ok(part)
    }
}
