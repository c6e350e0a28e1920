//! Programs of BPF, by clang and the headers of libbpf.

use std::path::Path;
use std::process::Command;

/// Makes an object of a program in C, or fails the test. Clang and libbpf are installed by
/// `make deps`.
#[track_caller]
pub fn compile_bpf(from: &Path, to: &Path) {
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-D__TARGET_ARCH_x86", "-O2", "-g", "-c"]);
    // The C library's headers of this machine, whatever clang compiles for.
    clang.arg("-I/usr/include/x86_64-linux-gnu");
    // The object is the same wherever this is done.
    let (dir, name) = (from.parent().expect("a directory"), from.file_name());
    clang.arg("-fdebug-compilation-dir=.").current_dir(dir);
    let done = clang.arg("-o").arg(to).arg(name.expect("a file"));
    let done = done.status().expect("clang");
    assert!(done.success(), "{}", from.display());
}
