//! Promises of tane lab: what it prints, draws, captures and says of a file that makes no sense.

use crate::common::{exit, has_kernel, heeds_ctrl_c, succeed, text, Scratch};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const TWO: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
                   [[link]]\nbetween = [\"a\", \"b\"]\nimpair = \"delay=5ms,rate=20mbit,loss=1%\"\n\
                   [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"500K\"\ncongestion = \"bbr\"\n";

#[test]
fn a_topology_runs_and_is_drawn_and_captured() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("two.toml", TWO.as_bytes());
    let run = |seed: &str| {
        let words = [
            "lab",
            "two.toml",
            "--json",
            "--plot",
            "two.svg",
            "--captures",
            "traces",
        ];
        let output = succeed(s.tane().args(words).args(["--seed", seed]));
        let report: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        (
            report,
            std::fs::read(s.join("traces/a-b.pcapng")).expect("a capture"),
        )
    };
    let (report, packets) = run("1");
    let flow = &report["flows"][0];
    assert_eq!(flow["bytes"], 500 << 10, "{report}");
    assert_eq!(
        (&flow["error"], &flow["congestion"]),
        (&Value::Null, &"bbr".into())
    );
    assert!(
        flow["min_rtt_ms"].as_f64().is_some_and(|ms| ms >= 10.0),
        "{report}"
    );
    assert!(flow["samples"]
        .as_array()
        .is_some_and(|samples| samples.len() > 1));
    assert_eq!(report["links"][0]["name"], "a-b");
    let svg = std::fs::read_to_string(s.join("two.svg")).expect("a picture");
    assert!(
        svg.contains("a to b, bbr") && svg.ends_with("</svg>\n"),
        "{svg}"
    );

    let (again, same) = run("1");
    assert_eq!(report["flows"], again["flows"]);
    assert!(packets == same, "the same seed, and other packets");
    assert!(packets != run("2").1, "another seed, and the same packets");

    let output = succeed(s.tane().args(["lab", "two.toml"]));
    let lines = text(&output.stdout);
    assert!(
        lines.lines().any(|line| line.starts_with("flow1 ")),
        "{lines}"
    );
    assert!(lines.contains("2 kernels"), "{lines}");
}

#[test]
fn a_topology_that_makes_no_sense_is_refused_by_its_line() {
    let s = Scratch::new();
    s.write(
        "two.toml",
        TWO.replace("[\"a\", \"b\"]", "[\"a\", \"c\"]").as_bytes(),
    );
    let output = exit(s.tane().args(["lab", "two.toml", "--check"]), 2);
    let said = text(&output.stderr);
    assert!(
        said.contains("two.toml:6: there is no node \"c\""),
        "{said}"
    );
    s.write("two.toml", TWO.as_bytes());
    let output = succeed(s.tane().args(["lab", "two.toml", "--check"]));
    assert_eq!(text(&output.stdout), "nodes: 2, links: 1\n");
    let said = text(&exit(s.tane().args(["lab", "none.toml"]), 3).stderr);
    assert!(said.contains("none.toml"), "{said}");
}

/// How many packets this has, which is whole blocks of pcapng.
#[track_caller]
fn packets(file: &Path) -> usize {
    let bytes = std::fs::read(file).expect("a capture");
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        u32::from_le_bytes(word.unwrap_or_else(|| panic!("no block at {at} of {}", bytes.len())))
    };
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!(word(at + len - 4) as usize, len, "a block at {at}");
        packets += usize::from(word(at) == 6);
        at += len;
    }
    packets
}

#[test]
fn a_laboratory_that_is_interrupted_leaves_whole_captures() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    // By the second link passes less than a buffer of the capture has room for.
    let long = TWO.replace("bytes = \"500K\"", "for = \"50min\"")
        + "[[node]]\nname = \"c\"\n[[link]]\nbetween = [\"a\", \"c\"]\n\
           [[flow]]\nfrom = \"a\"\nto = \"c\"\nrequest = \"1\"\nresponse = \"1\"\ntimes = 1\n";
    s.write("long.toml", long.as_bytes());
    let mut command = s.tane();
    command.args(["lab", "long.toml", "--captures", "traces"]);
    heeds_ctrl_c(&mut command);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("tane");
    let large = s.join("traces/a-b.pcapng");
    while std::fs::metadata(&large).map_or(0, |file| file.len()) < 1 << 20 {
        let ended = child.try_wait().expect("its status");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: a child of ours.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("its status");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("stopping (twice more"), "{said}");
    assert!(packets(&large) > 700);
    // A neighbour, a handshake, two bytes and an end.
    let small = packets(&s.join("traces/a-c.pcapng"));
    assert!((7..20).contains(&small), "{small} packets");
}
