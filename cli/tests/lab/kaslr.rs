//! Promises of tane kaslr, by what nm and addr2line of binutils say of the image.

use crate::common::{has_kernel, succeed, text, Scratch};
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

/// Each start's base, address of the symbol, and whether it was randomised.
fn starts(arguments: &[&str]) -> Vec<(u64, u64, bool)> {
    let scratch = Scratch::new();
    let output = succeed(scratch.tane().args(["kaslr", "--json"]).args(arguments));
    let number = |value: &serde_json::Value| {
        let hex = value.as_str().and_then(|text| text.strip_prefix("0x"));
        u64::from_str_radix(hex.expect("0x"), 16).expect("a number")
    };
    let lines = text(&output.stdout);
    let values = lines.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let (base, address) = (number(&value["base"]), number(&value["address"]));
        assert_eq!(number(&value["offset"]), address - base);
        assert_eq!(number(&value["in_image"]), address - base);
        (
            base,
            address,
            value["randomised"].as_bool().expect("a bool"),
        )
    });
    values.collect()
}

/// The image with its symbols, which lies beside the one that is booted.
fn debug_file() -> PathBuf {
    let image = tane::default_image().expect("has_kernel()");
    image.with_extension("debug")
}

/// The value that nm gives a symbol.
fn value_of(symbol: &str) -> u64 {
    let output = succeed(Command::new("nm").arg(debug_file()));
    let all = text(&output.stdout);
    let line = all
        .lines()
        .find(|line| line.ends_with(&format!(" {symbol}")));
    let value = line.and_then(|line| line.split(' ').next());
    u64::from_str_radix(value.expect(symbol), 16).expect("a number")
}

#[test]
fn ten_starts_give_ten_bases() {
    if !has_kernel() {
        return;
    }
    let starts = starts(&[]);
    assert_eq!(starts.len(), 10);
    assert!(starts.iter().all(|&(_, _, randomised)| randomised));
    let bases: HashSet<_> = starts.iter().map(|start| start.0).collect();
    assert_eq!(bases.len(), 10, "{starts:x?}");
}

#[test]
fn nokaslr_gives_one_base() {
    if !has_kernel() {
        return;
    }
    for how in [&["--nokaslr"][..], &["--append", "nokaslr"]] {
        let starts = starts(&[&["--times", "3"], how].concat());
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|&start| start == starts[0]));
        assert!(!starts[0].2);
    }
}

#[test]
fn an_address_less_its_base_is_the_symbols_value_in_the_file() {
    if !has_kernel() {
        return;
    }
    for symbol in ["vfs_read", "ext4_file_write_iter", "_stext"] {
        let value = value_of(symbol);
        for (base, address, _) in starts(&["--times", "3", "--symbol", symbol]) {
            assert_eq!(address - base, value, "{symbol}");
        }
    }
}

/// The function that addr2line finds there.
fn function_at(offset: u64) -> String {
    let mut addr2line = Command::new("addr2line");
    addr2line.args(["-f", "-e"]).arg(debug_file());
    let output = succeed(addr2line.arg(format!("{offset:x}")));
    let lines = text(&output.stdout);
    lines.lines().next().expect("a name").to_owned()
}

#[test]
fn addr2line_names_what_an_address_of_a_start_is() {
    if !has_kernel() {
        return;
    }
    let (base, address, _) = starts(&["--times", "1"])[0];
    assert_eq!(function_at(address - base), "vfs_read");
}

/// A number in hexadecimal that follows a text.
fn hex_after(log: &str, before: &str) -> u64 {
    let (_, rest) = log.split_once(before).expect(before);
    let end = rest.find(|c: char| !c.is_ascii_hexdigit());
    u64::from_str_radix(&rest[..end.expect("more text")], 16).expect("a number")
}

#[test]
fn an_address_of_an_oops_maps_back() {
    if !has_kernel() {
        return;
    }
    let kernel = tane::Kernel::boot().expect("boots");
    let proc = kernel.tree("/proc").expect("/proc");
    let symbols = proc.read_to_string("kallsyms").expect("symbols");
    let base = hex_after(&kernel.dmesg(), "tane: image at ");
    proc.write("sysrq-trigger", "c")
        .expect_err("it dies of that");
    let oops = kernel.last_words();

    let name = "sysrq_handle_crash";
    let inside = hex_after(&oops, &format!("? {name}+0x"));
    let line = symbols
        .lines()
        .find(|line| line.ends_with(&format!(" {name}")));
    let start = line.and_then(|line| line.split(' ').next()).expect(name);
    let start = u64::from_str_radix(start, 16).expect("a number");
    assert!(inside > 0);
    assert_eq!(function_at(start + inside - base), name);
}

#[test]
fn the_text_has_a_line_for_each_start_and_three_that_sum_up() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let output = succeed(scratch.tane().args(["kaslr", "--times", "4"]));
    let lines = text(&output.stdout);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert_eq!(lines[5], "4 starts, 4 bases, randomised");
    let value = value_of("vfs_read");
    assert_eq!(lines[6], format!("vfs_read less base: {value:#x}"));
    assert_eq!(lines[7], format!("vfs_read in the image: {value:#x}"));
}

#[test]
fn an_unknown_symbol_is_an_error_with_its_name() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch
        .tane()
        .args(["kaslr", "--symbol", "no_such"])
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(
        errors.starts_with("tane: no_such: not in this kernel"),
        "{errors}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    for arguments in [&["--times", "0"][..], &["--times", "x"], &["--kernel=host"]] {
        let output = scratch.tane().arg("kaslr").args(arguments).output();
        let code = output.expect("it runs").status.code();
        assert_eq!(code, Some(2), "{arguments:?}");
    }
}
