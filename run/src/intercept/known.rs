//! The code of files, each version looked at once, and what is to be done to it.

use super::region::Region;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tane::programs::{ProgramCode, ProgramText};
use tane_rewrite::{find, Class, Elf, Layout, Plan, Site};

/// A version of a part of a file.
type Key = (u64, u64, u64, u64);

fn key(text: &ProgramText) -> Key {
    (text.device, text.inode, text.changed, text.offset)
}

/// A part of a file, with code.
pub struct Known {
    key: Key,
    code: Vec<u8>,
    sites: Vec<Site>,
}

impl Known {
    /// Whether the `syscall` at this offset is a site that can be changed.
    pub fn has(&self, at: u32) -> bool {
        let found = self.sites.binary_search_by_key(&at, |site| site.at);
        found.is_ok_and(|found| !matches!(self.sites[found].class, Class::Stays(_)))
    }

    fn of(program: &ProgramCode, text: &ProgramText) -> Option<Self> {
        let mut code = vec![0; usize::try_from(text.end - text.start).ok()?];
        let length = program.read(text.start, &mut code).ok()?;
        code.truncate(length);
        let functions = functions(program, text, code.len()).unwrap_or_default();
        Some(Self {
            key: key(text),
            sites: find(&code, 0, &functions),
            code,
        })
    }

    /// What is to be done where trampolines lie at this distance.
    pub fn plan(&self, layout: Layout) -> Plan {
        Plan::new(&self.code, &self.sites, &Default::default(), layout)
    }
}

/// Where functions begin, from the code's first byte, if the file's beginning is mapped
/// where linkers have it: before its code, at the same distances as in the file.
fn functions(program: &ProgramCode, text: &ProgramText, length: usize) -> Option<Vec<u64>> {
    /// Tables of unwinding lie behind the code, and are smaller.
    const BEHIND: usize = 2;
    let start = text.start.checked_sub(text.offset)?;
    // Programs map files as they please; what linkers make begins near its file's beginning.
    (text.offset <= LARGEST).then_some(())?;
    let most = usize::try_from(text.offset).ok()? + length * BEHIND;
    let mut file = vec![0; most];
    let read = program.read(start, &mut file).ok()?;
    let elf = Elf::parse(&file[..read]).ok()?;
    let same = |offset: usize| offset as u64 & !0xfff == text.offset;
    let own = elf.segments.iter().find(|it| same(it.offset))?;
    let base = own.address - (own.offset as u64 - text.offset);
    let distances = elf.functions.iter().map(|at| at.wrapping_sub(base));
    Some(distances.collect())
}

/// Of more code than this none is looked at: a copy of it is kept.
const LARGEST: u64 = 128 << 20;

/// All that is known of files, and of where their trampolines lie.
#[derive(Default)]
pub struct Files {
    known: HashMap<Key, Arc<Known>>,
    /// Traps in what is not known yet.
    traps: HashMap<Key, u32>,
    /// What regions say of themselves leads here.
    pub(super) plans: Vec<(Key, i64, Arc<Plan>)>,
    /// Where regions were made, in whichever program.
    pub(super) regions: HashSet<u64>,
}

impl Files {
    /// What is known of this text, which has seen `more` traps; `None` until there were
    /// `enough` for each MiB, and of what is too large.
    pub fn worth(
        &mut self,
        program: &ProgramCode,
        text: &ProgramText,
        more: u32,
        enough: u32,
    ) -> Option<Arc<Known>> {
        let key = key(text);
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let size = text.end - text.start;
        let traps = self.traps.entry(key).or_default();
        *traps = traps.saturating_add(more);
        if size > LARGEST || u64::from(*traps) < u64::from(enough) * size.div_ceil(1 << 20) {
            return None;
        }
        self.traps.remove(&key);
        let known = Arc::new(Known::of(program, text)?);
        self.known.insert(key, known.clone());
        Some(known)
    }

    /// The number of the plan for trampolines at this distance.
    pub(super) fn plan(&mut self, known: &Known, layout: Layout) -> usize {
        let same =
            |(key, distance, _): &(Key, i64, _)| (*key, *distance) == (known.key, layout.distance);
        self.plans.iter().position(same).unwrap_or_else(|| {
            let plan = Arc::new(known.plan(layout));
            self.plans.push((known.key, layout.distance, plan));
            self.plans.len() - 1
        })
    }

    /// Whether a region's plan is one of this file.
    pub(super) fn is_of(&self, region: &Region, known: &Known) -> bool {
        let plan = self.plans.get(region.number);
        plan.is_some_and(|(key, ..)| *key == known.key)
    }
}
