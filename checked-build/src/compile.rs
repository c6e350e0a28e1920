//! C to objects, by the host's gcc and as.

use crate::rewrite::rewrite;
use crate::{Error, Options};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What makes GCC's code simple enough to be rewritten.
const OPTIONS: &[&str] = &[
    "-O2",
    "-ffreestanding",
    "-fno-math-errno",
    "-fno-pie",
    "-mcmodel=small",
    "-ffixed-r11",
    "-ffixed-r15",
    "-mno-red-zone",
    "-maccumulate-outgoing-args",
    "-mstringop-strategy=libcall",
    "-fno-jump-tables",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-reorder-blocks-and-partition",
    "-fno-shrink-wrap-separate",
    "-fasynchronous-unwind-tables",
    "-g1",
];

pub const RUNTIME_HAS: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

/// A directory for what lies between source and module.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Scratch, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tane-build-{}-{n}", std::process::id()));
        let failed = |e: std::io::Error| Error::of_host(&path, &e);
        std::fs::create_dir(&path).map_err(failed)?;
        let scratch = Scratch(path.clone());
        let headers = path.join("include/tane");
        std::fs::create_dir_all(&headers).map_err(failed)?;
        std::fs::write(headers.join("module.h"), include_str!("module.h")).map_err(failed)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The object that a source becomes.
pub fn object(source: &Path, options: &Options, scratch: &Scratch) -> Result<Vec<u8>, Error> {
    let mut gcc = Command::new("gcc");
    gcc.args(OPTIONS)
        .arg("-I")
        .arg(scratch.0.join("include"))
        .args(&options.gcc)
        .args(["-S", "-o", "-"])
        .arg(source);
    let assembly = output(&mut gcc)?;
    let assembly = String::from_utf8(assembly)
        .map_err(|_| Error::new(format!("{}: its assembly is no text", source.display())))?;
    assemble(&rewrite(&assembly)?, scratch)
}

/// The object of the runtime.
pub fn runtime(scratch: &Scratch) -> Result<Vec<u8>, Error> {
    let source = scratch.0.join("runtime.c");
    std::fs::write(&source, include_str!("runtime.c")).map_err(|e| Error::of_host(&source, &e))?;
    // Its loops are not to become calls of themselves.
    let options = Options {
        gcc: vec!["-fno-tree-loop-distribute-patterns".into()],
        ..Options::default()
    };
    object(&source, &options, scratch)
}

fn assemble(assembly: &str, scratch: &Scratch) -> Result<Vec<u8>, Error> {
    let (source, object) = (scratch.0.join("guarded.s"), scratch.0.join("guarded.o"));
    let failed = |e: std::io::Error| Error::of_host(&scratch.0, &e);
    std::fs::write(&source, assembly).map_err(failed)?;
    output(
        Command::new("as")
            .args(["--64", "-o"])
            .arg(&object)
            .arg(&source),
    )?;
    std::fs::read(&object).map_err(failed)
}

/// What a program prints, or what it complains of.
fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output();
    let done = done.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::NoTool(program.clone()),
        _ => Error::of_host(Path::new(&program), &e),
    })?;
    match done.status.success() {
        true => Ok(done.stdout),
        false => Err(Error::new(
            String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        )),
    }
}
