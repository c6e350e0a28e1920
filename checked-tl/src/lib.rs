//! Typed modules, made: typed assembly, and the language TL. Nothing here is trusted: what
//! comes out is checked like any other module.
//!
//! ```text
//! asm/          typed assembly: text, instructions, modules
//! tl/           the language: text to typed assembly
//! ```
//!
//! Imports of ours: `tane-checked`.

#![forbid(unsafe_code)]

pub mod asm;
pub mod tl;
