//! Types of values and of functions, as C.

use crate::Error;
use std::fmt::Write;
use std::rc::Rc;
use wasmparser::{FuncType, ValType};

/// A type that values here have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    I32,
    I64,
    F32,
    F64,
}

impl Type {
    pub fn of(value: ValType) -> Result<Type, Error> {
        match value {
            ValType::I32 => Ok(Type::I32),
            ValType::I64 => Ok(Type::I64),
            ValType::F32 => Ok(Type::F32),
            ValType::F64 => Ok(Type::F64),
            other => Err(Error::new(format!(
                "values of type {other} are not supported"
            ))),
        }
    }

    /// What C calls it; integers have no sign.
    pub fn c(self) -> &'static str {
        match self {
            Type::I32 => "u32",
            Type::I64 => "u64",
            Type::F32 => "f32",
            Type::F64 => "f64",
        }
    }

    /// What names of its variables begin with.
    pub fn letter(self) -> char {
        match self {
            Type::I32 => 'i',
            Type::I64 => 'j',
            Type::F32 => 'f',
            Type::F64 => 'd',
        }
    }

    /// A word that a caller outside gave, or is given, as this.
    pub fn of_word(self, word: &str) -> String {
        match self {
            Type::I32 => format!("(u32){word}"),
            Type::I64 => word.to_owned(),
            Type::F32 => format!("f32_of({word})"),
            Type::F64 => format!("f64_of({word})"),
        }
    }

    pub fn as_word(self, value: &str) -> String {
        match self {
            Type::I32 | Type::I64 => value.to_owned(),
            Type::F32 => format!("f32_bits({value})"),
            Type::F64 => format!("f64_bits({value})"),
        }
    }
}

/// A function's. Every block can have one of a thousand types, in three bytes: they are shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    pub takes: Rc<[Type]>,
    pub gives: Rc<[Type]>,
}

impl Signature {
    pub fn of(function: &FuncType) -> Result<Signature, Error> {
        let all = |types: &[ValType]| -> Result<Rc<[Type]>, Error> {
            types.iter().map(|t| Type::of(*t)).collect()
        };
        Ok(Signature {
            takes: all(function.params())?,
            gives: all(function.results())?,
        })
    }

    /// C's type of what it gives.
    pub fn result(&self) -> String {
        match &*self.gives {
            [] => "void".into(),
            [one] => one.c().into(),
            several => format!("struct {}", name_of_several(several)),
        }
    }

    /// The types of its parameters, as C has them between parentheses.
    pub fn parameters(&self) -> String {
        match &*self.takes {
            [] => "void".into(),
            some => some.iter().map(|t| t.c()).collect::<Vec<_>>().join(", "),
        }
    }

    /// The structure that several results are.
    pub fn structure(&self) -> Option<String> {
        if self.gives.len() < 2 {
            return None;
        }
        let mut it = format!("struct {} {{", name_of_several(&self.gives));
        for (n, one) in self.gives.iter().enumerate() {
            let _ = write!(it, " {} v{n};", one.c());
        }
        Some(it + " };")
    }
}

fn name_of_several(types: &[Type]) -> String {
    format!(
        "of_{}",
        types.iter().map(|t| t.letter()).collect::<String>()
    )
}
