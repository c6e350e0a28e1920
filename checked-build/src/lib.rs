//! Makes modules that the checker accepts. Nothing here is trusted: what comes out is
//! checked like any other module.
//!
//! ```text
//! compile.rs    gcc -S, as
//! rewrite.rs      GCC's assembly, guarded
//!   frame.rs        two stacks instead of one
//!   operand.rs      how operands are written
//! link.rs       objects to a module
//! runtime.c     memcpy and its kin, which GCC calls on its own
//! ```
//!
//! Imports of ours: `tane-checked`.

mod compile;
mod frame;
mod link;
mod operand;
mod rewrite;

use std::fmt;
use std::path::Path;

/// What went wrong: the place in a source, if it is known, and what.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }

    fn at(file: &str, line: u32, text: impl fmt::Display) -> Error {
        match line {
            0 => Error(text.to_string()),
            _ => Error(format!("{file}:{line}: {text}")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What to build a module of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Functions that the loader provides. What else is undefined is an error.
    pub imports: Vec<String>,
    /// Further words for gcc, for example `-DNAME`.
    pub gcc: Vec<String>,
}

/// Builds a module of freestanding C. The runtime has memcpy, memmove, memset and memcmp.
pub fn build(sources: &[&Path], options: &Options) -> Result<Vec<u8>, Error> {
    let scratch = compile::Scratch::new()?;
    let mut objects = Vec::new();
    for source in sources {
        objects.push(compile::object(source, options, &scratch)?);
    }
    let missing = link::undefined(&objects)?;
    if missing
        .iter()
        .any(|name| compile::RUNTIME_HAS.contains(&name.as_str()))
    {
        objects.push(compile::runtime(&scratch)?);
    }
    let file = link::link(&objects, &options.imports)?;
    match tane_checked::check(&file) {
        Ok(_) => Ok(file),
        Err(refusal) => Err(Error::new(format!("the checker refuses it: {refusal}"))),
    }
}
