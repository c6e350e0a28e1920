//! Promises of programs that are built with a C library: musl's sources and zlib's, of Debian's
//! source packages (scripts/foreign-images).

use crate::common::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tane_test_support::skip;

pub fn sources(package: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/foreign");
    let path = root.join(package);
    if path.is_dir() && root.join(format!("{package}.complete")).is_file() {
        return Some(path.canonicalize().expect("a path"));
    }
    skip("no sources of programs: scripts/foreign-images fetches them");
    None
}

/// musl's library, once for all tests.
pub fn musl() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let sources = sources("musl")?;
        if !has_kernel() {
            return None;
        }
        if let Some(what) = tane_checked_run::lacks() {
            skip(what);
            return None;
        }
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("musl");
        if to.exists() {
            std::fs::remove_dir_all(&to).expect("what another run has left goes");
        }
        let s = Scratch::new();
        let mut tane = s.tane();
        tane.args(["build", "--make-libc"]).arg(sources);
        succeed(tane.arg("-o").arg(&to));
        Some(to)
    };
    MADE.get_or_init(make).as_deref()
}

/// What is compressed: the words of a text, and bytes that are none.
fn bytes() -> Vec<u8> {
    let mut bytes = include_str!("libc.rs").repeat(40).into_bytes();
    let mut state = 1_u32;
    bytes.extend((0..100_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    bytes
}

/// A command's output, with a file as its input.
fn filtered(s: &Scratch, module: &str, word: Option<&str>, input: &str) -> Vec<u8> {
    let mut tane = s.tane();
    tane.args(["run-module", "--root", "tree", "--", module])
        .args(word)
        .stdin(File::open(s.join(input)).expect("an input"));
    succeed(&mut tane).stdout
}

#[test]
fn programs_of_a_c_library_compute_what_they_compute_on_the_host() {
    let (Some(musl), Some(zlib)) = (musl(), sources("zlib")) else {
        return;
    };
    let s = Scratch::new();
    values_are_printed_as_by_the_host(&s, musl);
    minigzip_and_gzip_read_each_other(&s, musl, &zlib);
    if let Some(lua) = sources("lua5.4") {
        lua_runs_a_script_as_on_the_host(&s, musl, &lua.join("src"));
    }
}

/// The same source, by the host's compiler and library.
fn values_are_printed_as_by_the_host(s: &Scratch, musl: &Path) {
    s.write("values.c", include_bytes!("libc_values.c"));
    std::fs::create_dir(s.join("tree")).expect("a directory");
    s.write("tree/greeting", b"one\ntwo\n");
    s.write("input", b"first\nsecond\nno end of line");
    succeed(s.tane().args(["build", "--libc"]).arg(musl).arg("values.c"));
    let mut gcc = s.tool("gcc");
    gcc.args(["-O2", "-fno-builtin", "values.c", "-o", "values", "-lm"]);
    succeed(&mut gcc);
    let mut native = std::process::Command::new(s.join("values"));
    native
        .current_dir(s.join("tree"))
        .stdin(File::open(s.join("input")).expect("an input"));
    let native = native.output().expect("the program");
    let mut tane = s.tane();
    let module = ["run-module", "--root", "tree", "--", "values.tmod"];
    tane.args(module)
        .stdin(File::open(s.join("input")).expect("an input"));
    let module = tane.output().expect("tane");
    assert_eq!(text(&module.stdout), text(&native.stdout));
    assert_eq!(
        (module.status.code(), native.status.code()),
        (Some(3), Some(3)),
        "{}",
        text(&module.stderr)
    );
}

/// Lua leaves to whoever builds it what stands for its errors.
const LUA: &str = "\
#include <tane/module.h>
#define luai_jmpbuf int
#define LUAI_THROW(L, c) tane_throw()
#define LUAI_TRY(L, c, a) \\
	if (tane_try((void (*)(void *, void *))f, L, ud) && !(c)->status) \\
		(c)->status = -1
#include \"ldo.c\"
";

/// The same sources, by the host's compiler and library, but for what stands for setjmp.
fn lua_runs_a_script_as_on_the_host(s: &Scratch, musl: &Path, lua: &Path) {
    s.write("ldo_module.c", LUA.as_bytes());
    s.write("tree/script.lua", include_bytes!("libc_script.lua"));
    let (mut tane, mut gcc) = (s.tane(), s.tool("gcc"));
    tane.args(["build", "-o", "lua.tmod", "-DLUA_USE_JUMPTABLE=0", "--libc"]);
    tane.arg(musl);
    tane.arg("-I").arg(lua).arg("ldo_module.c");
    gcc.args(["-O1", "-o", "lua", "-lm"]);
    for entry in std::fs::read_dir(lua).expect("Lua") {
        let path = entry.expect("an entry").path();
        let is = |name: &str| path.ends_with(name);
        if path.extension().is_none_or(|end| end != "c") || is("luac.c") {
            continue;
        }
        gcc.arg(&path);
        if !is("ldo.c") {
            tane.arg(&path);
        }
    }
    succeed(gcc.arg("-lm"));
    succeed(&mut tane);
    let mut native = std::process::Command::new(s.join("lua"));
    native.current_dir(s.join("tree")).arg("script.lua");
    let native = succeed(&mut native).stdout;
    let mut tane = s.tane();
    tane.args([
        "run-module",
        "--root",
        "tree",
        "--",
        "lua.tmod",
        "script.lua",
    ]);
    assert_eq!(text(&succeed(&mut tane).stdout), text(&native));
}

fn minigzip_and_gzip_read_each_other(s: &Scratch, musl: &Path, zlib: &Path) {
    let mut tane = s.tane();
    tane.args(["build", "-o", "minigzip.tmod", "-DHAVE_UNISTD_H", "--libc"])
        .arg(musl)
        .arg("-I")
        .arg(zlib)
        .arg(zlib.join("test/minigzip.c"));
    for entry in std::fs::read_dir(zlib).expect("zlib") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "c") {
            tane.arg(path);
        }
    }
    succeed(&mut tane);
    let plain = bytes();
    s.write("plain", &plain);
    // Ours, by theirs.
    let packed = filtered(s, "minigzip.tmod", None, "plain");
    assert!(packed.len() < plain.len() - 10_000, "{}", packed.len());
    s.write("packed.gz", &packed);
    let unpacked = succeed(s.tool("gzip").args(["-dc", "packed.gz"])).stdout;
    assert!(unpacked == plain);
    // Theirs, by ours.
    let packed = succeed(s.tool("gzip").args(["-9nc", "plain"])).stdout;
    s.write("theirs.gz", &packed);
    assert!(filtered(s, "minigzip.tmod", Some("-d"), "theirs.gz") == plain);
    // A file of an image, in it.
    std::fs::write(s.join("tree/plain"), &plain).expect("a file");
    let image = s.ext4("disk.img", Some(&s.join("tree")), 16);
    let mut tane = s.tane();
    tane.args(["run-module", "--rw", "--root"]).arg(&image);
    succeed(tane.args(["--", "minigzip.tmod", "/plain"]));
    let mut tane = s.tane();
    let packed = succeed(tane.args(["cat", "disk.img:/plain.gz"])).stdout;
    s.write("of-image.gz", &packed);
    let unpacked = succeed(s.tool("gzip").args(["-dc", "of-image.gz"])).stdout;
    assert!(unpacked == plain);
}
