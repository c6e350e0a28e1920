//! Typed modules: what registers and words of the stack hold is followed from instruction
//! to instruction, so that memory is reached only as what it was made as.
//!
//! ```text
//! section.rs    what a module declares: classes, functions, texts, joins
//! imports.rs    the types of what may be imported
//! runtime.rs    the routines that code begins with: allocation, and imports that take arrays
//! state.rs      what is known at an instruction
//! pass.rs       arriving and jumping
//! call.rs       calling and returning
//! effect.rs     what every other instruction does to what is known
//! write.rs      writes a section; nothing proven relies on it
//! ```
//!
//! Null is no type: memory is zero when it is allocated, and an object at 0 is at the lower
//! end of the window, which cannot be accessed. So zero is a value of every type.

mod call;
mod effect;
mod imports;
mod pass;
mod runtime;
mod section;
mod state;
mod write;

pub use imports::{imported, Kind, Signature};
pub use pass::Typing;
pub use runtime::{runtime, Routine, Runtime};
pub use section::{Function, Join, Section, MOST_WORDS};
pub use state::State;

use std::fmt;

/// Where arguments are: rdi, rsi, rdx, rcx, r8, r9.
pub const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
/// The class of bytes that are only read, and that the module's texts have.
pub const TEXT: u16 = 1;
/// The class of bytes that are written.
pub const BYTES: u16 = 2;
/// The first class that a module declares.
pub const FIRST: u16 = 3;

/// What a register or a word holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// Nothing that may be read.
    #[default]
    Unknown,
    Int,
    /// A descriptor that the kernel gave: a number to those who compute, and no number is one.
    Descriptor,
    /// An object of one of these classes, the last one included.
    Object(u16, u16),
    /// The slot of a function with this signature.
    Function(u16),
    /// This number, and what it is the address or the slot of.
    Constant(u32),
    /// So many bytes of zeroes that were just allocated.
    Raw(u32),
    /// The same, with a length, and elements of so many bytes.
    RawArray(u8),
}

/// How objects look. Their first word is the number of their class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// Their length, then bytes.
    Bytes,
    /// A word for each field.
    Record(Vec<Type>),
    /// Their length, then a word for each element.
    Array(Type),
}

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Unknown => f.write_str("?"),
            Type::Int => f.write_str("int"),
            Type::Descriptor => f.write_str("fd"),
            Type::Object(first, last) if first == last => write!(f, "#{first}"),
            Type::Object(first, last) => write!(f, "#{first}-{last}"),
            Type::Function(signature) => write!(f, "fn{signature}"),
            Type::Constant(value) => write!(f, "={value:#x}"),
            Type::Raw(bytes) => write!(f, "new {bytes}"),
            Type::RawArray(bytes) => write!(f, "new[{bytes}]"),
        }
    }
}

impl Type {
    /// Whether it may be read as a number.
    fn is_value(self) -> bool {
        !matches!(self, Type::Unknown | Type::Raw(_) | Type::RawArray(_))
    }
}
