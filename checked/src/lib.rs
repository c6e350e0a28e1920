//! Proves of native code that it can reach nothing but its own window of memory.
//!
//! A module is machine code for x86-64 in a container (`.tmod`). [`check`] reads it once,
//! from front to back, and either refuses it with the first [`Rule`] that it breaks, or
//! has shown that running it reads and writes only a window of 4 GiB and the stack of its
//! return addresses, and leaves its code only by imports, by returning, and by traps. Who
//! compiled it, and with what, does not matter.
//!
//! ```text
//! module.rs     the container: which bytes are code, data, names, annotations
//! layout.rs     where in the window they are
//! table/        the forms of instructions that there are, as the Intel SDM lists them
//! form.rs         how such a line is written
//! instruction.rs  what is known of one
//! decode.rs     one instruction, in the one encoding that it may have
//! check.rs      the pass: a function for each rule
//! types/        what typed modules keep beside that: no more than types say
//! rule.rs       the rules, their numbers and remedies
//! write.rs      writes a container; nothing proven relies on it
//! ```
//!
//! What the loader has to do so that this is true is said at [`Layout`].
//!
//! Imports of ours: none.

#![forbid(unsafe_code)]

mod check;
mod decode;
mod form;
mod instruction;
mod layout;
mod module;
mod rule;
mod table;
mod types;
mod write;

pub use check::{check, check_with, Step, Why};
pub use decode::{decode, Bad};
pub use form::{Encoding, Flow, Form, Map, Op, Place, Prefix, Size};
pub use instruction::{Instruction, Memory, Operand};
pub use layout::{Layout, PAGE};
pub use module::{Export, Module, EMPTY, IMPORT};
pub use rule::{Refusal, Rule};
pub use table::forms;
pub use types::{
    imported, runtime, Class, Function, Join, Kind, Routine, Runtime, Section, Signature, State,
    Type, ARGUMENTS, BYTES, TEXT,
};
