//! A clean build takes too long to be part of a benchmark, and nothing records
//! how long the last one took.

use crate::promise::{Promise, Set};
use crate::report::Report;
use crate::target::Target;

pub fn promises() -> Vec<Promise> {
    let what = "clean build of the `default` image";
    vec![Promise::new(
        "build-default",
        Set::Build,
        what,
        "s",
        Target::None,
    )]
}

pub fn measure(promise: &Promise, report: &mut Report) {
    report.miss(
        promise,
        "xtask",
        "not measured here: rm -r build/kernel-default; \
         time cargo run -q -p xtask -- kernel --config default --force",
    );
}
