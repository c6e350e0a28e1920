//! Makes modules that the checker accepts. Nothing here is trusted: what comes out is
//! checked like any other module.
//!
//! ```text
//! compile.rs    gcc -S, as
//! rewrite.rs      GCC's assembly, guarded
//!   directive.rs    frames, lines and sections, which it tells of
//!   frame.rs        two stacks instead of one
//!   operand.rs      how operands are written
//! wasm/         WebAssembly to C
//! libc.rs       musl's sources to a library
//! library.rs    which of a library's objects a program needs
//! link.rs       objects to a module
//!   relocate.rs     what stands where an address is left open
//!   lines.rs        which line of the source is where
//! module.h      <tane/module.h>: what a module may import of a kernel
//! runtime.c     memcpy and its kin, which GCC calls on its own
//! libc/         what musl stands on, instead of Linux and assembly
//! ```
//!
//! Imports of ours: `tane-checked`.

mod compile;
mod frame;
pub mod libc;
mod library;
mod lines;
mod link;
mod operand;
mod rewrite;
mod wasm;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

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
    /// The C library to build against, which [`libc::make`] has made.
    pub libc: Option<PathBuf>,
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

/// Builds a module of C, freestanding or with a library, or of one file of WebAssembly. The
/// runtime has memcpy, memmove, memset and memcmp.
pub fn build(sources: &[&Path], options: &Options) -> Result<Vec<u8>, Error> {
    if let [one] = sources {
        let file = std::fs::read(one).map_err(|e| Error::of_host(one, &e))?;
        if file.starts_with(wasm::MAGIC) || one.extension().is_some_and(|end| end == "wasm") {
            let named = |error| Error::new(format!("{}: {error}", one.display()));
            return build_wasm(&file, options).map_err(named);
        }
    }
    let scratch = compile::Scratch::new()?;
    let words = compile::words(options, &scratch);
    let mut objects = compile::objects(sources, &words, &scratch)?;
    if let Some(libc) = &options.libc {
        library::add(&libc.join(libc::LIBRARY), &mut objects)?;
    }
    let linked = Linked {
        imports: options.imports.clone(),
        exports: None,
        with_lines: !options.strip,
    };
    finish(objects, linked, &scratch)
}

/// Its lines are of no file that anybody has, and are left out.
fn build_wasm(file: &[u8], options: &Options) -> Result<Vec<u8>, Error> {
    let translated = wasm::translate(file)?;
    let own = translated.imports.iter();
    if let Some(name) = own.clone().find(|name| !options.imports.contains(name)) {
        let text = format!("it imports {name}: whoever loads it provides that: --import {name}");
        return Err(Error::new(text));
    }
    let scratch = compile::Scratch::new()?;
    let source = scratch.0.join("wasm.c");
    std::fs::write(&source, &translated.c).map_err(|e| Error::of_host(&source, &e))?;
    let mut words: Vec<OsString> = wasm::WORDS.map(OsString::from).into();
    words.extend(options.gcc.iter().cloned());
    let objects = compile::objects(&[source], &words, &scratch)?;
    let imports = kernel_imports().map(str::to_owned);
    let linked = Linked {
        imports: imports.chain(own.cloned()).collect(),
        exports: Some(translated.exports),
        with_lines: false,
    };
    finish(objects, linked, &scratch)
}

/// How objects are linked.
struct Linked {
    /// What may be imported.
    imports: Vec<String>,
    /// Symbols and the names that they are exported by; none: all functions, by their own.
    exports: Option<Vec<(String, String)>>,
    with_lines: bool,
}

/// The module, checked.
fn finish(
    mut objects: Vec<Vec<u8>>,
    mut linked: Linked,
    scratch: &compile::Scratch,
) -> Result<Vec<u8>, Error> {
    let missing = link::undefined(&objects)?;
    if missing
        .iter()
        .any(|name| compile::RUNTIME_HAS.contains(&name.as_str()))
    {
        objects.push(compile::runtime(scratch)?);
    }
    let prefix = link::IMPORT_PREFIX;
    let used = |name: &str| missing.contains(name) || missing.contains(&format!("{prefix}{name}"));
    linked.imports.retain(|name| used(name));
    let file = link::link(&objects, &linked)?;
    match tane_checked::check(&file) {
        Ok(_) => Ok(file),
        Err(refusal) => Err(Error::new(format!("the checker refuses it: {refusal}"))),
    }
}
