//! tane build: a module of machine code that the checker accepts, made of C.

use crate::args::Global;
use crate::failure::{Failure, Result, NO_IMAGE, SOME_FAILED};
use crate::names;
use crate::output::Output;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_checked::Module;
use tane_checked_build::{Error, Options};

/// Make a module of machine code that `check` accepts, of freestanding C
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tane build tool.c                       makes tool.tmod
  tane build -o tool.tmod a.c b.c -D FAST -I include
  tane build tool.c --import progress     a function that your own loader provides

The host's gcc and as compile it; nothing of them is trusted: what comes out is checked as
any other module is. The functions of <tane/module.h>, system calls of the kernel that the
module will run beside, are imports without further words. What is not supported is an
error with its line. Exit codes: 0, it is made; 1, something in the sources is wrong; 3, a
file cannot be read or written, or there is no gcc.")]
pub struct Args {
    /// The sources, in C
    #[arg(value_name = "FILE.c", required = true)]
    pub sources: Vec<OsString>,
    /// Where to write the module [default: the first source's name with .tmod]
    #[arg(short, long, value_name = "FILE.tmod")]
    pub output: Option<OsString>,
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
    /// Replace an existing file that is no module
    #[arg(long)]
    pub force: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let sources: Vec<&Path> = args.sources.iter().map(Path::new).collect();
    for source in &sources {
        File::open(source).map_err(|error| Failure::of_host(source, &error))?;
    }
    let to = match &args.output {
        Some(output) => PathBuf::from(output),
        None => sources[0].with_extension("tmod"),
    };
    check_replaceable(&to, args.force)?;
    let options = Options {
        imports: imports(&args.import),
        gcc: words_for_gcc(&args),
        strip: args.strip,
    };
    let file = tane_checked_build::build(&sources, &options).map_err(|error| failure(&error))?;
    write(&to, &file).map_err(|error| Failure::of_host(&to, &error))?;
    if global.json {
        let mut out = Output::new();
        out.json(&told(&to, &file))?;
        out.flush()?;
    }
    Ok(0)
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
