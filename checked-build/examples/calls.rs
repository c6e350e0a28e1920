//! How long a system call takes from a module beside a kernel, and from the program that
//! the kernel is in: the least of many batches, which take turns.
//!
//! cargo run --release -p tane-checked-build --example calls [IMAGE]

use std::path::{Path, PathBuf};
use std::time::Instant;
use tane_checked_build::{build, Options};
use tane_checked_run::{Calls, Instance, Linux};
use tane_host::{Builder, Image};

const CALLS: u64 = 20_000;
const BATCHES: usize = 200;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let image = std::env::args_os()
        .nth(1)
        .map_or_else(|| here.join("../build/images/tane-tiny.elf"), PathBuf::from);
    let image = Image::open(&image).unwrap_or_else(|e| panic!("{e}"));
    let kernel = Builder::default()
        .boot(&image)
        .unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        imports: Calls::all()
            .list()
            .map(|call| call.name.to_owned())
            .collect(),
        ..Options::default()
    };
    let module = build(&[&here.join("tests/linux.c")], &options).unwrap_or_else(|e| panic!("{e}"));
    let linux = Linux {
        kernel: &kernel,
        directory: Some(c"/"),
        descriptors: 1,
    };
    let mut instance =
        Instance::on(linux, &module, 1 << 20, Vec::new()).unwrap_or_else(|e| panic!("{e:?}"));
    let (mut library, mut checked) = (f64::MAX, f64::MAX);
    for _ in 0..BATCHES {
        library = library.min(each(|| {
            for _ in 0..CALLS {
                // SAFETY: no pointers.
                unsafe { kernel.syscall(libc::SYS_getppid, [0; 6]) };
            }
        }));
        checked = checked.min(each(|| {
            instance
                .call("parents", &[CALLS])
                .expect("exported")
                .expect("no trap");
        }));
    }
    println!("getppid: the program {library:.1} ns, a module beside it {checked:.1} ns");
}

fn each(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / CALLS as f64
}
