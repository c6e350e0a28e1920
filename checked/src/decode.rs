//! One instruction, in the one encoding that it may have.
//!
//! In this order, and nothing twice: `65 67` if and only if memory of the window is an
//! operand; one of 66, F3, F2; REX, or instead of both VEX; the opcode; ModRM, SIB and
//! displacement; an immediate. A bit that would mean nothing has to be what assemblers
//! leave there.

use crate::form::{Flow, Form, Op};
use crate::table::{FIXED, INDEX};

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

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `%gs:` with an address of 32 bits: in the window, whatever the registers hold.
    Window {
        base: Option<u8>,
        /// The register and what it is multiplied by.
        index: Option<(u8, u8)>,
        displacement: i32,
    },
    /// At this distance behind the instruction's end.
    Relative(i32),
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Bytes of it.
    pub length: usize,
    pub name: &'static str,
    pub flow: Flow,
    /// The operand that is accessed, and how many bytes of it.
    pub memory: Option<(Memory, u8)>,
    /// General registers that operands and addresses name, bit 0 for rax.
    pub general: u16,
    /// Vector registers that operands name, bit 0 for xmm0.
    pub vector: u16,
    /// The immediate or relative target, with its sign; else 0.
    pub immediate: i64,
    /// For `and r32, imm`: the register.
    pub masks: Option<u8>,
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
        let mut value = [0; 8];
        let end = self.at + bytes;
        value[..bytes].copy_from_slice(self.all.get(self.at..end).ok_or(Bad::CutOff)?);
        self.at = end;
        let unused = 64 - 8 * bytes as u32;
        Ok(i64::from_le_bytes(value) << unused >> unused)
    }
}

/// Decodes what `code` begins with.
pub fn decode(code: &[u8]) -> Result<Instruction, Bad> {
    ordinary(code).or_else(|bad| fixed(code).ok_or(bad))
}

fn fixed(code: &[u8]) -> Option<Instruction> {
    let (bytes, name) = FIXED.iter().find(|(bytes, _)| code.starts_with(bytes))?;
    Some(Instruction {
        length: bytes.len(),
        name,
        flow: Flow::Next,
        memory: None,
        general: 0,
        vector: 0,
        immediate: 0,
        masks: None,
    })
}

fn ordinary(code: &[u8]) -> Result<Instruction, Bad> {
    let mut bytes = Bytes { all: code, at: 0 };
    let guarded = code.starts_with(&[0x65, 0x67]);
    if guarded {
        bytes.at = 2;
    }
    let (mut prefix, mut map, mut extra) = (0, 0, Extra::default());
    if matches!(bytes.peek()?, 0xc4 | 0xc5) {
        (prefix, map, extra) = vex(&mut bytes)?;
    } else {
        if let Some(at) = [0x66, 0xf3, 0xf2]
            .iter()
            .position(|p| bytes.peek() == Ok(*p))
        {
            prefix = at + 1;
            bytes.at += 1;
        }
        if bytes.peek()? & 0xf0 == 0x40 {
            let rex = bytes.next()?;
            extra = Extra {
                rex: true,
                w: rex & 8 != 0,
                r: (rex & 4) << 1,
                x: (rex & 2) << 2,
                b: (rex & 1) << 3,
                ..Extra::default()
            };
        }
        if bytes.peek()? == 0x0f {
            bytes.at += 1;
            map = match bytes.peek()? {
                0x38 => 2,
                0x3a => 3,
                _ => 1,
            };
            bytes.at += usize::from(map > 1);
        }
    }
    let opcode = bytes.next()?;
    let candidates = INDEX.at(extra.vex, map, prefix, opcode);
    let modrm = bytes.peek();
    let form = candidates.iter().find(|form| fits(form, modrm, &extra));
    let form = form.ok_or(match opcode {
        _ if !candidates.is_empty() => Bad::Opcode,
        0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 if map == 0 => Bad::Prefix,
        _ => Bad::Opcode,
    })?;
    Reading {
        bytes,
        form,
        extra,
        prefix,
        opcode,
        guarded,
    }
    .operands()
}

/// VEX: the prefix it stands for, the map, and the rest.
fn vex(bytes: &mut Bytes) -> Result<(usize, usize, Extra), Bad> {
    let three = bytes.next()? == 0xc4;
    let first = bytes.next()?;
    let (x, b, map, last) = match three {
        true => (
            !first >> 3 & 8,
            !first >> 2 & 8,
            usize::from(first & 0x1f),
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
    Ok((usize::from(last & 3), map, extra))
}

/// Of forms with one opcode: whether it is this one, by ModRM and W.
fn fits(form: &Form, modrm: Result<u8, Bad>, extra: &Extra) -> bool {
    use Op::{Mb, Md, Mdq, Mq, Mqq, Mw, Mx, Rv, Ry, Udq, Ux, M};
    let modrm = modrm.unwrap_or(0);
    let register = modrm >= 0xc0;
    form.extension
        .is_none_or(|extension| modrm >> 3 & 7 == extension)
        && (form.wide == extra.w || (extra.w && form.has_wide()))
        && !(register && form.has(&[M, Mb, Mw, Md, Mq, Mdq, Mqq, Mx]))
        && (register || !form.has(&[Rv, Ry, Udq, Ux]))
}

/// An instruction of a known form, while its operands are read.
struct Reading<'a> {
    bytes: Bytes<'a>,
    form: &'static Form,
    extra: Extra,
    prefix: usize,
    opcode: u8,
    guarded: bool,
}

/// What ModRM.rm names.
enum Rm {
    None,
    Register(u8),
    Memory(Memory),
}

impl Reading<'_> {
    fn operands(mut self) -> Result<Instruction, Bad> {
        let form = self.form;
        let sized = form.has_operand_size();
        let is_66_a_size = sized && self.prefix == 1;
        // W would win, and 66 mean nothing.
        if is_66_a_size && self.extra.w {
            return Err(Bad::NotCanonical);
        }
        let size: u8 = match (is_66_a_size, self.extra.w) {
            (true, _) => 2,
            (_, true) => 8,
            _ => 4,
        };
        self.vector_length()?;
        let mut used = Extra::default();
        let (mut reg, mut rm) = (0, Rm::None);
        let mut address = 0;
        if form.has_modrm() {
            let modrm = self.bytes.next()?;
            reg = modrm >> 3 & 7 | self.extra.r;
            rm = self.rm(modrm, &mut used, &mut address)?;
            used.r = if form.extension.is_none() { 8 } else { 0 };
        } else if form.has(&[Op::Zb, Op::Zv, Op::Zy, Op::Zq]) {
            used.b = 8;
        }
        let mut it = Instruction {
            length: 0,
            name: form.name,
            flow: form.flow,
            memory: None,
            general: address,
            vector: 0,
            immediate: 0,
            masks: None,
        };
        let mut needs_rex = false;
        for op in form.operands {
            self.operand(*op, reg, &rm, size, &mut it, &mut needs_rex)?;
        }
        self.no_idle_bits(&used, needs_rex)?;
        let in_window = matches!(rm, Rm::Memory(Memory::Window { .. })) && !form.has(&[Op::M]);
        if in_window != self.guarded {
            return Err(Bad::Unguarded);
        }
        if form.has(&[Op::M]) && matches!(rm, Rm::Memory(Memory::Relative(_))) {
            return Err(Bad::Unguarded);
        }
        let ands = form.name == "and" && form.has(&[Op::Ev]) && form.extension.is_some();
        if let (true, 4, Rm::Register(register)) = (ands, size, &rm) {
            it.masks = Some(*register);
        }
        it.length = self.bytes.at;
        Ok(it)
    }

    /// A vector is as long as the form says, and vvvv names nothing that is no operand.
    fn vector_length(&self) -> Result<(), Bad> {
        use Op::{By, Hdq, Hqq, Hx, Mqq, Mx, Ux, Vqq, Vx, Wqq, Wx};
        let form = self.form;
        let any = form.has(&[Vx, Hx, Ux, Wx, Mx]);
        let long = form.has(&[Vqq, Hqq, Wqq, Mqq]);
        if self.extra.vex && !any && self.extra.long != long {
            return Err(Bad::Opcode);
        }
        if self.extra.v != 0 && !form.has(&[By, Hx, Hdq, Hqq]) {
            return Err(Bad::NotCanonical);
        }
        Ok(())
    }

    /// Every bit of REX or VEX that is set means something.
    fn no_idle_bits(&self, used: &Extra, needs_rex: bool) -> Result<(), Bad> {
        let extra = &self.extra;
        let idle = (extra.r & !used.r) | (extra.x & !used.x) | (extra.b & !used.b);
        let empty = extra.rex && !extra.w && extra.r | extra.x | extra.b == 0;
        match idle != 0 || (empty && !needs_rex) {
            true => Err(Bad::NotCanonical),
            false => Ok(()),
        }
    }

    /// ModRM.rm with SIB and displacement; the registers of an address go into `address`.
    fn rm(&mut self, modrm: u8, used: &mut Extra, address: &mut u16) -> Result<Rm, Bad> {
        let (mode, low) = (modrm >> 6, modrm & 7);
        if mode == 3 {
            used.b = 8;
            return Ok(Rm::Register(low | self.extra.b));
        }
        if mode == 0 && low == 5 {
            return Ok(Rm::Memory(Memory::Relative(self.bytes.signed(4)? as i32)));
        }
        used.b = 8;
        let mut base = Some(low | self.extra.b);
        let mut index = None;
        if low == 4 {
            let sib = self.bytes.next()?;
            let (scale, middle) = (1 << (sib >> 6), sib >> 3 & 7 | self.extra.x);
            base = Some(sib & 7 | self.extra.b);
            used.x = 8;
            index = (middle != 4).then_some((middle, scale));
            if mode == 0 && sib & 7 == 5 {
                base = None;
                used.b = 0;
            }
            // Without an index, SIB is for the bases that ModRM cannot name, and for none.
            let needed = index.is_some() || base.is_none_or(|base| base & 7 == 4);
            if !needed || (index.is_none() && scale != 1) {
                return Err(Bad::NotCanonical);
            }
        }
        let bytes = match (mode, base) {
            (1, _) => 1,
            (2, _) | (0, None) => 4,
            _ => 0,
        };
        let displacement = match bytes {
            0 => 0,
            _ => self.bytes.signed(bytes)? as i32,
        };
        for register in base.into_iter().chain(index.map(|(register, _)| register)) {
            *address |= 1 << register;
        }
        Ok(Rm::Memory(Memory::Window {
            base,
            index,
            displacement,
        }))
    }

    fn operand(
        &mut self,
        op: Op,
        reg: u8,
        rm: &Rm,
        size: u8,
        it: &mut Instruction,
        needs_rex: &mut bool,
    ) -> Result<(), Bad> {
        use Op::*;
        let y = if self.extra.w { 8 } else { 4 };
        let length = if self.extra.long { 32 } else { 16 };
        let immediate = match op {
            Ib | Jb => 1,
            Iz if size == 2 => 2,
            Iz | Jz => 4,
            Iv => usize::from(size),
            Lx => {
                let byte = self.bytes.next()?;
                it.vector |= 1 << (byte >> 4);
                return if byte & 15 == 0 {
                    Ok(())
                } else {
                    Err(Bad::NotCanonical)
                };
            }
            _ => 0,
        };
        if immediate > 0 {
            it.immediate = self.bytes.signed(immediate)?;
        }
        let in_opcode = self.opcode & 7 | self.extra.b;
        match op {
            Gb => it.general |= self.byte_register(reg, needs_rex),
            Zb => it.general |= self.byte_register(in_opcode, needs_rex),
            Gd | Gv | Gy => it.general |= 1 << reg,
            Zv | Zy | Zq => it.general |= 1 << in_opcode,
            By => it.general |= 1 << self.extra.v,
            Ab | Av => it.general |= 1,
            Cl => it.general |= 2,
            Vx | Vdq | Vqq => it.vector |= 1 << reg,
            Hx | Hdq | Hqq if self.extra.vex => it.vector |= 1 << self.extra.v,
            _ => {}
        }
        let (bytes, vector) = match op {
            Eb | Edb => (1, false),
            Ew => (2, false),
            Ed | Md => (4, false),
            Ev | Rv => (size, false),
            Ey | Ry => (y, false),
            Mb | M => (0, false),
            Mw => (2, false),
            Mq => (8, false),
            Mdq => (16, false),
            Mqq => (32, false),
            Mx => (length, false),
            Ux | Udq => (0, true),
            Wx => (length, true),
            Wx2 => (length / 2, true),
            Wx4 => (length / 4, true),
            Wx8 => (length / 8, true),
            Wb => (1, true),
            Ww => (2, true),
            Wd => (4, true),
            Wq => (8, true),
            Wdq => (16, true),
            Wqq => (32, true),
            _ => return Ok(()),
        };
        match rm {
            Rm::Memory(memory) if op != M => it.memory = Some((*memory, bytes)),
            Rm::Register(register) if vector => it.vector |= 1 << register,
            Rm::Register(register) if op == Eb => {
                it.general |= self.byte_register(*register, needs_rex);
            }
            Rm::Register(register) => it.general |= 1 << register,
            _ => {}
        }
        Ok(())
    }

    /// Without REX, 4 to 7 are ah, ch, dh and bh.
    fn byte_register(&self, number: u8, needs_rex: &mut bool) -> u16 {
        if !self.extra.rex && (4..8).contains(&number) {
            return 1 << (number - 4);
        }
        *needs_rex |= (4..8).contains(&number);
        1 << number
    }
}
