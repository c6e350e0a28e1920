//! The forms of instructions that there are. What is not here does not exist.

mod general;
mod vector;

use crate::form::{Encoding, Form, Op};
use std::sync::LazyLock;

/// All forms.
pub fn forms() -> impl Iterator<Item = &'static Form> {
    let parts = [
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
pub(crate) struct Index {
    /// Where in `forms` those of a slot begin; they end where the next slot's do.
    first: Box<[u16; SLOTS + 1]>,
    forms: Vec<&'static Form>,
}

pub(crate) static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

fn slot(vex: bool, map: usize, prefix: usize, opcode: u8) -> usize {
    ((usize::from(vex) * 4 + map) * 4 + prefix) * 256 + usize::from(opcode)
}

impl Index {
    fn new() -> Index {
        let mut by_slot: Vec<(usize, &'static Form)> = Vec::new();
        for form in forms() {
            let legacy = form.encoding != Encoding::Vex;
            let vex = form.encoding != Encoding::Legacy;
            let in_opcode = form.has(&[Op::Zb, Op::Zv, Op::Zy, Op::Zq]);
            let mut last = form.opcode;
            if in_opcode {
                last |= 7;
            }
            for opcode in form.opcode..=last {
                let map = form.map as usize;
                for _ in 0..usize::from(legacy) {
                    by_slot.push((slot(false, map, form.prefix as usize, opcode), form));
                    if form.has_operand_size() {
                        by_slot.push((slot(false, map, 1, opcode), form));
                    }
                }
                if vex {
                    by_slot.push((slot(true, map, form.prefix as usize, opcode), form));
                }
            }
        }
        by_slot.sort_by_key(|(slot, _)| *slot);
        let mut first = Box::new([0; SLOTS + 1]);
        for (slot, _) in &by_slot {
            first[slot + 1] += 1;
        }
        for i in 0..SLOTS {
            first[i + 1] += first[i];
        }
        let forms = by_slot.into_iter().map(|(_, form)| form).collect();
        Index { first, forms }
    }

    /// The forms that an instruction with these can be of.
    pub(crate) fn at(&self, vex: bool, map: usize, prefix: usize, opcode: u8) -> &[&'static Form] {
        let slot = slot(vex, map, prefix, opcode);
        &self.forms[usize::from(self.first[slot])..usize::from(self.first[slot + 1])]
    }
}
