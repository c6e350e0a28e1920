//! The forms of instructions that there are. What is not here does not exist.

mod general;
mod vector;

use crate::form::{Encoding, Form, Place};
use std::sync::LazyLock;

/// All forms.
pub fn forms() -> impl Iterator<Item = &'static Form> {
    let parts = [
        general::ARITHMETIC,
        general::SHIFTS,
        general::CONDITIONAL,
        general::FORMS,
        vector::MOVES,
        vector::FLOATS,
        vector::INTEGERS,
        vector::AVX,
    ];
    parts.into_iter().flatten()
}

/// Whole instructions that have fields of no meaning in them.
pub(crate) const FIXED: &[(&[u8], &str)] = &[
    // What assemblers fill gaps with. Its operand is not accessed.
    (&[0x66, 0x90], "nop"),
    (&[0x0f, 0x1f, 0x00], "nop"),
    (&[0x0f, 0x1f, 0x40, 0], "nop"),
    (&[0x0f, 0x1f, 0x44, 0, 0], "nop"),
    (&[0x66, 0x0f, 0x1f, 0x44, 0, 0], "nop"),
    (&[0x0f, 0x1f, 0x80, 0, 0, 0, 0], "nop"),
    (&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], "nop"),
    (&[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], "nop"),
    (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], "nop"),
    (&[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], "nop"),
    (&[0x0f, 0xae, 0xe8], "lfence"),
    (&[0x0f, 0xae, 0xf0], "mfence"),
    (&[0x0f, 0xae, 0xf8], "sfence"),
];

const SLOTS: usize = 2 * 4 * 4 * 256;

/// Forms by what is known of an instruction before its ModRM byte.
pub(crate) struct Index(Vec<Vec<&'static Form>>);

pub(crate) static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

fn slot(vex: bool, map: usize, prefix: usize, opcode: u8) -> usize {
    ((usize::from(vex) * 4 + map) * 4 + prefix) * 256 + usize::from(opcode)
}

impl Index {
    fn new() -> Index {
        let mut slots = vec![Vec::new(); SLOTS];
        for form in forms() {
            let (map, prefix) = (form.map as usize, form.prefix as usize);
            let registers = if form.has(&[Place::Z]) { 7 } else { 0 };
            for opcode in form.opcode..=form.opcode | registers {
                if form.encoding != Encoding::Vex {
                    slots[slot(false, map, prefix, opcode)].push(form);
                    if form.has_operand_size() {
                        slots[slot(false, map, 1, opcode)].push(form);
                    }
                }
                if form.encoding != Encoding::Legacy {
                    slots[slot(true, map, prefix, opcode)].push(form);
                }
            }
        }
        Index(slots)
    }

    /// The forms that an instruction with these can be of.
    pub(crate) fn at(&self, vex: bool, map: usize, prefix: usize, opcode: u8) -> &[&'static Form] {
        &self.0[slot(vex, map, prefix, opcode)]
    }
}
