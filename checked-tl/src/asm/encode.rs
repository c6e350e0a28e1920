//! One instruction, by the checker's tables: of the forms that fit, the shortest.

use super::{Arg, Mem};
use std::collections::HashMap;
use std::sync::LazyLock;
use tane_checked::{forms, Encoding, Form, Map, Op, Place, Prefix, Size};

static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Form>>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Vec<&'static Form>> = HashMap::new();
    for form in forms().filter(|form| form.encoding != Encoding::Vex) {
        all.entry(form.name).or_default().push(form);
    }
    all
});

/// The name as the tables have it.
pub fn known(name: &str) -> Option<&'static str> {
    BY_NAME.get_key_value(name).map(|(name, _)| *name)
}

/// The bytes of an instruction; none if no form fits. The number of a text is left to be
/// put in: its last 4 bytes.
pub fn encode(name: &str, args: &[Arg]) -> Option<Vec<u8>> {
    let fitting = BY_NAME.get(name)?.iter().filter_map(|form| one(form, args));
    fitting.min_by_key(Vec::len)
}

#[derive(Default)]
struct Parts {
    reg: u8,
    rm: Option<Arg>,
    /// A register in the opcode.
    low: Option<u8>,
    immediate: Vec<u8>,
    /// Of operands that have the operand's size.
    size: Option<u8>,
    needs_rex: bool,
}

impl Parts {
    fn sized(&mut self, size: u8) -> Option<()> {
        let same = self.size.is_none_or(|known| known == size) && matches!(size, 2 | 4 | 8);
        self.size = Some(size);
        same.then_some(())
    }

    /// A number behind the rest.
    fn immediate(&mut self, form: &Form, op: Op, value: i64) -> Option<()> {
        let bytes = match (op.size, self.size) {
            (Size::B, _) => 1,
            (Size::V, Some(8)) => 8,
            (_, Some(2)) => 2,
            _ => 4,
        };
        self.immediate = value.to_le_bytes()[..bytes].to_vec();
        // Without a sign, too, where all of what it is for is as long.
        let unsigned = match op.size {
            Size::B => form.operands[0].size == Size::B && (0..256).contains(&value),
            _ => self.size == Some(4) && u32::try_from(value).is_ok(),
        };
        (fits(value, bytes) || unsigned).then_some(())
    }
}

fn fits(value: i64, bytes: usize) -> bool {
    let unused = 64 - 8 * bytes as u32;
    value << unused >> unused == value
}

fn one(form: &Form, args: &[Arg]) -> Option<Vec<u8>> {
    if form.operands.len() != args.len() {
        return None;
    }
    let mut it = Parts::default();
    for (op, arg) in form.operands.iter().zip(args) {
        operand(&mut it, form, *op, *arg)?;
    }
    write(form, &it)
}

fn operand(it: &mut Parts, form: &Form, op: Op, arg: Arg) -> Option<()> {
    let bytes = match op.size {
        Size::B => Some(1),
        Size::W => Some(2),
        Size::D => Some(4),
        Size::Q => Some(8),
        _ => None,
    };
    let varies = matches!(op.size, Size::V | Size::Y);
    match (op.place, arg) {
        (Place::Address, Arg::Mem(_)) => {
            it.rm = Some(arg);
            return Some(());
        }
        (Place::E, _) | (Place::R, Arg::Reg(..)) => it.rm = Some(arg),
        (Place::G, Arg::Reg(register, _)) => it.reg = register,
        (Place::Z, Arg::Reg(register, _)) => it.low = Some(register),
        (Place::A, Arg::Reg(0, _)) | (Place::Cl, Arg::Reg(1, _)) => {}
        (Place::One, Arg::Imm(1)) => return Some(()),
        (Place::I, Arg::Imm(value)) => return it.immediate(form, op, value),
        (Place::I, Arg::Text(_)) if op.size == Size::V && it.size == Some(4) => {
            it.immediate = vec![0; 4];
            return Some(());
        }
        _ => return None,
    }
    let size = match arg {
        Arg::Reg(register, size) => {
            let in_rex = op.size == Size::B && matches!(op.place, Place::E | Place::G | Place::Z);
            it.needs_rex |= in_rex && (4..8).contains(&register);
            size
        }
        Arg::Mem(mem) => mem.size,
        _ => return None,
    };
    match varies {
        true => it.sized(size),
        false => (bytes == Some(size)).then_some(()),
    }
}

fn write(form: &Form, it: &Parts) -> Option<Vec<u8>> {
    let wide = it.size == Some(8);
    if form.wide && !wide {
        return None;
    }
    let memory = match it.rm {
        Some(Arg::Mem(mem)) => Some(mem),
        _ => None,
    };
    let mut to = Vec::new();
    let by_window = memory.is_some_and(|mem| mem.base != Some(4) || mem.index.is_some());
    if by_window && !form.operands.iter().any(|op| op.place == Place::Address) {
        to.extend([0x65, 0x67]);
    }
    match (form.prefix, it.size) {
        (Prefix::None, Some(2)) | (Prefix::P66, _) => to.push(0x66),
        (Prefix::PF3, _) => to.push(0xf3),
        (Prefix::PF2, _) => to.push(0xf2),
        _ => {}
    }
    let rm = match it.rm {
        Some(Arg::Reg(register, _)) => register,
        _ => memory.and_then(|mem| mem.base).unwrap_or(0),
    };
    let index = memory.and_then(|mem| mem.index);
    let rex = u8::from(wide) << 3
        | (it.reg >> 3) << 2
        | index.map_or(0, |(register, _)| register >> 3) << 1
        | (rm | it.low.unwrap_or(0)) >> 3;
    if rex != 0 || it.needs_rex {
        to.push(0x40 | rex);
    }
    match form.map {
        Map::Byte => {}
        Map::M0F => to.push(0x0f),
        Map::M0F38 => to.extend([0x0f, 0x38]),
        Map::M0F3A => to.extend([0x0f, 0x3a]),
    }
    to.push(form.opcode | it.low.unwrap_or(0) & 7);
    let reg = form.extension.unwrap_or(it.reg & 7) << 3;
    match (it.rm, memory) {
        (Some(Arg::Reg(register, _)), _) => to.push(0xc0 | reg | register & 7),
        (_, Some(mem)) => address(&mut to, reg, mem)?,
        _ => {}
    }
    to.extend(&it.immediate);
    Some(to)
}

fn address(to: &mut Vec<u8>, reg: u8, mem: Mem) -> Option<()> {
    let Some(base) = mem.base else {
        let (index, scale) = mem
            .index
            .map_or((4, 0), |(i, scale)| (i & 7, scale.ilog2() as u8));
        to.extend([reg | 4, scale << 6 | index << 3 | 5]);
        to.extend(mem.disp.to_le_bytes());
        return Some(());
    };
    let mode = match mem.disp {
        0 if base & 7 != 5 => 0,
        -128..=127 => 1,
        _ => 2,
    };
    match mem.index {
        Some((4, _)) => return None,
        Some((index, scale)) => {
            let sib = (scale.ilog2() as u8) << 6 | (index & 7) << 3 | base & 7;
            to.extend([mode << 6 | reg | 4, sib]);
        }
        None if base & 7 == 4 => to.extend([mode << 6 | reg | 4, 0x24]),
        None => to.push(mode << 6 | reg | base & 7),
    }
    match mode {
        0 => {}
        1 => to.push(mem.disp as u8),
        _ => to.extend(mem.disp.to_le_bytes()),
    }
    Some(())
}
