//! The language TL (docs/tl.md).
//!
//! ```text
//! lex.rs        text to tokens
//! tree.rs       what a program is made of
//! parse.rs      tokens to that
//! operators.rs    its expressions
//! types.rs      types, and what names stand for
//! check.rs        whether a program keeps them
//! check_expr.rs   in its expressions
//! place.rs      registers and words for variables
//! emit.rs       functions to typed assembly
//! stmt.rs         statements
//! whole.rs        what they share
//! expr.rs         expressions
//! build.rs        calls, what is made anew, and what is stored
//! finish.rs       what is left to do in the end
//! interpret.rs  runs a program as it is written: what the tests compare with
//! format.rs     a program as it is laid out
//! std.tl        functions that are written in the language
//! ```

mod build;
mod check;
mod check_expr;
mod emit;
mod expr;
mod finish;
mod format;
mod interpret;
mod lex;
mod operators;
mod parse;
mod place;
mod stmt;
mod tree;
mod types;
mod whole;

pub use format::format;
pub use interpret::{interpret, Ended};

use std::fmt;

/// What is wrong in a source, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes from the source's start.
    pub at: usize,
    pub what: String,
}

/// The same, told with the name of the source and the line that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub file: String,
    /// From 1, in lines and in characters.
    pub line: usize,
    pub column: usize,
    pub what: String,
    source: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.what
        )?;
        // What is before the place, as wide as it is.
        let before = self.source.chars().take(self.column - 1);
        let before: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "    {}\n    {before}^", self.source)
    }
}

impl std::error::Error for Told {}

impl Mistake {
    fn new(at: usize, what: impl Into<String>) -> Mistake {
        Mistake {
            at,
            what: what.into(),
        }
    }

    /// With the line of the source.
    pub fn told(&self, file: &str, source: &str) -> Told {
        let at = (0..=self.at.min(source.len())).rev();
        let at = at
            .into_iter()
            .find(|at| source.is_char_boundary(*at))
            .unwrap_or(0);
        let start = source[..at].rfind('\n').map_or(0, |i| i + 1);
        let end = source[at..].find('\n').map_or(source.len(), |i| at + i);
        Told {
            file: file.into(),
            line: source[..at].matches('\n').count() + 1,
            column: source[start..at].chars().count() + 1,
            what: self.what.clone(),
            source: source[start..end].trim_end().into(),
        }
    }
}

/// The functions that are written in the language, and come with it.
const STD: &str = include_str!("std.tl");

/// What a program is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the heap.
    pub heap: u32,
    /// Tell which line of the source is where.
    pub lines: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            heap: 16 << 20,
            lines: true,
        }
    }
}

/// Reads and checks a program.
fn program(file: &str, source: &str) -> Result<(tree::Program, types::Known), Told> {
    let told = |mistake: Mistake| mistake.told(file, source);
    let mut program = parse::parse(STD, 0).map_err(|mistake| mistake.told("std.tl", STD))?;
    for function in &mut program.functions {
        function.own = false;
    }
    let rest = parse::parse(source, program.ids).map_err(told)?;
    program.add(rest);
    let known = check::check(&program).map_err(told)?;
    Ok((program, known))
}

/// Makes typed assembly of a program.
pub fn assembly(file: &str, source: &str, options: Options) -> Result<crate::asm::Program, Told> {
    let (program, known) = program(file, source)?;
    let mut made = emit::emit(&program, &known, source, options)
        .map_err(|mistake| mistake.told(file, source))?;
    made.source = options.lines.then(|| file.to_owned());
    Ok(made)
}

/// Makes a module of a program, and checks it.
pub fn build(file: &str, source: &str, options: Options) -> Result<Vec<u8>, Told> {
    let made = assembly(file, source, options)?;
    let wrong = |what: String| Mistake::new(0, what).told(file, source);
    let module = crate::asm::link(&made).map_err(|error| wrong(error.to_string()))?;
    match tane_checked::check(&module) {
        Ok(_) => Ok(module),
        Err(refusal) => Err(wrong(format!(
            "the checker refuses what was made: {refusal}"
        ))),
    }
}
