//! Mirrors as they were before RAID: dm-mirror with a log, and what pvmove(8)
//! leaves when it is interrupted.

use super::group::{damaged, has, Made, Segment};
use super::stack::{Part, Stack, Under};
use super::text::Value;
use crate::volumes::Writes;

/// linux/drivers/md/dm-log.c: its header, and where the bits are.
const LOG: [u8; 8] = [0x72, 0x52, 0x69, 0x4d, 2, 0, 0, 0];
const BITS: u64 = 1024;

impl Stack<'_> {
    pub(super) fn mirror(
        &mut self,
        volume: &Value,
        segment: &Segment,
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let areas = segment.areas("mirrors")?;
        let lasts = self.writes == Writes::Last;
        if has(volume, "PVMOVE") {
            if lasts {
                return Err("LVM was moving it: let pvmove end or abort first".into());
            }
            // The first has all until all of it is copied.
            let moved = segment.text.number("extents_moved");
            let at = usize::from(moved == segment.text.number("extent_count"));
            let (name, extent) = areas.get(at).copied().ok_or_else(damaged)?;
            let (device, at) = self.area(name, extent, under)?;
            return Ok(("linear", format!("{} {at}", device.display())));
        }
        match lasts {
            true => self.mirror_to_write(segment, &areas, under),
            false => self.mirror_to_read(segment, &areas, under),
        }
    }

    /// As LVM makes it: what is not in sync is copied from the first.
    fn mirror_to_write(
        &mut self,
        segment: &Segment,
        areas: &[(&str, u64)],
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let region = segment.number("region_size")?;
        let mut words = match segment.text.text("mirror_log") {
            None => format!("core 1 {region}"),
            Some(log) => {
                let log = self.part(log).map_err(short)?;
                format!("disk 2 {} {region}", log.device.display())
            }
        };
        words += &format!(" {}", areas.len());
        for (name, extent) in areas {
            let (device, at) = self.area(name, *extent, under).map_err(short)?;
            words += &format!(" {} {at}", device.display());
        }
        Ok(("mirror", words + " 1 handle_errors"))
    }

    /// One that has all. The first is what the others are copied from.
    fn mirror_to_read(
        &mut self,
        segment: &Segment,
        areas: &[(&str, u64)],
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let mut problem = None;
        for (i, (name, extent)) in areas.iter().enumerate() {
            let mut own = Under::default();
            let (device, at) = match self.area(name, *extent, &mut own) {
                Ok(found) => found,
                Err(why) => {
                    problem.get_or_insert(why);
                    continue;
                }
            };
            if let (1.., Some(why)) = (i, &problem) {
                let log = segment.text.text("mirror_log");
                let log = log.and_then(|log| self.part(log).ok());
                if !log.is_some_and(|log| self.in_sync(&log)) {
                    return Err(format!("{why}, and its other half may be older"));
                }
                own.note = Some(format!("works without its first half: {why}"));
            }
            under.add(&own);
            return Ok(("linear", format!("{} {at}", device.display())));
        }
        Err(problem.unwrap_or_else(damaged))
    }

    /// Whether a log says that all halves are equal everywhere.
    fn in_sync(&self, log: &Part) -> bool {
        let read = |at, len| self.kernel.read_device(&log.device, at, len).ok();
        let regions = read(0, 16).filter(|head| head.starts_with(&LOG));
        let regions = regions.and_then(|head| head[8..16].try_into().ok());
        let regions = regions.map_or(0, u64::from_le_bytes);
        if regions == 0 || regions / 8 > log.sectors * 512 {
            return false;
        }
        let len = regions.div_ceil(8) as usize;
        let is_set = |bits: &[u8], i: u64| bits[(i / 8) as usize] >> (i % 8) & 1 == 1;
        read(BITS, len).is_some_and(|bits| {
            bits.len() == len && (0..regions).all(|region| is_set(&bits, region))
        })
    }
}

fn short(why: String) -> String {
    format!("{why}; a mirror that lacks a part is only read")
}
