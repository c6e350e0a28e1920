//! RAID volumes, by dm-raid: md, with hidden volumes for members and superblocks.

use super::group::{damaged, has, Made, Segment};
use super::stack::{Part, Stack, Under};
use super::text::Value;
use super::{le32, le64};
use crate::volumes::Writes;

const MAGIC: u32 = 0x6452_6d44;
const ALL: u64 = u64::MAX;

/// What a member says, as linux/drivers/md/dm-raid.c has it.
struct Superblock {
    events: u64,
    /// Bits of the members that failed.
    failed: u64,
    /// How far it has been made like the others; all of it if `ALL`.
    recovered: u64,
    /// How far the set has been made equal.
    synced: u64,
    /// Its layout has changed, and the superblocks know how.
    reshaped: bool,
}

impl Superblock {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if le32(bytes, 0)? != MAGIC {
            return None;
        }
        let is_long = le32(bytes, 4)? & 1 == 1;
        Some(Self {
            events: le64(bytes, 16)?,
            failed: le64(bytes, 24)?,
            recovered: le64(bytes, 32)?,
            synced: le64(bytes, 40)?,
            reshaped: is_long && (le32(bytes, 60)? & 1 == 1 || le64(bytes, 96)? != 0),
        })
    }
}

struct Leg<'a> {
    /// Its status in the group's text.
    volume: Option<&'a Value>,
    /// Superblock, if the level has one, and data.
    parts: Made<(Option<Part>, Part)>,
    superblock: Option<Superblock>,
}

impl Leg<'_> {
    fn is(&self, flag: &str) -> bool {
        self.volume.is_some_and(|volume| has(volume, flag))
    }
}

impl<'a> Stack<'a> {
    pub(super) fn raid(
        &mut self,
        segment: &Segment,
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let mut legs = self.legs(segment)?;
        let moved = ["RESHAPE_DELTA_DISKS_PLUS", "RESHAPE_DELTA_DISKS_MINUS"];
        let reshaped = segment.flags.iter().any(|f| f.starts_with("RESHAPE"))
            || segment.text.number("data_offset").is_some()
            || legs.iter().any(|leg| {
                let by_superblock = leg.superblock.as_ref().is_some_and(|s| s.reshaped);
                by_superblock || moved.iter().any(|flag| leg.is(flag))
            });
        let quiet = self.writes != Writes::Last && !reshaped;
        if quiet {
            choose(segment.kind, &mut legs)?;
        }
        // Of RAID 10 the kernel takes the layout from superblocks only.
        let bare = quiet && !segment.kind.starts_with("raid10");
        let gone: Vec<_> = legs.iter().filter_map(|l| l.parts.as_ref().err()).collect();
        if let Some(why) = gone.first() {
            if gone.len() > may_lack(segment.kind, legs.len()) {
                return Err((*why).clone());
            }
            let (gone, all) = (gone.len(), legs.len());
            under.note = Some(format!("works without {gone} of its {all} disks: {why}"));
        }
        let mut words = match bare {
            true => bare_table(segment, &legs)?,
            false => lvm_table(segment, &legs, quiet)?,
        };
        for leg in &legs {
            let Ok((metadata, data)) = &leg.parts else {
                words += " - -";
                continue;
            };
            under.add(&data.under);
            match metadata.as_ref().filter(|_| !bare) {
                Some(metadata) => words += &format!(" {}", metadata.device.display()),
                None => words += " -",
            }
            words += &format!(" {}", data.device.display());
        }
        Ok(("raid", words))
    }

    fn legs(&mut self, segment: &Segment) -> Made<Vec<Leg<'a>>> {
        let list = match segment.kind {
            "raid0" => "raid0_lvs",
            _ => "raids",
        };
        let names = segment.text.list(list).iter();
        let names = names.map(|value| match value {
            Value::Text(name) => Ok(name.as_str()),
            _ => Err(damaged()),
        });
        let names: Vec<_> = names.collect::<Made<_>>()?;
        let mut found = Vec::new();
        let mut names = names.into_iter();
        while let Some(first) = names.next() {
            let (metadata, data) = match first.contains("_rmeta_") {
                true => (Some(first), names.next().ok_or_else(damaged)?),
                false => (None, first),
            };
            let parts = self.leg(metadata, data);
            let read = |part: &Part| self.kernel.read_device(&part.device, 0, 512).ok();
            let head = parts.as_ref().ok().and_then(|(m, _)| m.as_ref());
            found.push(Leg {
                superblock: head.and_then(read).and_then(|b| Superblock::parse(&b)),
                volume: self.group.volume(data),
                parts,
            });
        }
        match found.is_empty() {
            true => Err(damaged()),
            false => Ok(found),
        }
    }

    fn leg(&mut self, metadata: Option<&str>, data: &str) -> Made<(Option<Part>, Part)> {
        let metadata = metadata.map(|name| self.part(name)).transpose()?;
        Ok((metadata, self.part(data)?))
    }
}

/// Without superblocks nothing is written that was not asked for, and no member
/// is made like another meanwhile.
fn bare_table(segment: &Segment, legs: &[Leg]) -> Made<String> {
    let kind = table_kind(segment.kind)?;
    let chunk = segment.text.number("stripe_size").unwrap_or(0);
    let copies = copies(segment);
    let count = 1 + 2 * usize::from(copies.is_some());
    let copies = copies.map(|n| format!(" raid10_copies {n}"));
    let copies = copies.unwrap_or_default();
    Ok(format!("{kind} {count} {chunk}{copies} {}", legs.len()))
}

/// With all that LVM gives it; `quiet`: no member is to be made like another.
fn lvm_table(segment: &Segment, legs: &[Leg], quiet: bool) -> Made<String> {
    let kind = table_kind(segment.kind)?;
    let chunk = segment.text.number("stripe_size").unwrap_or(0);
    let mut options = Vec::new();
    let with = |flag: &str| {
        let legs = legs.iter().enumerate();
        let with = legs.filter(|(_, leg)| leg.parts.is_ok() && leg.is(flag));
        let with = with.map(|(i, _)| i);
        with.collect::<Vec<_>>()
    };
    if kind != "raid0" {
        options.extend(with("REBUILD").iter().map(|i| format!("rebuild {i}")));
        let mut number = |name: &str, word: &str| {
            let n = segment.text.number(name).filter(|n| *n > 0);
            options.extend(n.map(|n| format!("{word} {n}")));
        };
        number("min_recovery_rate", "min_recovery_rate");
        number("max_recovery_rate", "max_recovery_rate");
        if kind == "raid1" {
            number("writebehind", "max_write_behind");
        }
        number("region_size", "region_size");
        let writemostly = with("WRITEMOSTLY");
        options.extend(writemostly.iter().map(|i| format!("write_mostly {i}")));
        options.extend(copies(segment).map(|n| format!("raid10_copies {n}")));
        let plus = with("RESHAPE_DELTA_DISKS_PLUS").len() as i64;
        let minus = with("RESHAPE_DELTA_DISKS_MINUS").len() as i64;
        if plus != minus {
            options.push(format!("delta_disks {}", plus - minus));
        }
        let offset = segment.text.number("data_offset");
        options.extend(offset.map(|n| format!("data_offset {n}")));
    }
    let count = 1 + 2 * options.len() + usize::from(quiet);
    let mut words = format!("{kind} {count} {chunk}");
    if quiet {
        words += " nosync";
    }
    for option in options {
        words += &format!(" {option}");
    }
    Ok(format!("{words} {}", legs.len()))
}

/// Leave out the members that lack something, as the kernel would.
fn choose(kind: &str, legs: &mut [Leg]) -> Made<()> {
    let known = legs.iter().filter_map(|leg| leg.superblock.as_ref());
    let Some(newest) = known.max_by_key(|s| s.events) else {
        return Ok(());
    };
    let (failed, is_synced) = (newest.failed, newest.synced == ALL);
    let mut lost = 0;
    let mut first = true;
    for (i, leg) in legs.iter_mut().enumerate() {
        let recovered = leg.superblock.as_ref().map(|s| s.recovered);
        let why = if i < 64 && failed >> i & 1 == 1 {
            Some("one of them had failed")
        } else if leg.is("REBUILD") || recovered.is_some_and(|to| to != ALL) {
            Some("one of them was not yet like the others")
        } else if kind == "raid1" && !is_synced && !first {
            Some("they were not yet made equal")
        } else {
            None
        };
        if let (Some(why), Ok(_)) = (why, &leg.parts) {
            leg.parts = Err(why.into());
        }
        match leg.parts {
            Ok(_) => first = false,
            Err(_) => lost += 1,
        }
    }
    let by_parity = ["raid4", "raid5", "raid6"]
        .iter()
        .any(|k| kind.starts_with(k));
    if by_parity && lost > 0 && !is_synced {
        return Err("a disk of the set is missing, and its parity was not yet complete".into());
    }
    Ok(())
}

/// How many members a set can do without; of RAID 10 it depends on which.
fn may_lack(kind: &str, legs: usize) -> usize {
    match kind {
        "raid1" => legs - 1,
        _ if kind.starts_with("raid10") => legs / 2,
        _ if kind.starts_with("raid4") || kind.starts_with("raid5") => 1,
        _ if kind.starts_with("raid6") => 2,
        _ => 0,
    }
}

/// Of RAID 10: how often it has each block.
fn copies(segment: &Segment) -> Option<u64> {
    let copies = segment.text.number("data_copies").filter(|n| *n > 1);
    segment
        .kind
        .starts_with("raid10")
        .then(|| copies.unwrap_or(2))
}

/// What the kernel calls it.
fn table_kind(kind: &str) -> Made<&str> {
    let known = [
        "raid0",
        "raid1",
        "raid10",
        "raid4",
        "raid5_n",
        "raid5_la",
        "raid5_ls",
        "raid5_ra",
        "raid5_rs",
        "raid6_n_6",
        "raid6_nc",
        "raid6_nr",
        "raid6_zr",
        "raid6_la_6",
        "raid6_ls_6",
        "raid6_ra_6",
        "raid6_rs_6",
    ];
    match kind {
        "raid0_meta" => Ok("raid0"),
        "raid10_near" => Ok("raid10"),
        "raid5" => Ok("raid5_ls"),
        "raid6" => Ok("raid6_zr"),
        _ if known.contains(&kind) => Ok(kind),
        _ => Err(format!("volumes of the type {kind} are not supported")),
    }
}
