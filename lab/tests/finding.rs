//! The kernel's own measurements of how probes are found (kernel/arch/tane/probes): each
//! look-up in them is checked by the kernel, which answers EIO if one finds the wrong thing.

mod common;

use common::{assert_healthy, boot};
use std::io::Write;
use tane::{errno_of, Kernel, OpenOptions, Tree};

const STRUCTURES: [&str; 6] = [
    "table64",
    "table512",
    "xarray",
    "xarray-address",
    "xarray-cache",
    "rhashtable",
];

fn proc(kernel: &Kernel) -> Tree {
    kernel.tree("/proc").expect("/proc")
}

fn ask(proc: &Tree, file: &str, request: &str) -> std::io::Result<String> {
    let mut options = OpenOptions::new();
    let mut opened = options.read(true).write(true).open(proc, file)?;
    opened.write_all(request.as_bytes())?;
    let mut text = vec![0; 1000];
    let len = opened.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text[..len]).into_owned())
}

/// What a line has behind its name.
#[track_caller]
fn numbers(answer: &str, name: &str) -> Vec<u64> {
    let line = answer.lines().find_map(|line| line.strip_prefix(name));
    let words = line.expect(name).split_whitespace();
    words.map(|word| word.parse().expect("a number")).collect()
}

#[test]
fn each_structure_finds_every_probe_and_nothing_else() {
    for cpus in [1, 2] {
        let Some(kernel) = boot(cpus, "") else { return };
        let proc = proc(&kernel);
        for structure in STRUCTURES {
            for count in [1, 2, 17, 3000] {
                let answer = ask(&proc, "tane-probes", &format!("{structure} {count}"));
                let answer = answer.unwrap_or_else(|e| panic!("{structure} {count}: {e}"));
                for part in ["register", "uniform", "miss", "hot", "unregister"] {
                    let found = numbers(&answer, part);
                    assert!(found[0] > 0 && found[1] > 0, "{structure}: {answer}");
                }
                assert_eq!(numbers(&answer, "register")[1], count);
                // The smallest of structures is one head for each probe.
                let bytes = numbers(&answer, "memory")[0];
                assert!(structure.starts_with("xarray") || bytes >= count * 8);
                let during = numbers(&answer, "during");
                assert_eq!(
                    during[2] > 0,
                    cpus > 1 && count > 1,
                    "{structure}: {answer}"
                );
            }
        }
        assert_healthy(&kernel);
    }
}

#[test]
fn what_is_no_measurement_is_refused() {
    let Some(kernel) = boot(1, "") else { return };
    let proc = proc(&kernel);
    let long = "1".repeat(100);
    for (file, bad) in [
        ("tane-probes", "list 10"),
        ("tane-probes", "xarray"),
        ("tane-probes", "xarray 0"),
        ("tane-probes", "xarray 32769"),
        ("tane-probes", "xarray -1"),
        ("tane-probes", &long),
        ("tane-kprobes", "0"),
        ("tane-kprobes", "32769"),
        ("tane-kprobes", "many"),
    ] {
        let error = ask(&proc, file, bad).expect_err(bad);
        assert_eq!(errno_of(&error), Some(libc::EINVAL), "{file}: {bad}");
    }
    assert_healthy(&kernel);
}

#[test]
fn kprobes_are_found_and_hit_where_there_are_many() {
    for cpus in [1, 2] {
        let Some(kernel) = boot(cpus, "") else { return };
        let proc = proc(&kernel);
        for count in [1, 1500] {
            let answer = ask(&proc, "tane-kprobes", &count.to_string()).expect("measures");
            for part in ["register", "uniform", "miss", "hot", "plain", "unregister"] {
                let found = numbers(&answer, part);
                assert!(found[0] > 0 && found[1] > 0, "{part}: {answer}");
            }
            assert_eq!(numbers(&answer, "register")[1], count);
            // Whatever is in the way of a call makes it longer.
            let [plain, probed] = ["plain", "probed"].map(|part| numbers(&answer, part)[0]);
            assert!(probed > plain, "{answer}");
        }
        assert_healthy(&kernel);
    }
}
