//! One row of each set that needs no tree and no peer is measured, as a person would
//! ask for it: a set that is broken shows here, and not when its figures are wanted.

use std::collections::BTreeMap;
use std::process::Command;

const SETS: [&str; 13] = [
    "syscalls",
    "ramfs",
    "instructions",
    "threads",
    "net",
    "files",
    "create",
    "caches",
    "xarray",
    "probes",
    "boot",
    "programs",
    "checked",
];
/// Beside the first of each: what has code of its own.
const MORE: [&str; 11] = [
    "checked-getppid",
    "checked-check",
    "checked-crc",
    "page-fault",
    "mmap-file",
    "locked-getppid",
    "crowd-pread-4k",
    "pingpong-eventfd",
    "net-pair-4k",
    "create-thread-memory",
    "xarray-memory-sparse-512",
];

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tane-bench"))
}

fn json(command: &mut Command) -> serde_json::Value {
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {errors}\n{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_row_of_each_set_can_be_measured() {
    if tane_test_support::has_kernel(tane::default_image()).is_none() {
        return;
    }
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    let listed = json(bench().args(["--list", "--json"]));
    for row in listed.as_array().expect("rows") {
        let [name, set] = ["name", "set"].map(|key| row[key].as_str().expect(key).to_owned());
        rows.entry(set).or_insert(name);
    }
    let mut names: Vec<&str> = SETS.iter().map(|set| rows[*set].as_str()).collect();
    names.extend(MORE);
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        names.retain(|name| *name != "crowd-pread-4k");
    }
    let dir = std::env::temp_dir().join(format!("tane-rows-{}", std::process::id()));
    let mut command = bench();
    command.args(["--runs", "1", "--no-plots", "--quiet", "--json"]);
    command
        .args(["--only", &names.join(","), "--output"])
        .arg(&dir);
    let report = json(&mut command);
    std::fs::remove_dir_all(&dir).expect("removes");
    let figures = report["figures"].as_array().expect("figures");
    let missing = report["missing"].as_array().expect("what is missing");
    for name in names {
        let figure = figures.iter().find(|figure| figure["promise"] == name);
        let median = figure.and_then(|figure| figure["median"].as_f64());
        // Not every machine has two CPUs that share a cache.
        let excused = missing.iter().any(|missed| {
            let why = missed["why"].as_str().unwrap_or_default();
            missed["promise"] == name && why.starts_with("there are no two CPUs")
        });
        let measured = median.is_some_and(|median| median >= 0.0);
        assert!(measured || excused, "{name}: {report}");
    }
}
