//! What is known at an instruction.

use super::{Type, NAMES};
use std::fmt;

/// What registers and the words of the function hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub registers: [Type; 16],
    /// The first pushed comes first.
    pub words: Vec<Type>,
    /// By register: those with arrays that it is an index of.
    below: [u16; 16],
}

impl State {
    pub fn new(registers: [Type; 16], words: Vec<Type>) -> State {
        State {
            registers,
            words,
            below: [0; 16],
        }
    }

    /// A register holds something else from now on.
    pub fn set(&mut self, register: u8, ty: Type) {
        self.registers[usize::from(register)] = ty;
        self.below[usize::from(register)] = 0;
        for arrays in &mut self.below {
            *arrays &= !(1 << register);
        }
    }

    pub fn get(&self, register: u8) -> Type {
        self.registers[usize::from(register)]
    }

    /// The index is below the length of the array.
    pub fn bound(&mut self, index: u8, array: u8) {
        self.below[usize::from(index)] |= 1 << array;
    }

    pub fn is_bound(&self, index: u8, array: u8) -> bool {
        self.below[usize::from(index)] & 1 << array != 0
    }

    pub fn forget_bounds(&mut self) {
        self.below = [0; 16];
    }

    /// A call leaves nothing in registers but its result.
    pub fn called(&mut self, result: Type) {
        self.registers = [Type::Unknown; 16];
        self.forget_bounds();
        self.set(0, result);
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (name, ty) in NAMES.iter().zip(&self.registers) {
            if *ty != Type::Unknown {
                write!(f, "{space}{name}:{ty}")?;
                space = " ";
            }
        }
        for (above, ty) in self.words.iter().rev().enumerate() {
            if *ty != Type::Unknown {
                write!(f, "{space}{}(rsp):{ty}", above * 8)?;
                space = " ";
            }
        }
        for (index, arrays) in self.below.iter().enumerate() {
            for (array, name) in NAMES.iter().enumerate() {
                if arrays & 1 << array != 0 {
                    write!(f, "{space}{}<len({name})", NAMES[index])?;
                    space = " ";
                }
            }
        }
        Ok(())
    }
}
