//! Makes a module of one file of C, which may import what is named: what tests of other
//! languages have instead of the command.
//!
//! usage: build FILE.c FILE.tmod [IMPORT]...

use std::path::PathBuf;
use tane_checked_build::{build, kernel_imports, Options};

fn main() {
    let mut args = std::env::args_os().skip(1);
    let mut path = || PathBuf::from(args.next().expect("two files"));
    let (from, to) = (path(), path());
    let own = args.map(|name| name.to_string_lossy().into_owned());
    let options = Options {
        imports: kernel_imports().map(str::to_owned).chain(own).collect(),
        ..Options::default()
    };
    let module = build(&[&from], &options).unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(&to, module).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
}
