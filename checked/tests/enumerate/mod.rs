//! Byte strings that are all forms with all prefixes, registers and ways to address.

use std::collections::BTreeSet;
use tane_checked::{forms, Encoding};

/// What follows ModRM: SIB with every special case, then displacement and immediate.
const SIBS: [u8; 12] = [
    0x00, 0x04, 0x05, 0x20, 0x24, 0x25, 0x60, 0x65, 0xa4, 0xcd, 0xe3, 0xfc,
];
const TAIL: [u8; 12] = [
    0x70, 0x05, 0x40, 0x12, 0x81, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
];

struct Strings<'a> {
    tell: &'a mut dyn FnMut(&[u8]),
}

impl Strings<'_> {
    /// `head`, then every ModRM of these, every SIB where there is one, and the tail.
    fn with_operands(&mut self, head: &[u8], modrms: impl Iterator<Item = u8>) {
        for modrm in modrms {
            let mut bytes = head.to_vec();
            bytes.push(modrm);
            let at = bytes.len();
            bytes.extend(TAIL);
            if modrm < 0xc0 && modrm & 7 == 4 {
                for sib in SIBS {
                    bytes[at] = sib;
                    (self.tell)(&bytes);
                }
            } else {
                (self.tell)(&bytes);
                // An immediate whose low half is 0, for registers that are in one.
                bytes[at] = 0x90;
                (self.tell)(&bytes);
            }
        }
    }
}

fn opcodes(encoding: Encoding) -> BTreeSet<(u8, u8)> {
    let mut all = BTreeSet::new();
    for form in forms().filter(|form| form.encoding == encoding || form.encoding == Encoding::Both)
    {
        // Those with a register in them, and what is beside.
        for opcode in form.opcode & 0xf8..=form.opcode | 7 {
            all.insert((form.map as u8, opcode));
        }
    }
    all
}

/// Calls `tell` with more than every encoding of every form; most are none.
pub fn every_encoding(mut tell: impl FnMut(&[u8])) {
    let mut strings = Strings { tell: &mut tell };
    let guards: [&[u8]; 4] = [&[], &[0x65, 0x67], &[0x67], &[0x65]];
    for (map, opcode) in opcodes(Encoding::Legacy) {
        for guard in guards {
            for prefix in [&[][..], &[0x66], &[0xf3], &[0xf2], &[0x66, 0xf3]] {
                for rex in [None].into_iter().chain((0x40..0x50).map(Some)) {
                    let mut head = [guard, prefix].concat();
                    head.extend(rex);
                    head.extend([&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]][usize::from(map)]);
                    head.push(opcode);
                    strings.with_operands(&head, 0..=255);
                }
            }
        }
    }
    for (map, opcode) in opcodes(Encoding::Vex) {
        let modrms = || (0..=255).filter(|modrm| matches!(modrm >> 3 & 7, 0..=4 | 6 | 7));
        for guard in &guards[..2] {
            for last in 0..=255_u8 {
                // vvvv, which is inverted: none or the first register, rsp, r11.
                if !matches!(!last >> 3 & 15, 0 | 4 | 11) {
                    continue;
                }
                if map == 1 {
                    strings.with_operands(&[guard, &[0xc5, last, opcode][..]].concat(), modrms());
                }
                for rxb in [0xe0, 0xc0, 0xa0, 0x60, 0x00] {
                    let head = [guard, &[0xc4, rxb | map, last, opcode][..]].concat();
                    strings.with_operands(&head, modrms());
                }
            }
        }
    }
}
