//! Promises of a large laboratory. Alone in its file, so that this process has nothing beside it.

use std::fs;
use std::path::Path;
use tane_netlab::{Lab, Options, Plan};
use tane_test_support::image;

/// What this process has for itself, in bytes, the image's pages counted once.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("Pss").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_hundred_kernels_take_less_than_a_gigabyte_and_are_a_network() {
    let nodes = (0..100).map(|n| format!("[[node]]\nname = \"n{n}\"\nmemory = \"32M\"\n"));
    let links = (1..100).map(|n| format!("[[link]]\nbetween = [\"n{}\", \"n{n}\"]\n", n - 1));
    let flow =
        "[[flow]]\nfrom = \"n0\"\nto = \"n50\"\nrequest = \"1\"\nresponse = \"1\"\ntimes = 9\n";
    let text = nodes.chain(links).collect::<String>() + flow;
    let plan = Plan::parse(Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    let Some(image) = image("default") else {
        return;
    };
    let options = Options {
        image: Some(image),
        ..Options::default()
    };
    let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
    let memory = memory();
    assert!(memory < 1 << 30, "{memory} bytes");
    let report = lab.run(&|| false).unwrap_or_else(|e| panic!("{e}"));
    let latency = report.flows[0].latency.expect("answers");
    // A microsecond for each of fifty cables, there and back.
    assert!((latency.median_ms - 0.1).abs() < 1e-9, "{latency:?}");
}
