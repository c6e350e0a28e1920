//! musl, as its authors have it, to a library of guarded code. It asks a system for things in
//! one place, and is plain C but for some files: there it gets `libc/` instead.

use crate::compile::{self, output, Scratch};
use crate::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Below the directory that [`make`] makes.
pub const LIBRARY: &str = "libc.a";
pub const HEADERS: &str = "include";

/// Ours, in place of musl's for a processor.
const ARCH: [(&str, &str); 4] = [
    ("atomic_arch.h", include_str!("libc/arch/atomic_arch.h")),
    ("calls.h", include_str!("libc/arch/calls.h")),
    ("pthread_arch.h", include_str!("libc/arch/pthread_arch.h")),
    ("syscall_arch.h", include_str!("libc/arch/syscall_arch.h")),
];
const SOURCES: [(&str, &str); 8] = [
    ("tane_files.c", include_str!("libc/files.c")),
    ("tane_fstat.c", include_str!("libc/fstat.c")),
    ("tane_memory.c", include_str!("libc/memory.c")),
    ("tane_poll.c", include_str!("libc/poll.c")),
    ("tane_sockets.c", include_str!("libc/sockets.c")),
    ("tane_start.c", include_str!("libc/start.c")),
    ("tane_streams.c", include_str!("libc/streams.c")),
    ("tane_users.c", include_str!("libc/users.c")),
];

/// Directories of musl's sources for what a module has not: asynchronous and shared things,
/// libraries that are loaded, and long jumps.
const LEFT_OUT: [&str; 6] = ["aio", "ipc", "ldso", "mq", "setjmp", "sched"];
/// Files that ours replace: start, users, threads, fstat(), and what runtime.c has.
const REPLACED: [&str; 14] = [
    "env/__init_tls.c",
    "env/__libc_start_main.c",
    "passwd/nscd_query.c",
    "stat/fstat.c",
    "thread/__syscall_cp.c",
    "thread/__set_thread_area.c",
    "thread/__unmapself.c",
    "thread/clone.c",
    "thread/pthread_create.c",
    "thread/syscall_cp.c",
    "string/memcmp.c",
    "string/memcpy.c",
    "string/memmove.c",
    "string/memset.c",
];
/// The processor's own, without the x87's.
const OF_PROCESSOR: [&str; 10] = [
    "fabs", "fabsf", "fma", "fmaf", "llrint", "llrintf", "lrint", "lrintf", "sqrt", "sqrtf",
];

const WORDS: [&str; 9] = [
    "-std=c99",
    "-ffreestanding",
    "-nostdinc",
    "-mlong-double-64",
    "-fno-strict-aliasing",
    "-frounding-math",
    "-fexcess-precision=standard",
    "-fno-tree-loop-distribute-patterns",
    "-D_XOPEN_SOURCE=700",
];

/// Makes a directory with headers and a library, of a directory with musl's sources.
pub fn make(musl: &Path, to: &Path) -> Result<(), Error> {
    for part in ["VERSION", "src/internal/syscall.h", "arch/x86_64/bits"] {
        let path = musl.join(part);
        path.metadata().map_err(|e| Error::of_host(&path, &e))?;
    }
    let scratch = Scratch::new()?;
    let headers = to.join(HEADERS);
    install_headers(musl, &headers)?;
    let arch = scratch.0.join("arch");
    for (name, text) in ARCH {
        write(&arch.join(name), text)?;
    }
    write(
        &arch.join("bits/float.h"),
        read(&headers.join("bits/float.h"))?,
    )?;
    let version = read(&musl.join("VERSION"))?;
    let version = format!("#define VERSION \"{}\"\n", version.trim());
    write(&arch.join("version.h"), &version)?;
    let mut sources = sources(musl)?;
    for (name, text) in SOURCES {
        let path = scratch.0.join(name);
        write(&path, text)?;
        sources.push(path);
    }
    let mut words: Vec<OsString> = WORDS.map(OsString::from).into();
    let own = ["arch/x86_64", "arch/generic", "src/include", "src/internal"];
    let own = own.map(|part| musl.join(part));
    let all = std::iter::once(arch).chain(own).chain([headers]);
    words.extend(all.flat_map(|directory| ["-I".into(), directory.into()]));
    let objects = compile::objects(&sources, &words, &scratch)?;
    archive(&objects, &sources, &scratch, &to.join(LIBRARY))
}

fn sources(musl: &Path) -> Result<Vec<PathBuf>, Error> {
    let src = musl.join("src");
    let mut directories = list(&src)?;
    directories.retain(|path| !LEFT_OUT.iter().any(|name| path.ends_with(name)));
    directories.push(src.join("malloc/mallocng"));
    let mut sources = Vec::new();
    for directory in directories.iter().filter(|path| path.is_dir()) {
        sources.extend(list(directory)?);
    }
    let is_wanted = |path: &PathBuf| {
        let is_c = path.extension().is_some_and(|end| end == "c");
        let replaced = REPLACED.iter().any(|name| path.ends_with(name));
        let own = OF_PROCESSOR.iter();
        let mut own = own.map(|name| format!("math/{name}.c"));
        is_c && !replaced && !own.any(|name| path.ends_with(name))
    };
    sources.retain(is_wanted);
    let own = OF_PROCESSOR.map(|name| src.join(format!("math/x86_64/{name}.c")));
    sources.extend(own);
    Ok(sources)
}

/// As musl's Makefile does, but for the size of a long double.
fn install_headers(musl: &Path, to: &Path) -> Result<(), Error> {
    let bits = to.join("bits");
    copy(&musl.join("include"), to)?;
    copy(&musl.join("arch/generic/bits"), &bits)?;
    copy(&musl.join("arch/x86_64/bits"), &bits)?;
    // One whose long double is a double.
    let double = read(&musl.join("arch/arm/bits/float.h"))?;
    write(&bits.join("float.h"), &double)?;
    let mut sed = Command::new("sed");
    sed.arg("-f").arg(musl.join("tools/mkalltypes.sed"));
    sed.arg(musl.join("arch/x86_64/bits/alltypes.h.in"));
    let types = output(sed.arg(musl.join("include/alltypes.h.in")))?;
    write(&bits.join("alltypes.h"), types)?;
    let numbers = read(&musl.join("arch/x86_64/bits/syscall.h.in"))?;
    let others = numbers.replace("__NR_", "SYS_");
    write(&bits.join("syscall.h"), format!("{numbers}{others}"))
}

fn archive(
    objects: &[Vec<u8>],
    sources: &[PathBuf],
    scratch: &Scratch,
    to: &Path,
) -> Result<(), Error> {
    let members = scratch.0.join("members");
    let mut paths = Vec::new();
    for (i, (object, source)) in objects.iter().zip(sources).enumerate() {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let path = members.join(format!("{i}-{name}.o"));
        write(&path, object)?;
        paths.push(path);
    }
    // Complete, or not there.
    let made = scratch.0.join(LIBRARY);
    output(Command::new("ar").arg("rcsD").arg(&made).args(&paths))?;
    let bytes = std::fs::read(&made).map_err(|e| Error::of_host(&made, &e))?;
    write(to, bytes)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |e| Error::of_host(directory, &e);
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    for path in list(from)? {
        let to = to.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => copy(&path, &to)?,
            false if path.extension().is_some_and(|end| end == "h") => write(&to, read(&path)?)?,
            false => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| Error::of_host(path, &e))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    let made = std::fs::create_dir_all(parent);
    let written = made.and_then(|()| std::fs::write(path, bytes));
    written.map_err(|e| Error::of_host(path, &e))
}
