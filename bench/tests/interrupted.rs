//! Ctrl-C during a run: what was measured until then is kept, and what was not
//! is named.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

fn file(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn ctrl_c_keeps_the_rows_that_were_measured_and_names_those_that_were_not() {
    if tane_test_support::has_kernel(tane::default_image()).is_none() {
        return;
    }
    let dir = std::env::temp_dir().join(format!("tane-interrupted-{}", std::process::id()));
    let mut bench = Command::new(env!("CARGO_BIN_EXE_tane-bench"))
        .args(["--only", "syscalls", "--runs", "11", "--output"])
        .arg(&dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    // It says which row begins: the second, so the first is done.
    let begun = lines.find(|line| line.as_ref().unwrap().contains(": 2/"));
    let begun = begun.expect("a second row").unwrap();
    // SAFETY: a child of ours that was not waited for.
    assert_eq!(unsafe { libc::kill(bench.id() as i32, libc::SIGINT) }, 0);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    let mut table = String::new();
    let mut stdout = bench.stdout.take().unwrap();
    stdout.read_to_string(&mut table).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130), "{said:?}");

    let json: serde_json::Value = serde_json::from_str(&file(&dir, "bench-only.json")).unwrap();
    assert_eq!(json["interrupted"], true);
    let names = |list: &str, key: &str| -> Vec<String> {
        let entries = json[list].as_array().unwrap().iter();
        entries.map(|e| e[key].as_str().unwrap().into()).collect()
    };
    let rows = names("promises", "name");
    let measured = names("figures", "promise");
    let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
    assert!(measured.contains(first), "{begun}, and {measured:?}");
    assert!(!measured.contains(last), "{begun}, and {measured:?}");
    let missing = json["missing"].as_array().unwrap().iter();
    let interrupted = missing.filter(|m| m["why"] == "interrupted");
    let named: Vec<_> = interrupted
        .map(|m| m["promise"].as_str().unwrap())
        .collect();
    assert!(named.contains(&last.as_str()), "{named:?}");

    let end = "rows were not measured: ";
    for text in [&table, &said.join("\n")] {
        let line = text.lines().find(|line| line.contains(end)).expect(text);
        let (_, listed) = line.split_once(end).unwrap();
        let mut expected = named.clone();
        expected.dedup();
        assert_eq!(listed.split(", ").collect::<Vec<_>>(), expected);
    }
    assert!(table.contains(&format!("\n{first}: ")), "{table}");
    assert!(file(&dir, "syscalls.svg").contains("</svg>"));
    std::fs::remove_dir_all(&dir).unwrap();
}
