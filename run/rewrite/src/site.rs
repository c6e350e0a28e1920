//! Where code makes system calls, and what can be done about each.

use crate::moved::{before, follow, Moved, WhyNot};
use crate::sweep::Sweep;

/// `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `cmp rax, -4095` (then `jae`) and `cmp rax, -4096` (then `ja`): what C libraries ask
/// next.
const IS_ERROR: [[u8; 6]; 2] = [
    [0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
    [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff],
];
/// `mov eax, imm32`
const LOAD: u8 = 0xb8;
/// Bytes of a near jump.
pub const JUMP: usize = 5;
/// No system call of Linux has such a number; a constant of data rather has.
const NUMBERS: u32 = 1024;

/// What can be done about a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// a: `mov eax, number; syscall`. Only the `mov` becomes a jump.
    Number(u32),
    /// b: `syscall; cmp rax, -4095`. Five of the eight bytes become a jump.
    Error(Moved),
    /// c: what follows can be moved, once a trap has proven that this is code.
    Movable(Moved),
    /// c, too: the instruction before it, of this many bytes, can be moved, once a trap
    /// has proven that this is code. The `syscall` stays for who jumps to it.
    Before(u8),
    /// It stays, and every call of it traps.
    Stays(WhyNot),
}

/// A `syscall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where it is in the segment, in bytes.
    pub at: u32,
    /// What can be done about it.
    pub class: Class,
}

/// How many sites of each class there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub all: usize,
    /// Of class a.
    pub number: usize,
    /// Of class b.
    pub error: usize,
    /// Of class c.
    pub movable: usize,
    /// Of no class.
    pub stays: usize,
}

impl Counts {
    /// Counts `sites`.
    pub fn of(sites: &[Site]) -> Counts {
        let mut counts = Counts::default();
        for site in sites {
            counts.all += 1;
            *match site.class {
                Class::Number(_) => &mut counts.number,
                Class::Error(_) => &mut counts.error,
                Class::Movable(_) | Class::Before(_) => &mut counts.movable,
                Class::Stays(_) => &mut counts.stays,
            } += 1;
        }
        counts
    }
}

/// All sites of a segment, in order. `code` is at most 1 GiB long and linked to
/// `address`; `functions` are the sorted addresses at which functions begin, as far as
/// they are known.
pub fn find(code: &[u8], address: u64, functions: &[u64]) -> Vec<Site> {
    // The pass costs some milliseconds for each MiB; most programs have no site.
    let mut candidates =
        (0..code.len().saturating_sub(1)).filter(|at| code[*at..].starts_with(&SYSCALL));
    let Some(first) = candidates.next() else {
        return Vec::new();
    };
    let sweep = Sweep::new(code, address, functions);
    let candidates = std::iter::once(first).chain(candidates);
    let sites = candidates.filter(|at| sweep.begins(*at));
    let site = |at| Site {
        at: at as u32,
        class: class(code, at, &sweep),
    };
    let mut sites: Vec<Site> = sites.map(site).collect();
    for i in 1..sites.len() {
        if sites[i - 1].end() > sites[i].start() {
            let gives_way = match sites[i].class {
                Class::Before(_) => i,
                _ => i - 1,
            };
            sites[gives_way].class = Class::Stays(WhyNot::Neighbour);
        }
    }
    sites
}

impl Site {
    /// Where what is looked at or changed begins.
    fn start(&self) -> usize {
        let before = match self.class {
            Class::Number(_) => JUMP,
            Class::Before(length) => usize::from(length),
            _ => 0,
        };
        self.at as usize - before
    }

    /// Where it ends.
    fn end(&self) -> usize {
        let length = match &self.class {
            Class::Number(_) | Class::Before(_) | Class::Stays(_) => SYSCALL.len(),
            Class::Error(moved) | Class::Movable(moved) => {
                let last = moved.last().map_or(0, |piece| piece.from + piece.length);
                JUMP.max(usize::from(last))
            }
        };
        self.at as usize + length
    }
}

fn class(code: &[u8], at: usize, sweep: &Sweep) -> Class {
    if let Some(number) = number(code, at, sweep) {
        return Class::Number(number);
    }
    let behind = &code[at + SYSCALL.len()..];
    let asks = IS_ERROR.iter().any(|it| behind.starts_with(it));
    match follow(code, at, sweep) {
        Ok(moved) if asks => Class::Error(moved),
        Ok(moved) => Class::Movable(moved),
        Err(why) => before(code, at, sweep).map_or(Class::Stays(why), Class::Before),
    }
}

fn number(code: &[u8], at: usize, sweep: &Sweep) -> Option<u32> {
    let start = at.checked_sub(JUMP)?;
    let [LOAD, rest @ ..] = code.get(start..at)? else {
        return None;
    };
    let number = u32::from_le_bytes(rest.try_into().ok()?);
    let alone = sweep.begins(start) && !sweep.leads_into(start + 1, at);
    (number < NUMBERS && alone).then_some(number)
}
