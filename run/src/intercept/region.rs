//! Trampolines in a program's memory. A region begins with what tells which plan it is of,
//! so that it needs to be found in no table of processes.

use super::known::{Files, Known};
use std::sync::Arc;
use tane::programs::{ProgramCode, ProgramText, GATE};
use tane_rewrite::{Layout, Patch, Plan};

/// Bytes of a region, and what its address is a multiple of.
pub const SIZE: u64 = 1 << 20;
const HEADER: u64 = 64;
/// No trampoline is longer.
const LONGEST: usize = 128;
const MAGIC: u64 = 0x656e_696c_6f70_6d61;

/// One that is there.
pub struct Region {
    start: u64,
    /// The first address of the text that it is for.
    text: u64,
    pub number: usize,
    pub plan: Arc<Plan>,
}

impl Region {
    fn trampolines(&self) -> u64 {
        self.start + HEADER
    }

    /// The address in the text that this one in the region stands for.
    pub fn original(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.trampolines())?;
        let original = self.plan.original(u32::try_from(at).ok()?)?;
        Some(self.text + u64::from(original))
    }

    /// The address in the region where what met a trap at this one of the text goes on.
    pub fn resume(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.text)?;
        let resume = self.plan.resume(u32::try_from(at).ok()?)?;
        Some(self.trampolines() + u64::from(resume))
    }

    /// Put the trampoline there that this patch jumps to.
    pub fn write_trampoline(&self, program: &ProgramCode, patch: &Patch) -> Option<()> {
        let [_, distance @ ..] = patch.new;
        let behind = self.text + u64::from(patch.at) + patch.new.len() as u64;
        let to = behind.wrapping_add_signed(i32::from_le_bytes(distance).into());
        let start = usize::try_from(to.checked_sub(self.trampolines())?).ok()?;
        let all = &self.plan.trampolines;
        // What comes behind it belongs there, too.
        let bytes = all.get(start..all.len().min(start + LONGEST))?;
        program.write(to, bytes).ok()
    }
}

fn words(bytes: &[u8; HEADER as usize]) -> [u64; 3] {
    [0, 8, 16].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default()))
}

impl Files {
    /// The region that this address is in, if it is one.
    pub fn region_at(&self, program: &ProgramCode, address: u64) -> Option<Region> {
        let start = address & !(SIZE - 1);
        if !self.regions.contains(&start) {
            return None;
        }
        let mut header = [0; HEADER as usize];
        (program.read(start, &mut header).ok()? == header.len()).then_some(())?;
        let [magic, number, text] = words(&header);
        let number = usize::try_from(number).ok()?;
        let (_, distance, plan) = self.plans.get(number)?;
        let fits = magic == MAGIC && text.wrapping_add_signed(*distance) == start + HEADER;
        fits.then(|| Region {
            start,
            text,
            number,
            plan: plan.clone(),
        })
    }

    /// The region of this text in this program; it is made if there is none.
    pub fn region_for(
        &mut self,
        program: &ProgramCode,
        text: &ProgramText,
        known: &Known,
    ) -> Option<Region> {
        for start in places(text) {
            if let Some(region) = self.region_at(program, start) {
                if region.text == text.start && self.is_of(&region, known) {
                    return Some(region);
                }
                continue;
            }
            match program.map(start, SIZE) {
                Ok(()) => return self.make(program, text, known, start),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn make(
        &mut self,
        program: &ProgramCode,
        text: &ProgramText,
        known: &Known,
        start: u64,
    ) -> Option<Region> {
        let layout = Layout {
            distance: (start + HEADER).wrapping_sub(text.start) as i64,
            room: (SIZE - HEADER) as usize,
            gates: [GATE; 3],
        };
        let number = self.plan(known, layout);
        let mut header = [0; HEADER as usize];
        for (word, value) in [MAGIC, number as u64, text.start].into_iter().enumerate() {
            header[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        if program.write(start, &header).is_err() {
            program.unmap(start, SIZE).ok();
            return None;
        }
        self.regions.insert(start);
        self.region_at(program, start)
    }
}

/// Where a region may lie: below the text, where the heap does not grow, and at last above.
fn places(text: &ProgramText) -> impl Iterator<Item = u64> {
    const STEP: u64 = 16 << 20;
    const STEPS: u64 = 48;
    const LOWEST: u64 = SIZE;
    let (first, end) = (text.start & !(SIZE - 1), text.end.next_multiple_of(SIZE));
    let near = first.checked_sub(SIZE);
    let below = (1..STEPS).map_while(move |step| first.checked_sub(step * STEP));
    let above = (1..STEPS).map(move |step| end + step * STEP);
    near.into_iter()
        .chain(below)
        .filter(|place| *place >= LOWEST)
        .chain(above)
}
