//! Typed assembly: instructions, and what is known where ways meet.
//!
//! ```text
//! encode.rs     one instruction, by the checker's own tables of forms
//! link.rs       functions to a module
//! parse.rs      text to functions
//! line.rs         one line of it
//! print.rs      a module to text
//! ```

mod encode;
mod line;
mod link;
mod parse;
mod print;

pub use encode::encode;
pub use link::link;
pub use parse::parse;
pub use print::print;

use tane_checked::{Class, Routine, Type};

/// Names of registers of 8 bytes.
pub const WIDE: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
/// Of 4 bytes.
pub const HALF: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d",
    "r13d", "r14d", "r15d",
];
/// Of one.
pub const BYTE: [&str; 16] = [
    "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b",
    "r13b", "r14b", "r15b",
];

/// An operand. What is written comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A register's lowest bytes, and how many.
    Reg(u8, u8),
    Imm(i64),
    Mem(Mem),
    /// The address of a text, as a number of 4 bytes.
    Text(usize),
    /// The slot of a function in the table, by its place in [`Program::slots`].
    Slot(usize),
}

impl Arg {
    /// A slot's number, where so many are before those of functions.
    pub(crate) fn numbered(self, before: usize) -> Arg {
        match self {
            Arg::Slot(slot) => Arg::Imm((before + slot) as i64),
            other => other,
        }
    }
}

/// An operand in memory: a word by rsp, or in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Bytes of it.
    pub size: u8,
    pub base: Option<u8>,
    /// A register and what it is multiplied by.
    pub index: Option<(u8, u8)>,
    pub disp: i32,
}

/// What is known at a join: registers, and words from the first pushed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub registers: [Type; 16],
    pub words: Vec<Type>,
}

/// What is called by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Function(usize),
    Routine(Routine),
}

/// A part of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Ins(&'static str, Vec<Arg>),
    /// jmp, or a conditional jump, to a label of the function.
    Jump(&'static str, usize),
    Call(Target),
    /// By the slot that a register holds.
    CallSlot(u8),
    Label(usize),
    /// A label, and what is declared there.
    Join(usize, Known),
    /// An instruction that has no text.
    Bytes(Vec<u8>),
    /// The source's line, for those who ask at a trap.
    Line(u32),
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Func {
    pub name: String,
    pub export: bool,
    pub arguments: Vec<Type>,
    pub result: Type,
    pub items: Vec<Item>,
}

/// A module before it is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Bytes of the heap.
    pub heap: u32,
    pub imports: Vec<String>,
    pub texts: Vec<Vec<u8>>,
    /// From number 3.
    pub classes: Vec<Class>,
    /// Signatures that function types name; those of functions are added.
    pub signatures: Vec<(Vec<Type>, Type)>,
    pub functions: Vec<Func>,
    /// Functions in the table, behind the imports.
    pub slots: Vec<usize>,
    /// The sources, if lines are to be told: their names, and how many lines are before each.
    pub sources: Vec<(String, u32)>,
}

/// Why there is no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The line, from 1; 0 if it is none.
    pub line: usize,
    pub what: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for Wrong {}
