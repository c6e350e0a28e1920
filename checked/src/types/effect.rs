//! What instructions do to what is known: moves, fields and elements, and computing, whose
//! results are numbers.

use super::pass::Compared;
use super::{Class, Type, Typing, BYTES, TEXT};
use crate::instruction::{Instruction, Memory, Operand};
use crate::rule::{Refusal, Rule};

const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
/// A field of an array, and where its elements begin.
const LENGTH: i32 = 8;
const ELEMENTS: i32 = 16;

/// Where in memory an operand is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A word of the function's.
    Word(usize),
    /// The class of what a register holds.
    Class(u8),
    /// The length of an array that a register holds.
    Length(u8),
    /// A field or an element, which may be written.
    Value(Type),
    Byte {
        written: bool,
    },
}

impl Typing<'_> {
    /// T4: the value of a register.
    fn read(&self, register: u8) -> Result<Type, Refusal> {
        let ty = self.state.get(register);
        match ty.is_value() {
            true => Ok(ty),
            false => self.refuse(Rule::Value, format!("a register is read that holds {ty}")),
        }
    }

    /// T5 and T6: what is at an address.
    fn place(&self, it: &Instruction) -> Result<Place, Refusal> {
        if let Some((Memory::Stack(at), _)) = it.memory {
            // T11 holds already.
            return Ok(Place::Word(self.state.words.len() - 1 - at as usize / 8));
        }
        let Some((Some(base), index, at, bytes)) = it.window() else {
            return self.refuse(Rule::Field, "memory of no object");
        };
        let held = self.state.get(base);
        match (self.classes(held), index) {
            (None, _) => self.refuse(Rule::Field, format!("{held} is no object")),
            (Some(_), None) if (at, bytes) == (0, 8) => Ok(Place::Class(base)),
            (Some((first, last)), _) if first != last => {
                self.refuse(Rule::Field, format!("{held} can be of several classes"))
            }
            (Some((class, _)), None) => self.field(base, class, at, bytes),
            (Some((class, _)), Some((index, scale))) => {
                let (place, size) = self.element(class)?;
                if (scale, bytes, at) != (size, size, ELEMENTS) {
                    let what =
                        format!("elements of #{class} have {size} bytes, from {ELEMENTS} on");
                    return self.refuse(Rule::Element, what);
                }
                match self.state.is_bound(index, base) {
                    true => Ok(place),
                    false => {
                        self.refuse(Rule::Element, "the index was not compared with the length")
                    }
                }
            }
        }
    }

    /// T5.
    fn field(&self, base: u8, class: u16, at: i32, bytes: u8) -> Result<Place, Refusal> {
        let is_word = bytes == 8 && at % 8 == 0 && at >= 8;
        let field = match self.class(class) {
            Some(Class::Record(fields)) => {
                fields.get((at - 8) as usize / 8).copied().map(Place::Value)
            }
            Some(_) if at == LENGTH => Some(Place::Length(base)),
            _ => None,
        };
        let what = || format!("#{class} has no field of {bytes} bytes at {at}");
        field
            .filter(|_| is_word)
            .map_or_else(|| self.refuse(Rule::Field, what()), Ok)
    }

    /// T6: an element of an array, and its bytes.
    fn element(&self, class: u16) -> Result<(Place, u8), Refusal> {
        match self.class(class) {
            Some(Class::Bytes) => Ok((
                Place::Byte {
                    written: class == BYTES,
                },
                1,
            )),
            Some(Class::Array(element)) => Ok((Place::Value(*element), 8)),
            _ => self.refuse(Rule::Element, format!("#{class} is no array")),
        }
    }

    /// What an operand in memory holds.
    fn load(&self, place: Place) -> Result<Type, Refusal> {
        let ty = match place {
            Place::Word(i) => self.state.words[i],
            Place::Value(ty) => ty,
            _ => Type::Int,
        };
        match ty.is_value() {
            true => Ok(ty),
            false => self.refuse(Rule::Value, format!("a word is read that holds {ty}")),
        }
    }

    /// Stores a value: T5 where that is not of the type of what is there.
    fn store(&mut self, place: Place, ty: Type) -> Result<(), Refusal> {
        match place {
            Place::Word(i) => self.state.words[i] = ty,
            Place::Value(needed) if self.is(ty, needed) => {}
            Place::Value(needed) => {
                let what = format!("{ty} is stored where {needed} belongs");
                return self.refuse(Rule::Field, what);
            }
            Place::Byte { written: true } => {}
            Place::Byte { .. } => return self.refuse(Rule::Field, "a text is only read"),
            Place::Class(_) | Place::Length(_) => {
                return self.refuse(Rule::Field, "classes and lengths stay what they are");
            }
        }
        Ok(())
    }

    /// T4: an operand that is read.
    fn value(&self, operand: Operand, it: &Instruction) -> Result<Type, Refusal> {
        match operand {
            Operand::General(_, 2) | Operand::High(_) => {
                self.refuse(Rule::Effect, "16 bits, or the second byte of a register")
            }
            Operand::General(register, bytes) => {
                let ty = self.read(register)?;
                Ok(if bytes == 8 { ty } else { Type::Int })
            }
            Operand::Memory => self.place(it).and_then(|place| self.load(place)),
            Operand::Address => self.addressed(it).map(|()| Type::Int),
            Operand::Immediate => Ok(match u32::try_from(it.immediate) {
                Ok(value) => Type::Constant(value),
                _ => Type::Int,
            }),
            Operand::Vector(_) => Ok(Type::Int),
        }
    }

    /// T4: the registers of an address that is computed.
    fn addressed(&self, it: &Instruction) -> Result<(), Refusal> {
        let mut named = (0..16).filter(|register| it.address & 1 << register != 0);
        named.try_for_each(|register| self.read(register).map(|_| ()))
    }

    /// An operand that is written. The rest of a byte's register stays.
    fn write(&mut self, operand: Operand, ty: Type, it: &Instruction) -> Result<(), Refusal> {
        match operand {
            Operand::General(register, bytes) => {
                if bytes < 4 {
                    self.value(operand, it)?;
                }
                self.state.set(register, ty);
                Ok(())
            }
            Operand::Memory => self.place(it).and_then(|place| self.store(place, ty)),
            Operand::Vector(_) => Ok(()),
            _ => self.refuse(Rule::Effect, "this is written"),
        }
    }

    /// An instruction that goes on to the next one.
    pub(super) fn effect(&mut self, it: &Instruction) -> Result<(), Refusal> {
        let named = it.operands.map(|named| named.unwrap_or(Operand::Immediate));
        let operands = &named[..it.operands.iter().flatten().count()];
        match (it.name, operands) {
            _ if it.vector != 0 => self.compute(it, operands, false),
            ("mov", &[to, from]) => self.mov(it, to, from),
            ("nop" | "pause", _) => Ok(()),
            ("add" | "sub", [Operand::General(RSP, 8), _]) => {
                let words = &mut self.state.words;
                let taken = if it.name == "sub" {
                    it.immediate
                } else {
                    -it.immediate
                };
                let height = words.len().saturating_add_signed(taken as isize / 8);
                words.resize(height, Type::Unknown);
                Ok(())
            }
            ("xor" | "sub", &[Operand::General(a, 4 | 8), Operand::General(b, _)]) if a == b => {
                self.state.set(a, Type::Int);
                Ok(())
            }
            // A slot's number stays itself: it is one of the table.
            ("and", &[Operand::General(register, 4), Operand::Immediate])
                if self.is_slot(register, it.immediate) =>
            {
                Ok(())
            }
            ("cmp", &[a, b]) => self.cmp(it, a, b),
            ("test", &[a, b]) => self.value(a, it).and(self.value(b, it)).map(|_| ()),
            ("mul" | "imul" | "div" | "idiv", &[by]) => self.wide(it, by),
            ("cwde", _) => self.compute(it, operands, true),
            ("cdq", &[from]) => {
                self.value(from, it)?;
                self.write(Operand::General(RDX, 8), Type::Int, it)
            }
            ("movzx" | "movsx" | "movsxd" | "lea" | "popcnt", _) | ("imul", &[_, _, _]) => {
                self.compute(it, operands, false)
            }
            (
                "add" | "or" | "adc" | "sbb" | "and" | "sub" | "xor" | "imul" | "shl" | "shr"
                | "sar" | "rol" | "ror" | "neg" | "not" | "inc" | "dec" | "tzcnt" | "lzcnt",
                _,
            ) => self.compute(it, operands, true),
            (name, _) if name.starts_with("set") || name.starts_with("cmov") => {
                self.compute(it, operands, true)
            }
            (name, _) => self.refuse(Rule::Effect, format!("{name} has no effect on types")),
        }
    }

    fn is_slot(&self, register: u8, mask: i64) -> bool {
        let all = i64::from(self.module.layout.slots) - 1;
        matches!(self.state.get(register), Type::Function(_)) && mask == all
    }

    /// T3: all operands are numbers, and so is the first one afterwards.
    fn compute(
        &mut self,
        it: &Instruction,
        operands: &[Operand],
        reads_first: bool,
    ) -> Result<(), Refusal> {
        let Some((to, from)) = operands.split_first() else {
            return self.refuse(Rule::Effect, format!("{} has no effect on types", it.name));
        };
        for operand in from {
            self.value(*operand, it)?;
        }
        if reads_first {
            self.value(*to, it)?;
        }
        if it.memory.is_some_and(|(_, bytes)| !matches!(bytes, 1 | 8)) {
            return self.refuse(Rule::Effect, "values in memory have 8 bytes or one");
        }
        self.write(*to, Type::Int, it)
    }

    /// T4: rax and rdx, by an operand.
    fn wide(&mut self, it: &Instruction, by: Operand) -> Result<(), Refusal> {
        if let Operand::General(_, 1) | Operand::Memory = by {
            return self.refuse(Rule::Effect, "of a register of 4 or 8 bytes");
        }
        self.value(by, it)?;
        self.read(RAX)?;
        if it.name.ends_with("div") {
            self.read(RDX)?;
        }
        self.state.set(RAX, Type::Int);
        self.state.set(RDX, Type::Int);
        Ok(())
    }

    fn mov(&mut self, it: &Instruction, to: Operand, from: Operand) -> Result<(), Refusal> {
        if (to, from) == (Operand::Memory, Operand::Immediate) && self.makes(it)? {
            return Ok(());
        }
        let ty = match (from, to) {
            // An immediate of 4 bytes has no sign in a register of 8.
            (Operand::Immediate, Operand::General(_, 4)) => Type::Constant(it.immediate as u32),
            _ => self.value(from, it)?,
        };
        let whole = match to {
            Operand::General(_, bytes) => bytes == 8 || (bytes == 4 && from == Operand::Immediate),
            _ => true,
        };
        if it.memory.is_some_and(|(_, bytes)| !matches!(bytes, 1 | 8)) {
            return self.refuse(Rule::Effect, "values in memory have 8 bytes or one");
        }
        self.write(to, if whole { ty } else { Type::Int }, it)
    }

    /// T7: the first word of what was allocated is set to a class of that size.
    fn makes(&mut self, it: &Instruction) -> Result<bool, Refusal> {
        let Some((Some(base), None, displacement, bytes)) = it.window() else {
            return Ok(false);
        };
        let raw = self.state.get(base);
        if !matches!(raw, Type::Raw(_) | Type::RawArray(_)) {
            return Ok(false);
        }
        let class = u16::try_from(it.immediate).unwrap_or(0);
        let fits = match (raw, self.class(class)) {
            (Type::Raw(bytes), Some(Class::Record(fields))) => {
                bytes as usize == 8 + 8 * fields.len()
            }
            (Type::RawArray(1), Some(Class::Bytes)) => class >= TEXT,
            (Type::RawArray(8), Some(Class::Array(_))) => true,
            _ => false,
        };
        if !fits || displacement != 0 || bytes != 8 {
            let what = format!("{raw} does not become {} so", it.immediate);
            return self.refuse(Rule::Make, what);
        }
        self.state.set(base, Type::Object(class, class));
        Ok(true)
    }

    fn cmp(&mut self, it: &Instruction, a: Operand, b: Operand) -> Result<(), Refusal> {
        self.value(a, it)?;
        self.value(b, it)?;
        let place = it.memory.map(|_| self.place(it)).transpose()?;
        self.compared = match (a, b, place) {
            (Operand::General(index, 8), Operand::Memory, Some(Place::Length(array))) => {
                Some(Compared::Index { index, array })
            }
            (Operand::Memory, Operand::Immediate, Some(Place::Class(object))) => {
                let class = u16::try_from(it.immediate).ok();
                class.map(|class| Compared::Class { object, class })
            }
            _ => None,
        };
        Ok(())
    }

    pub(super) fn push(&mut self, it: &Instruction) -> Result<(), Refusal> {
        for operand in it.operands.into_iter().flatten() {
            let ty = self.value(operand, it)?;
            self.state.words.push(ty);
        }
        Ok(())
    }

    pub(super) fn pop(&mut self, it: &Instruction) -> Result<(), Refusal> {
        for operand in it.operands.into_iter().flatten() {
            let ty = self.state.words.pop().unwrap_or_default();
            self.write(operand, ty, it)?;
        }
        Ok(())
    }
}
