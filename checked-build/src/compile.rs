//! C to objects, by the host's gcc and as.

use crate::libc::HEADERS;
use crate::rewrite::rewrite;
use crate::{Error, Options};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// What makes GCC's code simple enough to be rewritten.
const OPTIONS: &[&str] = &[
    "-O2",
    "-fno-math-errno",
    "-fno-pie",
    "-mcmodel=small",
    "-ffixed-r11",
    "-ffixed-r15",
    "-mno-red-zone",
    "-maccumulate-outgoing-args",
    "-mstringop-strategy=libcall",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-reorder-blocks-and-partition",
    "-fno-shrink-wrap-separate",
    "-fasynchronous-unwind-tables",
    "-g1",
];

/// What gcc takes for C++, by the names of files.
const C_PLUS_PLUS: [&str; 7] = ["C", "cc", "cp", "cpp", "CPP", "cxx", "c++"];
/// Of C++ what needs no library of its own.
const PLUS_PLUS: &[&str] = &["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"];

pub const RUNTIME_HAS: [&str; 5] = [
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "__cxa_pure_virtual",
];

/// A directory for what lies between source and module.
pub struct Scratch(pub PathBuf);

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

/// What gcc is told of sources that a user has.
pub fn words(options: &Options, scratch: &Scratch) -> Vec<OsString> {
    let mut words: Vec<OsString> = match &options.libc {
        None => vec!["-ffreestanding".into()],
        Some(libc) => [
            "-nostdinc".into(),
            "-mlong-double-64".into(),
            "-D__TANE_LIBC__".into(),
            "-isystem".into(),
            libc.join(HEADERS).into(),
        ]
        .into(),
    };
    words.extend(["-I".into(), scratch.0.join("include").into()]);
    words.extend(options.gcc.iter().cloned());
    words
}

/// The objects that sources become, in their order, as many at a time as there are processors.
pub fn objects(
    sources: &[impl AsRef<Path> + Sync],
    words: &[OsString],
    scratch: &Scratch,
) -> Result<Vec<Vec<u8>>, Error> {
    let next = AtomicUsize::new(0);
    let done: Vec<OnceLock<Result<Vec<u8>, Error>>> =
        sources.iter().map(|_| OnceLock::new()).collect();
    let work = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Some(source) = sources.get(i) else {
            return;
        };
        let made = object(source.as_ref(), words, &scratch.0.join(format!("{i}")));
        let failed = made.is_err();
        let _ = done[i].set(made);
        if failed {
            next.store(sources.len(), Ordering::Relaxed);
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..processors.min(sources.len()) {
            scope.spawn(work);
        }
        work();
    });
    // What was not begun comes behind what has failed.
    done.into_iter().filter_map(OnceLock::into_inner).collect()
}

fn object(source: &Path, words: &[OsString], scratch: &Path) -> Result<Vec<u8>, Error> {
    let mut gcc = Command::new("gcc");
    gcc.args(OPTIONS);
    let is = |end| source.extension().is_some_and(|extension| extension == end);
    if C_PLUS_PLUS.into_iter().any(is) {
        gcc.args(PLUS_PLUS);
    }
    gcc.args(words).args(["-S", "-o", "-"]);
    let assembly = output(gcc.arg(source))?;
    let assembly = String::from_utf8(assembly)
        .map_err(|_| Error::new(format!("{}: its assembly is no text", source.display())))?;
    assemble(&rewrite(&assembly)?, scratch)
}

/// The object of the runtime.
pub fn runtime(scratch: &Scratch) -> Result<Vec<u8>, Error> {
    let source = scratch.0.join("runtime.c");
    std::fs::write(&source, include_str!("runtime.c")).map_err(|e| Error::of_host(&source, &e))?;
    // Its loops are not to become calls of themselves.
    let words = ["-ffreestanding", "-fno-tree-loop-distribute-patterns"].map(OsString::from);
    object(&source, &words, &scratch.0.join("runtime"))
}

fn assemble(assembly: &str, scratch: &Path) -> Result<Vec<u8>, Error> {
    let (source, object) = (scratch.with_extension("s"), scratch.with_extension("o"));
    std::fs::write(&source, assembly).map_err(|e| Error::of_host(&source, &e))?;
    let mut assembler = Command::new("as");
    // With it an address of 32 bits can be written that has no register.
    assembler.args(["--64", "-mindex-reg", "-o"]);
    output(assembler.arg(&object).arg(&source))?;
    std::fs::read(&object).map_err(|e| Error::of_host(&object, &e))
}

/// What a program prints, or what it complains of.
pub fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
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
