//! tane build: a module of machine code that the checker accepts, made of C, C++, WebAssembly or TL.

mod typed;

use crate::args::parse_size;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::names;
use crate::output::Output;
use crate::session::Global;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_checked::Module;
use tane_checked_build::{libc, Error, Options};

/// Make a module of machine code that `check` accepts, of C, C++, WebAssembly or TL
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane build tool.c                       makes tool.tmod
  tane build -o tool.tmod a.c b.c -D FAST -I include
  tane build tool.c --import progress     a function that your own loader provides
  tane build tool.cpp                     of C++, without exceptions, RTTI and its library
  tane build tool.tl                      of TL, a small language whose modules keep types
  tane build --reformat tool.tl           lays it out anew, in its place
  tane build --make-libc musl-1.2.3 -o musl      a C library, made once, of musl's sources
  tane build --libc musl -o minigzip.tmod minigzip.c *.c
  tane build program.wasm                  WebAssembly, of any compiler

A source that ends in .tl is a program of TL (docs/tl.md), one in .tasm typed assembly, as
`tane check --disassemble` prints it; either is a module by itself (TL with the files that it
uses) and takes no compiler.
Without --libc the sources are freestanding C. With it they are programs, of more files of C
and -D, -I and -O as their own Makefiles have; what that library has not is told by the linker.
What gcc takes for C++ by its name (.cpp, .cc, .cxx and their like) is C++, freestanding too.
The host's gcc and as compile it; nothing of them is trusted: what comes out is checked as
any other module is. The functions of <tane/module.h>, system calls of the kernel that the
module will run beside, are imports without further words. What is not supported is an
error with its line.

WebAssembly is one file: version 1.0 with sign extension, saturating conversions, memory.copy
and .fill, several results. What it imports of wasi_snapshot_preview1 is there, anything else is
MODULE.NAME and takes --import; _start becomes main. Functions of more than six parameters or
several results are not exported, and floating-point numbers are passed as their bits.
Exit codes: 0, it is made; 1, something in the sources is wrong; 3, a
file cannot be read or written, or there is no gcc.")]
pub struct Args {
    /// The sources in C or C++; or one file of WebAssembly, TL or typed assembly
    #[arg(value_name = "FILE", required_unless_present = "make_libc")]
    pub sources: Vec<OsString>,
    /// Where to write the module [default: the first source's name with .tmod]
    #[arg(short, long, value_name = "FILE.tmod")]
    pub output: Option<OsString>,
    /// The C library that programs use: a directory that --make-libc has made
    #[arg(long, value_name = "DIR")]
    pub libc: Option<OsString>,
    /// Make a C library of musl's sources, an unpacked directory, into the one that -o names
    #[arg(long, value_name = "MUSL", requires = "output",
          conflicts_with_all = ["sources", "libc", "import", "define", "include", "strip"])]
    pub make_libc: Option<OsString>,
    /// A function that whoever loads the module provides (repeatable)
    #[arg(long, value_name = "NAME")]
    pub import: Vec<String>,
    /// A macro of the preprocessor's (repeatable)
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<OsString>,
    /// Where headers are looked for (repeatable)
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<OsString>,
    /// How hard gcc tries
    #[arg(short = 'O', value_name = "LEVEL", default_value = "2",
          value_parser = ["0", "1", "2", "3", "s"])]
    pub optimize: String,
    /// Leave out which line of the source is where, by which run-module tells of traps
    #[arg(long)]
    pub strip: bool,
    /// Lay programs of TL out anew, in their place, and make nothing
    #[arg(long, conflicts_with_all = ["output", "libc", "make_libc", "import", "define",
          "include", "strip", "heap"])]
    pub reformat: bool,
    /// Memory for the objects of one call, of TL and typed assembly [default: 16M, or what
    /// the assembly says]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub heap: Option<u64>,
    /// Replace an existing file that is no module
    #[arg(long)]
    pub force: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    if let (Some(musl), Some(output)) = (&args.make_libc, &args.output) {
        let made = libc::make(Path::new(musl), Path::new(output));
        return made.map(|()| 0).map_err(|error| failure(&error));
    }
    if args.reformat {
        return typed::format(&args);
    }
    refuse_mixture(&args)?;
    if let Some(directory) = &args.libc {
        let library = Path::new(directory).join(libc::LIBRARY);
        File::open(&library).map_err(|error| {
            let failure = Failure::of_host(&library, &error);
            failure.remedy("--make-libc makes a library, of musl's sources")
        })?;
    }
    let sources: Vec<&Path> = args.sources.iter().map(Path::new).collect();
    for source in &sources {
        File::open(source).map_err(|error| Failure::of_host(source, &error))?;
    }
    let to = match &args.output {
        Some(output) => PathBuf::from(output),
        None => sources[0].with_extension("tmod"),
    };
    refuse_words_for_c(&args)?;
    check_replaceable(&to, args.force)?;
    let file = match sources.first().filter(|source| typed::is_typed(source)) {
        Some(source) => typed::build(&args, source)?,
        None => of_c(&args, &sources)?,
    };
    write(&to, &file).map_err(|error| Failure::of_host(&to, &error))?;
    if global.json {
        let mut out = Output::new();
        out.json(&told(&to, &file))?;
        out.flush()?;
    }
    Ok(0)
}

/// TL and typed assembly are one source, and take no options that are for gcc.
fn refuse_mixture(args: &Args) -> Result<()> {
    let typed = args
        .sources
        .iter()
        .any(|source| typed::is_typed(Path::new(source)));
    let of_gcc = args.libc.is_some()
        || !(args.import.is_empty() && args.define.is_empty() && args.include.is_empty());
    let text = match typed {
        true if args.sources.len() > 1 => "one source of TL or typed assembly is a whole module",
        true if of_gcc => "--libc, --import, -D and -I are for C",
        false if args.heap.is_some() => "--heap is for TL and typed assembly: C has run-module's",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("build: {text}")))
}

fn of_c(args: &Args, sources: &[&Path]) -> Result<Vec<u8>> {
    let options = Options {
        imports: imports(&args.import),
        gcc: words_for_gcc(args),
        strip: args.strip,
        libc: args.libc.as_ref().map(PathBuf::from),
    };
    tane_checked_build::build(sources, &options).map_err(|error| failure(&error))
}

fn refuse_words_for_c(args: &Args) -> Result<()> {
    let is_wasm = |source: &OsString| Path::new(source).extension() == Some("wasm".as_ref());
    let for_c = args.libc.is_some() || !args.define.is_empty() || !args.include.is_empty();
    match args.sources.iter().any(is_wasm) && (for_c || args.sources.len() > 1) {
        true => Err(Failure::usage(
            "build: WebAssembly is one file, and --libc, -D and -I are for C",
        )),
        false => Ok(()),
    }
}

fn imports(own: &[String]) -> Vec<String> {
    let kernel = tane_checked_build::kernel_imports().map(str::to_owned);
    kernel.chain(own.iter().cloned()).collect()
}

/// A later -O, -D or -I counts for gcc, and so these do.
fn words_for_gcc(args: &Args) -> Vec<OsString> {
    let word = |letter: &str, value: &OsStr| {
        let mut word = OsString::from(letter);
        word.push(value);
        word
    };
    let defines = args.define.iter().map(|value| word("-D", value));
    let includes = args.include.iter().map(|value| word("-I", value));
    let level = std::iter::once(word("-O", args.optimize.as_ref()));
    level.chain(defines).chain(includes).collect()
}

/// A module is made anew as often as one likes; anything else may be somebody's work.
fn check_replaceable(to: &Path, force: bool) -> Result<()> {
    // Opened, a pipe waits for who reads it.
    if to.metadata().is_ok_and(|found| !found.is_file()) {
        let name = names::plain(to.as_os_str().as_bytes());
        let failure = Failure::new(NO_IMAGE, format!("{name}: is no regular file"));
        return Err(failure.about(to.as_os_str().as_bytes()));
    }
    let is_ours = match std::fs::read(to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::of_host(to, &error)),
        Ok(bytes) => bytes.is_empty() || Module::parse(&bytes).is_ok(),
    };
    match is_ours || force {
        true => Ok(()),
        false => {
            let name = names::plain(to.as_os_str().as_bytes());
            let failure = Failure::new(NO_IMAGE, format!("{name}: exists, and is no module"));
            let failure = failure.about(to.as_os_str().as_bytes());
            Err(failure.remedy("choose another name with -o, or --force replaces it"))
        }
    }
}

/// Half of a module is none, and would be in the way the next time. What cannot even be
/// opened is as it was, and stays.
fn write(to: &Path, file: &[u8]) -> std::io::Result<()> {
    let written = File::create(to)?.write_all(file);
    if written.is_err() && to.is_file() {
        let _ = std::fs::remove_file(to);
    }
    written
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::NoTool(program) => Failure::new(NO_IMAGE, error.to_string()).remedy(format!(
            "install it: {program} is of Debian's packages gcc and binutils"
        )),
        Error::Source(_) => Failure::new(SOME_FAILED, error.to_string()),
        Error::Host(_) => Failure::new(NO_IMAGE, error.to_string()),
    }
}

fn told(to: &Path, file: &[u8]) -> serde_json::Value {
    // It was accepted a moment ago.
    let (code, imports, exports) = match Module::parse(file) {
        Ok(module) => (
            module.code.len(),
            json!(module.imports),
            json!(module.exports.iter().map(|e| e.name).collect::<Vec<_>>()),
        ),
        Err(_) => (0, json!([]), json!([])),
    };
    json!({
        "path": names::plain(to.as_os_str().as_bytes()),
        "bytes": file.len(),
        "code": code,
        "imports": imports,
        "exports": exports,
    })
}
