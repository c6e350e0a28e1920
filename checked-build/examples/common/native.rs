//! Programs in C, natively.

use std::path::Path;
use std::process::Command;

pub type Work = unsafe extern "C" fn(u64) -> u64;

/// A source as a library of this process, by gcc -O2 with these words.
pub fn native(source: &Path, words: &[&str]) -> Work {
    // dlopen knows libraries by their names.
    let name = source.file_stem().expect("a name").to_string_lossy();
    let name = format!("tane-measure-{}-{name}.so", std::process::id());
    let library = std::env::temp_dir().join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]);
    gcc.args(words);
    gcc.args(["-Dwork=__attribute__((visibility(\"default\")))work", "-o"]);
    let done = gcc.arg(&library).arg(source).arg("-lm").status();
    assert!(done.expect("gcc").success());
    let name = std::ffi::CString::new(library.to_str().expect("UTF-8")).expect("no zero");
    // SAFETY: a library of our own, which stays.
    let work = unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        libc::dlsym(library, c"work".as_ptr())
    };
    let _ = std::fs::remove_file(&library);
    assert!(!work.is_null());
    // SAFETY: the function has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, Work>(work) }
}
