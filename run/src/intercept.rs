//! Has the system calls of programs jump to the kernel's gate, once they have shown that
//! they are made often.
//!
//! A call that nobody has looked at is a signal of the host's, some 2 µs. To look at a
//! file's code takes milliseconds, and to change a place in it some microseconds and a page
//! of the program's own: so each waits until about as much was lost without it.
//!
//! ```text
//! known.rs    the code of a file, and what is to be done to it
//! region.rs   where trampolines lie in a program, which says itself whose they are
//! ```
//!
//! Nothing here is kept for each process: a fork has its parent's code and trampolines, and
//! execve(2) takes both away.

mod known;
mod region;

use known::{Files, Known};
use region::{Region, SIZE};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tane::programs::{Interception, ProgramCode, ProgramText};
use tane_rewrite::live;
use tane_rewrite::{Patch, SYSCALL};

/// As many traps of one place are worth a change of it.
const WORTH_A_PATCH: u32 = 8;
/// As many in one file's code are worth looking at it, for each MiB that it has.
const WORTH_A_LOOK: u32 = 1024;
/// Places are forgotten beyond this: code that is made at run time comes and goes.
const MOST_PLACES: usize = 1 << 16;

/// What [`tane::Kernel::intercept`] takes.
pub struct Intercept {
    state: Mutex<State>,
    worth_a_patch: u32,
    worth_a_look: u32,
}

impl Default for Intercept {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            worth_a_patch: WORTH_A_PATCH,
            worth_a_look: WORTH_A_LOOK,
        }
    }
}

#[derive(Default)]
struct State {
    files: Files,
    /// By the address of the `syscall`; of different programs, which does no harm.
    traps: HashMap<u64, Traps>,
    /// Whether the host lets every thread fetch its instructions anew.
    can_sync: Option<bool>,
}

/// Those at one of them.
struct Traps {
    count: u32,
    /// When to do something about it.
    next: u32,
}

impl Intercept {
    /// One that changes each place at its first trap: for tests of what becomes of it.
    #[doc(hidden)]
    pub fn at_once() -> Self {
        Self {
            worth_a_patch: 1,
            worth_a_look: 1,
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interception for Intercept {
    fn trapped(&self, program: &ProgramCode, behind: u64) {
        let mut state = self.lock();
        let site = behind - SYSCALL.len() as u64;
        if state.traps.len() > MOST_PLACES {
            state.traps.clear();
        }
        let traps = state.traps.entry(site).or_insert(Traps {
            count: 0,
            next: self.worth_a_patch,
        });
        traps.count += 1;
        if traps.count < traps.next {
            return;
        }
        let count = traps.count;
        let done = state.patch(program, site, self.worth_a_patch, self.worth_a_look);
        if let Some(traps) = state.traps.get_mut(&site) {
            traps.next = match done {
                Done::Patched => 0,
                Done::NotYet => count.saturating_add(self.worth_a_patch),
                // Perhaps another program is there by then.
                Done::Never => count.saturating_mul(4),
            };
            if traps.next == 0 {
                state.traps.remove(&site);
            }
        }
    }

    fn original(&self, program: &ProgramCode, address: u64) -> Option<u64> {
        let state = self.lock();
        let region = state.files.region_at(program, address)?;
        region.original(address)
    }

    fn resume(&self, program: &ProgramCode, address: u64) -> Option<u64> {
        let state = self.lock();
        // Patched meanwhile, by the one who held the lock.
        if let Some(region) = state.region_of_jump(program, address) {
            return region.resume(address).map(|_| address);
        }
        let site = address - SYSCALL.len() as u64;
        state.region_of_jump(program, site)?.resume(address)
    }
}

/// What became of a place that traps.
enum Done {
    Patched,
    NotYet,
    Never,
}

impl State {
    fn patch(&mut self, program: &ProgramCode, site: u64, more: u32, enough: u32) -> Done {
        let Ok(text) = program.text(site) else {
            return Done::Never;
        };
        let Some(known) = self.files.worth(program, &text, more, enough) else {
            return Done::NotYet;
        };
        if !*self
            .can_sync
            .get_or_insert_with(|| live::register_sync_core().is_ok())
        {
            return Done::Never;
        }
        match self.write(program, &text, &known, site) {
            Some(()) => Done::Patched,
            None => Done::Never,
        }
    }

    fn write(
        &mut self,
        program: &ProgramCode,
        text: &ProgramText,
        known: &Arc<Known>,
        site: u64,
    ) -> Option<()> {
        let at = u32::try_from(site - text.start).ok()?;
        known.has(at).then_some(())?;
        let region = self.files.region_for(program, text, known)?;
        let patch = region.plan.patch_of(at)?;
        region.write_trampoline(program, patch)?;
        change(program, text.start, patch)
    }

    /// The region that the jump at this address leads to.
    fn region_of_jump(&self, program: &ProgramCode, address: u64) -> Option<Region> {
        let mut code = [0; 5];
        (program.read(address, &mut code).ok()? == code.len()).then_some(())?;
        let [0xe9, distance @ ..] = code else {
            return None;
        };
        let distance = i64::from(i32::from_le_bytes(distance));
        let to = (address + code.len() as u64).wrapping_add_signed(distance);
        self.files.region_at(program, to)
    }
}

/// Write a patch that a trap has proven, under threads that run the code: see
/// [`tane_rewrite::live`].
fn change(program: &ProgramCode, text: u64, patch: &Patch) -> Option<()> {
    let at = text + u64::from(patch.at);
    let mut now = [0; 5];
    (program.read(at, &mut now).ok()? == now.len()).then_some(())?;
    if now == patch.new {
        return Some(());
    }
    (now == patch.old).then_some(())?;
    let sync = || live::sync_core().ok();
    if at % 8 + now.len() as u64 <= 8 {
        program.write(at, &patch.new).ok()?;
        return sync();
    }
    for group in live::steps(patch) {
        for (behind, byte) in group {
            program.write(at + behind as u64, &[byte]).ok()?;
        }
        sync()?;
    }
    Some(())
}

/// Both must fit, or a jump would reach no trampoline.
const _: () = assert!(SIZE <= 1 << 30);
