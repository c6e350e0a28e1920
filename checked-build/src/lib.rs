//! Makes modules that the checker accepts. Nothing here is trusted: what comes out is
//! checked like any other module.
//!
//! ```text
//! compile.rs    gcc -S, as
//! rewrite.rs      GCC's assembly, guarded
//!   frame.rs        two stacks instead of one
//!   operand.rs      how operands are written
//! link.rs       objects to a module
//!   lines.rs        which line of the source is where
//! module.h      <tane/module.h>: what a module may import of a kernel
//! runtime.c     memcpy and its kin, which GCC calls on its own
//! ```
//!
//! Imports of ours: `tane-checked`.

mod compile;
mod frame;
mod lines;
mod link;
mod operand;
mod rewrite;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

/// Why there is no module.
#[derive(Debug)]
pub enum Error {
    /// Something in the sources: the place, if it is known, and what.
    Source(String),
    /// This program of the host's is not there.
    NoTool(String),
    /// A file of the host's, and what it said.
    Host(String),
}

impl Error {
    fn new(text: impl Into<String>) -> Error {
        Error::Source(text.into())
    }

    fn of_host(path: &Path, error: &std::io::Error) -> Error {
        Error::Host(format!("{}: {error}", path.display()))
    }

    fn at(file: &str, line: u32, text: impl fmt::Display) -> Error {
        match line {
            0 => Error::Source(text.to_string()),
            _ => Error::Source(format!("{file}:{line}: {text}")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoTool(program) => write!(f, "{program} is not installed"),
            Error::Source(text) | Error::Host(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// What to build a module of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Functions that the loader provides: the module imports those that it uses. What
    /// else is undefined is an error.
    pub imports: Vec<String>,
    /// Further words for gcc, for example `-DNAME`.
    pub gcc: Vec<OsString>,
    /// Leave out which line of the source is where.
    pub strip: bool,
}

/// The functions of `<tane/module.h>`, which a kernel or the loader provides.
pub fn kernel_imports() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("module.h").lines();
    let declared = |line: &'static str| {
        let (before, _) = line.strip_suffix(';')?.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        (!line.starts_with([' ', '*', '\t'])).then_some(name)
    };
    lines.filter_map(declared)
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
    let mut imports = options.imports.clone();
    imports.retain(|name| missing.contains(name));
    let file = link::link(&objects, &imports, !options.strip)?;
    match tane_checked::check(&file) {
        Ok(_) => Ok(file),
        Err(refusal) => Err(Error::new(format!("the checker refuses it: {refusal}"))),
    }
}
