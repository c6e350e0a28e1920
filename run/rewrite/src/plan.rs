//! What is to be done to one segment: patches, and the trampolines behind it.

use crate::map::{self, Entry, Resume};
use crate::room::Room;
use crate::site::{Class, Site, JUMP, SYSCALL};
use crate::trampoline::{length_of_moved, Trampoline, BEFORE_MOVED, TO_GATE};
use std::collections::BTreeSet;
use std::fmt;

/// Where trampolines go, and where they jump to.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// From the segment's first byte to the region's, in bytes. The same wherever the
    /// segment is mapped.
    pub distance: i64,
    /// The region has at most this many bytes.
    pub room: usize,
    /// Offsets from the GS base at which the address of the gate is, for sites of class
    /// a, b and c. One gate serves them all; three tell them apart.
    pub gates: [i32; 3],
}

/// When a patch may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before anybody runs the code.
    Mapping,
    /// Once a trap at the site has proven that it is code: then also under threads that
    /// run it ([`crate::live`]).
    Proof,
}

/// Five bytes that become a jump: the `syscall` and what is behind it, or the beginning of
/// the instruction before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the segment.
    pub at: u32,
    /// Where the site's `syscall` is.
    pub site: u32,
    /// What has to be there.
    pub old: [u8; JUMP],
    /// What will be there.
    pub new: [u8; JUMP],
    /// When it may be written.
    pub when: When,
}

/// What is to be done to a segment.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By offset.
    pub patches: Vec<Patch>,
    /// The region's content. It has no address in it.
    pub trampolines: Vec<u8>,
    /// By offset in the region.
    pub entries: Vec<Entry>,
    /// By offset in the segment.
    pub resumes: Vec<Resume>,
    /// Sites for which the region had no room, by offset: they trap.
    pub without_room: Vec<u32>,
}

/// The bytes are not those that were looked at: nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The offset of the first patch that does not fit.
    pub at: u32,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the code at {:#x} is not what was analysed: analyse this version of the file",
            self.at
        )
    }
}

impl std::error::Error for Changed {}

impl Plan {
    /// For `code` with these sites, which [`crate::find`] found in it. Those of `proven`
    /// (offsets of their `syscall`) count as certain.
    pub fn new(code: &[u8], sites: &[Site], proven: &BTreeSet<u32>, layout: Layout) -> Plan {
        let mut plan = Plan::default();
        let when = |certain| match certain {
            true => When::Mapping,
            false => When::Proof,
        };
        let mut room = Room::new(layout.room.min(1 << 30));
        // First those that are particular about their place.
        for site in sites {
            let (moved, gate, certain) = match &site.class {
                Class::Error(moved) => (moved, layout.gates[1], true),
                Class::Movable(moved) => (moved, layout.gates[2], proven.contains(&site.at)),
                _ => continue,
            };
            let from = i64::from(site.at) + JUMP as i64 - layout.distance;
            let place = room.behind_a_trap(from, length_of_moved(moved));
            let it = place.map(|place| {
                let start = layout.distance + place as i64;
                Trampoline::of_moved(start, i64::from(site.at), code, moved, gate)
            });
            plan.add(code, site.at, site.at, place.zip(it), layout, when(certain));
        }
        for site in sites {
            let (length, gate, certain) = match site.class {
                Class::Number(_) => (JUMP, layout.gates[0], true),
                Class::Before(length) => {
                    let proven = proven.contains(&site.at);
                    (usize::from(length), layout.gates[2], proven)
                }
                _ => continue,
            };
            let place = room.anywhere(length + TO_GATE);
            let it = place.map(|place| {
                let start = layout.distance + place as i64;
                Trampoline::of_before(start, i64::from(site.at), code, length, gate)
            });
            let at = site.at - length as u32;
            plan.add(code, at, site.at, place.zip(it), layout, when(certain));
        }
        plan.patches.sort_unstable_by_key(|patch| patch.at);
        plan.entries.sort_unstable();
        // Where one trampoline ends and another begins, what begins counts.
        plan.entries.dedup_by(|next, entry| {
            let same = next.trampoline == entry.trampoline;
            if same && entry.original == map::NOWHERE {
                *entry = *next;
            }
            same
        });
        plan.resumes.sort_unstable();
        plan.without_room.sort_unstable();
        plan
    }

    fn add(
        &mut self,
        code: &[u8],
        at: u32,
        site: u32,
        it: Option<(usize, Trampoline)>,
        layout: Layout,
        when: When,
    ) {
        let from = i64::from(at) + JUMP as i64;
        let fits = it.filter(|(_, it)| !it.too_far).and_then(|(place, it)| {
            let distance = i32::try_from(layout.distance + place as i64 - from).ok()?;
            Some((place, it, distance))
        });
        let Some((place, it, distance)) = fits else {
            self.without_room.push(site);
            return;
        };
        let end = place + it.bytes.len();
        if self.trampolines.len() < end {
            // What no trampoline is at traps.
            self.trampolines.resize(end, 0xcc);
        }
        self.trampolines[place..end].copy_from_slice(&it.bytes);
        let mut new = [0xe9, 0, 0, 0, 0];
        new[1..].copy_from_slice(&distance.to_le_bytes());
        let mut old = [0; JUMP];
        old.copy_from_slice(&code[at as usize..][..JUMP]);
        self.patches.push(Patch {
            at,
            site,
            old,
            new,
            when,
        });
        let mut resumes = vec![(at, place)];
        if at == site {
            resumes.push((site + SYSCALL.len() as u32, place + BEFORE_MOVED));
        }
        let resume = |(original, place)| Resume {
            original,
            trampoline: place as u32,
        };
        self.resumes.extend(resumes.into_iter().map(resume));
        self.entries.extend(it.entries.iter().map(|entry| Entry {
            trampoline: entry.trampoline + place as u32,
            ..*entry
        }));
    }

    /// Writes what may be written before anybody runs the code, all of it or nothing;
    /// how many sites that were.
    pub fn apply(&self, code: &mut [u8]) -> Result<usize, Changed> {
        let now = || self.patches.iter().filter(|it| it.when == When::Mapping);
        for patch in now() {
            let place = code.get(patch.at as usize..).unwrap_or_default();
            if !place.starts_with(&patch.old) {
                return Err(Changed { at: patch.at });
            }
        }
        for patch in now() {
            code[patch.at as usize..][..JUMP].copy_from_slice(&patch.new);
        }
        Ok(now().count())
    }

    /// The patch of the site whose `syscall` is at this offset.
    pub fn patch_of(&self, site: u32) -> Option<&Patch> {
        self.patches.iter().find(|patch| patch.site == site)
    }

    /// [`map::original`] of this plan.
    pub fn original(&self, trampoline: u32) -> Option<u32> {
        map::original(&self.entries, trampoline)
    }

    /// [`map::resume`] of this plan.
    pub fn resume(&self, original: u32) -> Option<u32> {
        map::resume(&self.resumes, original)
    }
}
