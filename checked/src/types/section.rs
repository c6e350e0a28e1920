//! The section of types: numbers in LEB128 of the fewest bytes, nothing behind the end.
//!
//! ```text
//! classes       count; each: 0, fields, their types; or 1, the elements' type. From number 3
//! signatures    count; each: arguments, their types, the result's type
//! functions     count; each: where in the code from the one before, its signature
//! texts         count; each: where in the read-only data from the one before
//! joins         count; each: where in the code from the one before; registers; words, in
//!               parts of 32 from the first pushed on, their count before them
//! ```
//!
//! Types: 0 unknown, 1 int, 2 descriptor, 3 first and last class, 4 function with its
//! signature, 5 and above a class. Registers and words: a mask of those that are ints, a
//! mask of those that are something else, and their types.

use super::{Class, Type, ARGUMENTS, FIRST, TEXT};
use crate::module::Module;
use crate::rule::{Refusal, Rule};

const MOST_FIELDS: u32 = 500;
/// That one function pushes: every jump compares them.
pub const MOST_WORDS: u16 = 512;
/// Of registers and words, where functions begin and at joins: they are held in memory.
const MOST_DECLARED: usize = 1 << 22;
const RSP: u32 = 1 << 4;

/// Where a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub at: u32,
    pub signature: u16,
}

/// What has to be known wherever control comes to this instruction from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub at: u32,
    pub registers: [Type; 16],
    /// The first pushed comes first.
    pub words: Vec<Type>,
}

/// What a typed module declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// From number 3.
    pub classes: Vec<Class>,
    /// Arguments, and the result.
    pub signatures: Vec<(Vec<Type>, Type)>,
    pub functions: Vec<Function>,
    /// Where in the read-only data.
    pub texts: Vec<u32>,
    pub joins: Vec<Join>,
}

fn refuse<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(Rule::Types, None, what))
}

struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u32, Refusal> {
        let mut value = 0_u64;
        for (i, byte) in self.0.iter().enumerate().take(5) {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                let shortest = i == 0 || *byte != 0;
                self.0 = &self.0[i + 1..];
                return match u32::try_from(value) {
                    Ok(value) if shortest => Ok(value),
                    _ => refuse("a number is not in its shortest form"),
                };
            }
        }
        refuse("it ends within a number")
    }

    fn at_most(&mut self, most: u32, what: &str) -> Result<u32, Refusal> {
        match self.next()? {
            n if n <= most => Ok(n),
            n => refuse(format!("{n} is too much for {what}")),
        }
    }

    /// A count of what takes a byte at least.
    fn count(&mut self, what: &str) -> Result<u32, Refusal> {
        self.at_most(self.0.len() as u32, what)
    }

    /// The number of a class or a signature.
    fn short(&mut self) -> Result<u16, Refusal> {
        Ok(self.at_most(u16::MAX.into(), "a class or a signature")? as u16)
    }

    fn ty(&mut self) -> Result<Type, Refusal> {
        const ONE: u32 = 4;
        Ok(match self.at_most(ONE + u32::from(u16::MAX), "a class")? {
            0 => Type::Unknown,
            1 => Type::Int,
            2 => Type::Descriptor,
            3 => match (self.short()?, self.short()?) {
                (first, last) if first < last => Type::Object(first, last),
                _ => return refuse("classes from a last one to a first one"),
            },
            4 => Type::Function(self.short()?),
            n => Type::Object((n - ONE) as u16, (n - ONE) as u16),
        })
    }

    fn types(&mut self, count: u32) -> Result<Vec<Type>, Refusal> {
        (0..count).map(|_| self.ty()).collect()
    }

    /// Types by two masks.
    fn masked(&mut self, to: &mut [Type], never: u32) -> Result<(), Refusal> {
        let (ints, others) = (self.next()?, self.next()?);
        let outside = u64::from(ints | others) >> to.len();
        if ints & others != 0 || outside != 0 || (ints | others) & never != 0 {
            return refuse("a mask names what there is not, or one thing twice");
        }
        for (i, to) in to.iter_mut().enumerate() {
            if ints & 1 << i != 0 {
                *to = Type::Int;
            } else if others & 1 << i != 0 {
                *to = self.ty()?;
                if matches!(to, Type::Unknown | Type::Int) {
                    return refuse("a mask says this already");
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, before: u32) -> Result<Join, Refusal> {
        let at = self.place(before)?;
        let mut registers = [Type::Unknown; 16];
        self.masked(&mut registers, RSP)?;
        let mut words = vec![Type::Unknown; self.at_most(MOST_WORDS.into(), "words")? as usize];
        for part in words.chunks_mut(32) {
            self.masked(part, 0)?;
        }
        Ok(Join {
            at,
            registers,
            words,
        })
    }

    fn place(&mut self, before: u32) -> Result<u32, Refusal> {
        let place = before.checked_add(self.next()?);
        place.map_or_else(|| refuse("a place outside of the code"), Ok)
    }
}

impl Section {
    /// T1: reads the section of a module.
    pub fn parse(module: &Module<'_>, bytes: &[u8]) -> Result<Section, Refusal> {
        let mut from = Numbers(bytes);
        let mut it = Section::default();
        for _ in 0..from.count("classes")? {
            it.classes.push(match from.next()? {
                0 => {
                    let fields = from.at_most(MOST_FIELDS, "fields")?;
                    Class::Record(from.types(fields)?)
                }
                1 => Class::Array(from.ty()?),
                _ => return refuse("a class is a record or an array"),
            });
        }
        for _ in 0..from.count("signatures")? {
            let arguments = from.at_most(ARGUMENTS.len() as u32, "arguments")?;
            it.signatures.push((from.types(arguments)?, from.ty()?));
        }
        let mut declared = 0;
        let mut declare = |words| {
            declared += 16 + words;
            match declared {
                0..=MOST_DECLARED => Ok(()),
                _ => refuse("more is declared than can be held"),
            }
        };
        for _ in 0..from.count("functions")? {
            declare(0)?;
            let at = from.place(it.functions.last().map_or(0, |f| f.at))?;
            let signature = from.short()?;
            it.functions.push(Function { at, signature });
        }
        for _ in 0..from.count("texts")? {
            let at = from.place(it.texts.last().copied().unwrap_or(0))?;
            it.texts.push(at);
        }
        for _ in 0..from.count("joins")? {
            let join = from.join(it.joins.last().map_or(0, |join| join.at))?;
            declare(join.words.len())?;
            it.joins.push(join);
        }
        if !from.0.is_empty() {
            return refuse("there is more in it than it says");
        }
        it.refers_to_what_there_is(module)?;
        Ok(it)
    }

    /// The class of this number.
    pub fn class(&self, number: u16) -> Option<&Class> {
        match number {
            0 => None,
            1..FIRST => Some(&Class::Bytes),
            _ => self.classes.get(usize::from(number - FIRST)),
        }
    }

    /// T1: what names a class, a signature or a place names one that there is, in order.
    fn refers_to_what_there_is(&self, module: &Module<'_>) -> Result<(), Refusal> {
        let code = module.code.len() as u32;
        let known = |ty: &Type| match *ty {
            Type::Object(first, last) => first > 0 && self.class(last).is_some(),
            Type::Function(signature) => usize::from(signature) < self.signatures.len(),
            _ => true,
        };
        let fields = self.classes.iter().flat_map(|class| match class {
            Class::Record(fields) => fields.as_slice(),
            Class::Array(element) => std::slice::from_ref(element),
            Class::Bytes => &[],
        });
        let values = self.signatures.iter();
        let values = fields.chain(values.flat_map(|(all, result)| all.iter().chain([result])));
        if !values.clone().all(|ty| ty.is_value()) {
            return refuse("fields, arguments and results are values");
        }
        let joined = self.joins.iter();
        let joined = joined.flat_map(|join| join.registers.iter().chain(&join.words));
        if !values.chain(joined).all(known) {
            return refuse("a type of a class or a signature that there is not");
        }
        let signatures = self.signatures.len();
        let rises = |places: &[u32], end: u32| {
            places.windows(2).all(|pair| pair[0] < pair[1])
                && places.last().is_none_or(|last| *last < end)
        };
        let functions: Vec<u32> = self.functions.iter().map(|f| f.at).collect();
        let joins: Vec<u32> = self.joins.iter().map(|join| join.at).collect();
        let typed = |f: &Function| usize::from(f.signature) < signatures;
        if !rises(&functions, code) || !rises(&joins, code) || !self.functions.iter().all(typed) {
            return refuse("functions or joins out of order, or of nothing");
        }
        if joins.iter().any(|at| functions.binary_search(at).is_ok()) {
            return refuse("a join where a function begins, which says that already");
        }
        if !rises(&self.texts, module.read_only.len() as u32) {
            return refuse("texts out of order");
        }
        self.texts.iter().try_for_each(|at| is_text(module, *at))
    }
}

/// T1: bytes of the read-only data that are an object of the class of texts.
fn is_text(module: &Module<'_>, at: u32) -> Result<(), Refusal> {
    let bytes = module.read_only.get(at as usize..).unwrap_or_default();
    let words = bytes.as_chunks::<8>().0;
    let &[class, length, ..] = words else {
        return refuse("a text outside of the read-only data");
    };
    let fits = u64::from_le_bytes(length) <= bytes.len() as u64 - 16;
    match u64::from_le_bytes(class) == TEXT.into() && fits && at.is_multiple_of(8) {
        true => Ok(()),
        false => refuse(format!("what is at {at:#x} is no text")),
    }
}
