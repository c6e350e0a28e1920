//! Promises of tane check.

use crate::common::{succeed, text, Scratch};
use tane_checked::{Export, Layout, Module};

/// A module of this code, whose one function is its start.
fn module(code: &[u8]) -> Vec<u8> {
    let module = Module {
        code,
        table: Vec::new(),
        read_only: &[],
        data: &[0; 8],
        zeroes: 0,
        imports: Vec::new(),
        exports: vec![Export {
            name: "main",
            at: 0,
        }],
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 0, 0, 8).expect("it is small"),
    };
    module.to_bytes()
}

/// push %rax; mov %gs:(%eax),%eax; pop %rax; ret
const GOOD: &[u8] = &[0x50, 0x65, 0x67, 0x8b, 0x00, 0x58, 0xc3];

/// The same without %gs and 32 bits.
const BAD: &[u8] = &[0x50, 0x8b, 0x00, 0x58, 0xc3];

#[test]
fn a_module_that_keeps_the_rules_is_accepted_in_silence() {
    let s = Scratch::new();
    s.write("good.tmod", &module(GOOD));
    let output = succeed(s.tane().args(["check", "good.tmod"]));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn the_first_broken_rule_is_told_with_its_place_and_a_remedy() {
    let s = Scratch::new();
    s.write("bad.tmod", &module(BAD));
    let output = s.tane().args(["check", "bad.tmod"]).output().expect("tane");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for part in ["bad.tmod: R3 at code+0x1:", "8b 00", "%gs:disp(%e"] {
        assert!(said.contains(part), "{said}");
    }
    let output = s
        .tane()
        .args(["check", "--json", "bad.tmod"])
        .output()
        .expect("tane");
    assert_eq!(output.status.code(), Some(1));
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert!(said.to_string().contains("R3 at code+0x1"), "{said}");
}

#[test]
fn each_instruction_is_explained_up_to_the_one_that_is_refused() {
    let s = Scratch::new();
    s.write("good.tmod", &module(GOOD));
    s.write("bad.tmod", &module(BAD));
    let explained = text(&succeed(s.tane().args(["check", "--explain", "good.tmod"])).stdout);
    let lines: Vec<_> = explained.lines().collect();
    assert_eq!(lines.len(), 5, "{explained}");
    assert_eq!(lines[0], "main:");
    for (line, rule) in lines[1..].iter().zip(["R7", "R3", "R7", "R8"]) {
        assert!(line.contains(rule), "{line}");
    }
    let output = s
        .tane()
        .args(["check", "--explain", "bad.tmod"])
        .output()
        .expect("tane");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

#[test]
fn what_a_module_has_is_told_as_json() {
    let s = Scratch::new();
    s.write("good.tmod", &module(GOOD));
    let output = succeed(s.tane().args(["check", "--json", "good.tmod"]));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["instructions"], 4);
    assert_eq!(said["exports"][0], "main");
}

#[test]
fn what_is_no_module_or_cannot_be_read_is_an_error_that_says_so() {
    let s = Scratch::new();
    s.write("text.tmod", b"int main() {}");
    for (file, code, says) in [
        ("text.tmod", 1, "R1: this is no module"),
        ("none", 3, "none"),
    ] {
        let output = s.tane().args(["check", file]).output().expect("tane");
        assert_eq!(output.status.code(), Some(code));
        assert!(
            text(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
    }
}
