//! The code that a patched site jumps to.
//!
//! ```text
//! a, and before:                    b, c:    lea r11, [behind syscall]
//!       mov eax, number, or what was moved   lea rcx, [1f]
//!       lea r11, [behind syscall]            jmp *%gs:gate
//!       mov rcx, r11                      1: lea rcx, [behind syscall]
//!       jmp *%gs:gate                        what was moved
//!                                            jmp behind it
//! ```
//!
//! The gate learns by r11 where the program takes itself to be, and comes back by
//! `jmp *%rcx`, with r11 as the flags were. Nothing here writes
//! flags or memory, or needs a stack, but what was moved as it did; of registers
//! rcx, which in the end is the address behind the `syscall`, as the processor leaves it.
//! All addresses are relative, so that a region serves every mapping of the text that it
//! lies behind at the same distance.

use crate::map::{Entry, NOWHERE};
use crate::moved::{Moved, Step};
use crate::site::{JUMP, SYSCALL};

/// Bytes of a trampoline as it is built. Places of the text are offsets in its segment;
/// the trampoline's own are that too, beginning at `start`.
pub struct Trampoline {
    start: i64,
    pub bytes: Vec<u8>,
    /// By distance from its beginning.
    pub entries: Vec<Entry>,
    /// A distance did not fit.
    pub too_far: bool,
}

/// Bytes of a trampoline behind what was before the `syscall`, and before what was behind
/// it.
pub const TO_GATE: usize = 18;
pub const BEFORE_MOVED: usize = 29;

/// Bytes of one that moves these.
pub fn length_of_moved(moved: &Moved) -> usize {
    let steps = moved.iter().map(|piece| match piece.step {
        Step::Jump(Some(_), _) => JUMP + 1,
        Step::Jump(None, _) => JUMP,
        Step::Same | Step::Return => usize::from(piece.length),
    });
    let ends = moved.last().is_some_and(|piece| piece.step.ends());
    BEFORE_MOVED + steps.sum::<usize>() + if ends { 0 } else { JUMP }
}

impl Trampoline {
    fn new(start: i64) -> Trampoline {
        Trampoline {
            start,
            bytes: Vec::new(),
            entries: Vec::new(),
            too_far: false,
        }
    }

    /// For the `syscall` at `site` and the instruction of `length` bytes before it, which
    /// is moved. `code` has both.
    pub fn of_before(start: i64, site: i64, code: &[u8], length: usize, gate: i32) -> Trampoline {
        let mut it = Trampoline::new(start);
        it.stands_for(site - length as i64);
        it.push(&code[site as usize - length..site as usize]);
        it.stands_for(site);
        it.load_r11(site + SYSCALL.len() as i64);
        it.push(&[0x4c, 0x89, 0xd9]); // mov rcx, r11
        it.jump_to_gate(gate);
        it.end()
    }

    /// For the `syscall` at `site` and what is moved from behind it. `code` has both.
    pub fn of_moved(start: i64, site: i64, code: &[u8], moved: &Moved, gate: i32) -> Trampoline {
        let mut it = Trampoline::new(start);
        let behind = site + SYSCALL.len() as i64;
        it.stands_for(site);
        it.load_r11(behind);
        it.load_rcx(start + 22);
        it.jump_to_gate(gate);
        it.stands_for(behind);
        it.load_rcx(behind);
        for piece in moved {
            let from = usize::from(piece.from);
            it.stands_for(site + i64::from(piece.from));
            match piece.step {
                Step::Jump(None, to) => it.jump(&[0xe9], to),
                Step::Jump(Some(condition), to) => it.jump(&[0x0f, 0x80 | condition], to),
                Step::Same | Step::Return => {
                    it.push(&code[site as usize + from..][..usize::from(piece.length)]);
                }
            }
        }
        if let Some(last) = moved.last().filter(|piece| !piece.step.ends()) {
            let end = site + i64::from(last.from + last.length);
            it.stands_for(end);
            it.jump(&[0xe9], end);
        }
        it.end()
    }

    fn here(&self) -> i64 {
        self.start + self.bytes.len() as i64
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What comes next is the text's, at this offset there.
    fn stands_for(&mut self, original: i64) {
        self.entries.push(Entry {
            trampoline: self.bytes.len() as u32,
            original: original as u32,
        });
    }

    fn end(mut self) -> Trampoline {
        self.entries.push(Entry {
            trampoline: self.bytes.len() as u32,
            original: NOWHERE,
        });
        self
    }

    /// An opcode, and the distance to `to` from its end.
    fn jump(&mut self, opcode: &[u8], to: i64) {
        self.push(opcode);
        let distance = i32::try_from(to - (self.here() + 4));
        self.too_far |= distance.is_err();
        self.push(&distance.unwrap_or(0).to_le_bytes());
    }

    /// `lea rcx, [rip + ...]`
    fn load_rcx(&mut self, to: i64) {
        self.jump(&[0x48, 0x8d, 0x0d], to);
    }

    /// `lea r11, [rip + ...]`
    fn load_r11(&mut self, to: i64) {
        self.jump(&[0x4c, 0x8d, 0x1d], to);
    }

    /// `jmp *%gs:gate`
    fn jump_to_gate(&mut self, gate: i32) {
        self.push(&[0x65, 0xff, 0x24, 0x25]);
        self.push(&gate.to_le_bytes());
    }
}
