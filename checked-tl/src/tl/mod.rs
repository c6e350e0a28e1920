//! The language TL (docs/tl.md).
//!
//! ```text
//! files.rs      the text of a program's files
//! lex.rs        text to tokens
//! tree.rs       what a program is made of
//! parse.rs      tokens to that
//! operators.rs    its expressions
//! angles.rs       what is between < and >
//! types.rs      types, and what names stand for
//! names.rs      which names a file sees
//! check.rs        whether a program keeps them
//! declare.rs      in what it declares
//! check_expr.rs   in its expressions
//! check_make.rs   in records and cases that are made
//! generic.rs      instances of what is generic
//! infer.rs        which types it is used with
//! copy.rs         a function once more
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

mod angles;
mod build;
mod check;
mod check_expr;
mod check_make;
mod copy;
mod declare;
mod emit;
mod expr;
mod files;
mod finish;
mod format;
mod generic;
mod infer;
mod interpret;
mod lex;
mod names;
mod operators;
mod parse;
mod place;
mod stmt;
mod tree;
mod types;
mod whole;

use files::Files;
pub use files::{Read, MOST_FILES, MOST_TEXT};
pub use format::format;
pub use interpret::{interpret, Ended};

use std::fmt;

/// What is wrong in a source, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes from the source's start.
    pub at: usize,
    pub what: String,
    /// If it is in an instance of what is generic: where that is needed, and what to say there.
    pub needed: Vec<(usize, String)>,
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
    /// What it comes from.
    pub needed: Vec<Told>,
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
        write!(f, "    {}\n    {before}^", self.source)?;
        self.needed.iter().try_for_each(|it| write!(f, "\n{it}"))
    }
}

impl std::error::Error for Told {}

impl Mistake {
    fn new(at: usize, what: impl Into<String>) -> Mistake {
        Mistake {
            at,
            what: what.into(),
            needed: Vec::new(),
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
            needed: Vec::new(),
        }
    }
}

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

/// For a program of one file.
fn alone(_: &str, _: &str) -> Result<(String, String), String> {
    Err("no other file can be read here".into())
}

/// Reads and checks a program.
fn program(
    file: &str,
    source: &str,
    read: &mut Read,
) -> Result<(Files, tree::Program, types::Known), Told> {
    let (files, program) = Files::read(file, source, read)?;
    let (program, known) = check::check(program, &files).map_err(|mistake| files.told(&mistake))?;
    Ok((files, program, known))
}

/// Makes typed assembly of a program.
pub fn assembly(file: &str, source: &str, options: Options) -> Result<crate::asm::Program, Told> {
    assembly_with(file, source, &mut alone, options)
}

fn assembly_with(
    file: &str,
    source: &str,
    read: &mut Read,
    options: Options,
) -> Result<crate::asm::Program, Told> {
    let (files, program, known) = program(file, source, read)?;
    let mut made = emit::emit(&program, &known, &files.text, options)
        .map_err(|mistake| files.told(&mistake))?;
    if options.lines {
        made.sources = files.lines();
    }
    Ok(made)
}

/// Makes a module of a program, and checks it.
pub fn build(file: &str, source: &str, options: Options) -> Result<Vec<u8>, Told> {
    build_with(file, source, &mut alone, options)
}

/// The same of a program whose other files are read so.
pub fn build_with(
    file: &str,
    source: &str,
    read: &mut Read,
    options: Options,
) -> Result<Vec<u8>, Told> {
    let made = assembly_with(file, source, read, options)?;
    let wrong = |what: String| Mistake::new(0, what).told(file, source);
    let module = crate::asm::link(&made).map_err(|error| wrong(error.to_string()))?;
    match tane_checked::check(&module) {
        Ok(_) => Ok(module),
        Err(refusal) => Err(wrong(format!(
            "the checker refuses what was made: {refusal}"
        ))),
    }
}
