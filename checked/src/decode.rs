//! One instruction, in the one encoding that it may have.
//!
//! In this order, and nothing twice: `65 67` if and only if memory of the window is an
//! operand; one of 66, F3, F2; REX, or instead of both VEX; the opcode; ModRM, SIB and
//! displacement; an immediate. A bit that would mean nothing has to be what assemblers
//! leave there.

use crate::form::{Flow, Form, Op, Place, Size};
use crate::instruction::{Instruction, Memory, Operand};
use crate::table::{FIXED, INDEX};

const RSP: u8 = 4;

/// Why bytes are no instruction that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The code ends within it.
    CutOff,
    /// A prefix that is not allowed here, or not in this order.
    Prefix,
    /// No form has this opcode with these prefixes.
    Opcode,
    /// Another encoding of the same is the canonical one.
    NotCanonical,
    /// Memory without `%gs:` and a 32-bit address, or these without memory.
    Unguarded,
}

/// The bits that REX or VEX add; all 0 where there is neither.
#[derive(Clone, Copy, Default)]
struct Extra {
    rex: bool,
    vex: bool,
    w: bool,
    r: u8,
    x: u8,
    b: u8,
    v: u8,
    long: bool,
}

struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn peek(&self) -> Result<u8, Bad> {
        self.all.get(self.at).copied().ok_or(Bad::CutOff)
    }

    fn next(&mut self) -> Result<u8, Bad> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// A little-endian number of this many bytes, at least one, with its sign.
    fn signed(&mut self, bytes: usize) -> Result<i64, Bad> {
        let end = self.at + bytes;
        let from = self.all.get(self.at..end).ok_or(Bad::CutOff)?;
        self.at = end;
        let first = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = from.iter().rev().fold(0, first) as i64;
        let unused = 64 - 8 * bytes as u32;
        Ok(value << unused >> unused)
    }
}

/// Decodes what `code` begins with.
pub fn decode(code: &[u8]) -> Result<Instruction, Bad> {
    let ordinary = ordinary(code);
    if ordinary.is_ok() {
        return ordinary;
    }
    let fixed = FIXED.iter().find(|(bytes, _)| code.starts_with(bytes));
    match fixed {
        Some((bytes, name)) => Ok(Instruction::new(name, Flow::Next, bytes.len())),
        None => ordinary,
    }
}

fn ordinary(code: &[u8]) -> Result<Instruction, Bad> {
    let guarded = code.starts_with(&[0x65, 0x67]);
    let mut bytes = Bytes {
        all: code,
        at: if guarded { 2 } else { 0 },
    };
    let (prefix, map, extra) = match bytes.peek()? {
        0xc4 | 0xc5 => vex(&mut bytes)?,
        _ => legacy(&mut bytes)?,
    };
    let opcode = bytes.next()?;
    let modrm = bytes.peek().unwrap_or(0);
    let candidates = INDEX.at(extra.vex, map, prefix, opcode);
    let form = candidates.iter().find(|form| form.fits(modrm, extra.w));
    let form = form.ok_or(match opcode {
        _ if !candidates.is_empty() => Bad::Opcode,
        0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 if map == 0 => Bad::Prefix,
        _ => Bad::Opcode,
    })?;
    let is_66_a_size = prefix == 1 && form.has_operand_size();
    Reading {
        bytes,
        form,
        extra,
        guarded,
        size: match (is_66_a_size, extra.w) {
            // W would win, and 66 mean nothing.
            (true, true) => return Err(Bad::NotCanonical),
            (true, _) => 2,
            (_, true) => 8,
            _ => 4,
        },
        reg: opcode & 7 | extra.b,
        rm: Rm::None,
        used: Extra::default(),
        needs_rex: false,
        it: Instruction::new(form.name, form.flow, 0),
    }
    .operands()
}

/// The prefix of the opcode, REX, and the map.
fn legacy(bytes: &mut Bytes) -> Result<(usize, usize, Extra), Bad> {
    let prefix = match bytes.peek()? {
        0x66 => 1,
        0xf3 => 2,
        0xf2 => 3,
        _ => 0,
    };
    bytes.at += usize::from(prefix != 0);
    let mut extra = Extra::default();
    if bytes.peek()? & 0xf0 == 0x40 {
        let rex = bytes.next()?;
        (extra.rex, extra.w) = (true, rex & 8 != 0);
        (extra.r, extra.x, extra.b) = ((rex & 4) << 1, (rex & 2) << 2, (rex & 1) << 3);
    }
    let mut map = 0;
    if bytes.peek()? == 0x0f {
        bytes.at += 1;
        map = match bytes.peek()? {
            0x38 => 2,
            0x3a => 3,
            _ => 1,
        };
        bytes.at += usize::from(map > 1);
    }
    Ok((prefix, map, extra))
}

/// VEX: the prefix it stands for, the map, and the rest.
fn vex(bytes: &mut Bytes) -> Result<(usize, usize, Extra), Bad> {
    let three = bytes.next()? == 0xc4;
    let first = bytes.next()?;
    let (x, b, map, last) = match three {
        true => (
            !first >> 3 & 8,
            !first >> 2 & 8,
            first & 0x1f,
            bytes.next()?,
        ),
        false => (0, 0, 1, first),
    };
    if !(1..=3).contains(&map) {
        return Err(Bad::Opcode);
    }
    let extra = Extra {
        rex: false,
        vex: true,
        w: three && last & 0x80 != 0,
        r: !first >> 4 & 8,
        x,
        b,
        v: !last >> 3 & 15,
        long: last & 4 != 0,
    };
    // Two bytes say all that these three do.
    if three && map == 1 && x | b == 0 && !extra.w {
        return Err(Bad::NotCanonical);
    }
    Ok((usize::from(last & 3), map.into(), extra))
}

/// What ModRM.rm names.
#[derive(Clone, Copy)]
enum Rm {
    None,
    Register(u8),
    Memory(Memory),
}

/// An instruction of a known form, while its operands are read.
struct Reading<'a> {
    bytes: Bytes<'a>,
    form: &'static Form,
    extra: Extra,
    guarded: bool,
    /// The operand size, in bytes.
    size: u8,
    /// ModRM.reg, or the low bits of the opcode.
    reg: u8,
    rm: Rm,
    /// Of REX or VEX, what means something here.
    used: Extra,
    needs_rex: bool,
    it: Instruction,
}

impl Reading<'_> {
    fn operands(mut self) -> Result<Instruction, Bad> {
        let form = self.form;
        self.vector_length()?;
        if form.has_modrm() {
            let modrm = self.bytes.next()?;
            self.reg = modrm >> 3 & 7 | self.extra.r;
            self.used.r = if form.extension.is_none() { 8 } else { 0 };
            self.rm(modrm)?;
        } else if form.has(&[Place::Z]) {
            self.used.b = 8;
        }
        self.it.general = self.it.address;
        let mut count = 0;
        for op in form.operands {
            let operand = self.operand(*op)?;
            match operand {
                Some(Operand::General(number, _) | Operand::High(number)) => {
                    self.it.general |= 1 << number;
                }
                Some(Operand::Vector(number)) => self.it.vector |= 1 << number,
                _ => {}
            }
            self.it.operands[count] = operand;
            count += usize::from(operand.is_some());
        }
        self.no_idle_bits()?;
        let accessed = !form.has(&[Place::Address]);
        let guarded = match self.rm {
            Rm::Memory(Memory::Window { .. }) => accessed,
            Rm::Memory(Memory::Relative(_)) if !accessed => return Err(Bad::Unguarded),
            _ => false,
        };
        if guarded != self.guarded {
            return Err(Bad::Unguarded);
        }
        if let ("and", Some(_), [Some(Operand::General(to, 4)), ..]) =
            (form.name, form.extension, self.it.operands)
        {
            self.it.masks = Some(to);
        }
        self.it.length = self.bytes.at;
        Ok(self.it)
    }

    /// A vector is as long as the form says, and vvvv names nothing that is no operand.
    fn vector_length(&self) -> Result<(), Bad> {
        let form = self.form;
        let long = form.sized(&[Size::Qq]);
        if self.extra.vex && !form.sized(&[Size::X]) && self.extra.long != long {
            return Err(Bad::Opcode);
        }
        if self.extra.v != 0 && !form.has(&[Place::B, Place::H]) {
            return Err(Bad::NotCanonical);
        }
        Ok(())
    }

    /// Every bit of REX or VEX that is set means something.
    fn no_idle_bits(&self) -> Result<(), Bad> {
        let (extra, used) = (&self.extra, &self.used);
        let idle = (extra.r & !used.r) | (extra.x & !used.x) | (extra.b & !used.b);
        let empty = extra.rex && !extra.w && extra.r | extra.x | extra.b == 0;
        match idle != 0 || (empty && !self.needs_rex) {
            true => Err(Bad::NotCanonical),
            false => Ok(()),
        }
    }

    /// ModRM.rm with SIB and displacement.
    fn rm(&mut self, modrm: u8) -> Result<(), Bad> {
        let (mode, low) = (modrm >> 6, modrm & 7);
        self.used.b = 8;
        if mode == 3 {
            self.rm = Rm::Register(low | self.extra.b);
            return Ok(());
        }
        if mode == 0 && low == 5 {
            self.used.b = 0;
            self.rm = Rm::Memory(Memory::Relative(self.bytes.signed(4)? as i32));
            return Ok(());
        }
        let mut base = Some(low | self.extra.b);
        let mut index = None;
        if low == 4 {
            let sib = self.bytes.next()?;
            let (scale, middle) = (1 << (sib >> 6), sib >> 3 & 7 | self.extra.x);
            base = Some(sib & 7 | self.extra.b);
            self.used.x = 8;
            index = (middle != 4).then_some((middle, scale));
            if mode == 0 && sib & 7 == 5 {
                base = None;
                self.used.b = 0;
            }
            // Without an index, SIB is for the bases that ModRM cannot name, and for none.
            let needed = index.is_some() || base.is_none_or(|base| base & 7 == 4);
            if !needed || (index.is_none() && scale != 1) {
                return Err(Bad::NotCanonical);
            }
        }
        let displacement = match (mode, base) {
            (1, _) => self.bytes.signed(1)? as i32,
            (2, _) | (0, None) => self.bytes.signed(4)? as i32,
            _ => 0,
        };
        if (base, index) == (Some(RSP), None) && !self.guarded && !self.form.has(&[Place::Address])
        {
            self.rm = Rm::Memory(Memory::Stack(displacement));
            return Ok(());
        }
        for register in base.into_iter().chain(index.map(|(register, _)| register)) {
            self.it.address |= 1 << register;
        }
        self.rm = Rm::Memory(Memory::Window {
            base,
            index,
            displacement,
        });
        Ok(())
    }

    /// How many bytes an operand of this size has.
    fn bytes(&self, size: Size) -> u8 {
        let vector = if self.extra.long { 32 } else { 16 };
        match size {
            Size::None => 0,
            Size::B => 1,
            Size::W => 2,
            Size::D | Size::Db => 4,
            Size::Q => 8,
            Size::Dq => 16,
            Size::Qq => 32,
            Size::V => self.size,
            Size::Z => self.size.min(4),
            Size::Y if self.extra.w => 8,
            Size::Y => 4,
            Size::X => vector,
            Size::X2 => vector / 2,
            Size::X4 => vector / 4,
            Size::X8 => vector / 8,
        }
    }

    /// What an operand names; none where it is the first one once more.
    fn operand(&mut self, op: Op) -> Result<Option<Operand>, Bad> {
        use Place::*;
        let bytes = self.bytes(op.size);
        Ok(Some(match op.place {
            G | Z => self.general(self.reg, bytes),
            B => Operand::General(self.extra.v, bytes),
            A => Operand::General(0, bytes),
            Cl => Operand::General(1, bytes),
            V => Operand::Vector(self.reg),
            H if self.extra.vex => Operand::Vector(self.extra.v),
            H => return Ok(None),
            L => match self.bytes.next()? {
                byte if byte & 15 == 0 => Operand::Vector(byte >> 4),
                _ => return Err(Bad::NotCanonical),
            },
            One => Operand::Immediate,
            I | J => {
                self.it.immediate = self.bytes.signed(bytes.into())?;
                Operand::Immediate
            }
            Address => Operand::Address,
            E | M | R | U | W => match self.rm {
                Rm::Memory(memory) => {
                    let bytes = if op.size == Size::Db { 1 } else { bytes };
                    self.it.memory = Some((memory, bytes));
                    Operand::Memory
                }
                Rm::Register(number) if matches!(op.place, E | R) => self.general(number, bytes),
                Rm::Register(number) => Operand::Vector(number),
                Rm::None => return Err(Bad::Opcode),
            },
        }))
    }

    /// Without REX, 4 to 7 are ah, ch, dh and bh.
    fn general(&mut self, number: u8, bytes: u8) -> Operand {
        let extended = bytes == 1 && (4..8).contains(&number);
        if extended && !self.extra.rex {
            return Operand::High(number - 4);
        }
        self.needs_rex |= extended;
        Operand::General(number, bytes)
    }
}
