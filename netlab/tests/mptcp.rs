//! Promises of connections by MPTCP: they take all the ways there are, go on by those that are left,
//! and say what went by which.

use std::fs;
use std::path::Path;
use tane_netlab::{Error, FlowReport, Lab, Options, Plan, Report};
use tane_test_support::{image, Scratch};

/// Two ways from `a` to `b`, of 12 and 6 Mbit/s.
const NODES: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"x\"\n[[node]]\nname = \"y\"\n";
const LINKS: &str = "[[link]]\nbetween = [\"a\", \"x\"]\n[[link]]\nbetween = [\"a\", \"y\"]\n\
                     [[link]]\nbetween = [\"x\", \"b\"]\nimpair = \"delay=5ms,rate=12mbit,limit=60\"\n\
                     [[link]]\nbetween = [\"y\", \"b\"]\nimpair = \"delay=20ms,rate=6mbit,limit=60\"\n";
const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
const CUT: &str = "[[event]]\nat = \"2s\"\nlink = \"x-b\"\ncut = true\n\
                   [[event]]\nat = \"5s\"\nlink = \"x-b\"\ncut = false\n";
/// Of the bytes of a frame, how many MPTCP leaves to a stream.
const SHARE: f64 = 1428.0 / 1514.0;

fn two_ways() -> String {
    format!("{NODES}[[node]]\nname = \"b\"\n{LINKS}{FLOW}mptcp = true\n")
}

#[track_caller]
fn options() -> Option<Options> {
    Some(Options {
        image: Some(image("default")?),
        ..Options::default()
    })
}

fn plan(text: &str) -> Plan {
    Plan::parse(Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn run(text: &str) -> Option<Report> {
    let plan = plan(text);
    let lab = Lab::start(&plan, &options()?, &|| false).unwrap_or_else(|e| panic!("{e}"));
    Some(lab.run(&|| false).unwrap_or_else(|e| panic!("{e}")))
}

/// What went by the path that ends with this link, in bytes.
#[track_caller]
fn by(flow: &FlowReport, link: &str) -> u64 {
    let mut paths = flow.paths.iter();
    let path = paths.find(|path| path.links.last().is_some_and(|last| last == link));
    path.unwrap_or_else(|| panic!("no path by {link}: {:?}", flow.paths))
        .bytes
}

/// Bytes that had arrived by then, of the whole or by one path.
fn at(samples: &[tane_netlab::Sample], seconds: f64) -> u64 {
    let before = samples.iter().rfind(|sample| sample.seconds <= seconds);
    before.map_or(0, |sample| sample.bytes)
}

#[test]
fn two_ways_together_are_as_fast_as_both_alone() {
    let text = two_ways()
        + "bytes = \"10M\"\n"
        + FLOW
        + "name = \"x\"\nat = \"7s\"\nbytes = \"4M\"\n"
        + FLOW
        + "name = \"y\"\nat = \"11s\"\nbytes = \"2M\"\naddress = \"10.0.3.2\"\n";
    let Some(report) = run(&text) else { return };
    let [both, x, y] = &report.flows[..] else {
        panic!("{report}");
    };
    assert!(
        report.error().is_none() && both.bytes == 10 << 20,
        "{report}"
    );
    assert_eq!(
        [both, x, y].map(|flow| flow.protocol),
        ["mptcp", "tcp", "tcp"]
    );
    assert_eq!([both, x, y].map(|flow| flow.paths.len()), [2, 0, 0]);
    let rates = [both, x, y].map(|flow| flow.bits_per_second);
    assert!(
        rates[0] > 1.4 * rates[1] && rates[0] > 2.5 * rates[2],
        "{report}"
    );
    let most = 18e6 * SHARE;
    assert!(rates[0] > 0.93 * most && rates[0] < most, "{report}");
    // As their rates are.
    let share = by(both, "x-b") as f64 / by(both, "y-b") as f64;
    assert!(share > 1.7 && share < 2.3, "{report}");
    let svg = report.svg();
    // One connection has no round trip but those of its paths.
    assert_eq!(svg.matches("<polyline").count(), 4 * 5 - 1);
    assert!(svg.contains("flow1, by a-y, y-b") && report.to_string().contains("by a-x, x-b: "));
}

#[test]
fn what_is_no_path_goes_on_taking_the_way_that_the_file_says() {
    let route = "name = \"a\"\n[[node.route]]\nto = \"default\"\nvia = \"10.0.1.2\"\n";
    let text = two_ways().replacen("name = \"a\"\n", route, 1)
        + "bytes = \"200K\"\n"
        + FLOW
        + "at = \"5s\"\nbytes = \"1M\"\n";
    let Some(report) = run(&text) else { return };
    assert!(report.error().is_none(), "{report}");
    let firsts = |flow: &FlowReport| -> Vec<String> {
        flow.paths
            .iter()
            .map(|path| path.links[0].clone())
            .collect()
    };
    let mptcp = firsts(&report.flows[0]);
    assert!(
        mptcp[0] == "a-y" && mptcp.contains(&"a-x".into()),
        "{report}"
    );
    let passed = |name: &str| {
        let mut links = report.links.iter();
        links.find(|link| link.name == name).expect("a link").bytes[0]
    };
    assert!(
        passed("a-y") > 1 << 20 && passed("a-x") < 300 << 10,
        "{report}"
    );
}

#[test]
fn a_way_that_is_cut_loses_nothing_and_is_taken_again_when_it_is_mended() {
    let text = two_ways() + "bytes = \"16M\"\n" + CUT;
    let Some(report) = run(&text) else { return };
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (16 << 20, None));
    let [cut, other] = ["x-b", "y-b"].map(|link| {
        let path = flow.paths.iter().find(|path| path.links[1] == link);
        &path.expect("a path").samples[..]
    });
    assert_eq!(at(cut, 2.2), at(cut, 4.9), "bytes over a link that is cut");
    let during = (at(&flow.samples, 5.0) - at(&flow.samples, 3.0)) as f64 * 8.0 / 2.0;
    assert!(during > 0.9 * 6e6 * SHARE, "{during} bit/s while it is cut");
    assert!(at(other, 5.0) > at(other, 3.0));
    let last = flow.ended.expect("an end");
    assert!(at(cut, last) - at(cut, 5.0) > 2 << 20, "{report}");
}

#[test]
fn the_same_seed_gives_the_same_packets_by_all_ways() {
    let text = two_ways().replace("rate=6mbit", "rate=6mbit,loss=1%") + "bytes = \"2M\"\n" + CUT;
    let packets = |seed: u64| {
        let scratch = Scratch::new("mptcp");
        let plan = plan(&text).with_seed(seed);
        let options = Options {
            captures: Some(scratch.to_path_buf()),
            ..options()?
        };
        let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
        lab.run(&|| false).unwrap_or_else(|e| panic!("{e}"));
        let files = plan
            .links()
            .map(|link| scratch.join(format!("{link}.pcapng")));
        Some(
            files
                .map(|file| fs::read(file).expect("a capture"))
                .collect::<Vec<_>>(),
        )
    };
    let Some(first) = packets(1) else { return };
    assert!(
        first.iter().all(|trace| trace.len() > 200 << 10),
        "little was captured"
    );
    assert!(
        packets(1).unwrap() == first,
        "the same seed, and other packets"
    );
    assert!(
        packets(2).unwrap() != first,
        "another seed, and the same packets"
    );
}

#[test]
fn who_has_two_ways_to_one_address_takes_both() {
    // The server is at one link, behind a router at which both ways end.
    let text = format!(
        "{NODES}[[node]]\nname = \"r\"\n[[node]]\nname = \"b\"\n{}\
         [[link]]\nbetween = [\"r\", \"b\"]\n{FLOW}bytes = \"4M\"\nmptcp = true\n",
        LINKS.replace("\"b\"]", "\"r\"]")
    );
    let Some(report) = run(&text) else { return };
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (4 << 20, None));
    assert!(flow.bits_per_second > 0.85 * 18e6 * SHARE, "{report}");
    let links: Vec<_> = flow.paths.iter().map(|path| path.links.join(" ")).collect();
    assert_eq!(links, ["a-x x-r r-b", "a-y y-r r-b"]);
    let passed = |name: &str| {
        let mut links = report.links.iter();
        links.find(|link| link.name == name).expect("a link").bytes[0]
    };
    assert!(
        passed("a-y") > 1 << 20 && passed("y-r") > 1 << 20,
        "{report}"
    );
}

#[test]
fn a_way_for_need_is_taken_while_the_other_is_cut() {
    let endpoint = "[[node.endpoint]]\naddress = \"10.0.1.1\"\nflags = \"subflow,backup\"\n";
    let text = two_ways().replacen("name = \"a\"\n", &format!("name = \"a\"\n{endpoint}"), 1)
        + "bytes = \"8M\"\n"
        + CUT;
    let Some(report) = run(&text) else { return };
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (8 << 20, None));
    assert_eq!(flow.paths.len(), 2, "{report}");
    let need = flow.paths.iter().find(|path| path.links[0] == "a-y");
    let samples = &need.expect("a path").samples;
    assert_eq!(at(samples, 1.9), 0, "{report}");
    assert!(at(samples, 5.0) > 1 << 20, "{report}");
}

#[test]
fn ipv6_has_several_ways_too() {
    let mut text = two_ways();
    for (number, link) in [
        "\"a\", \"x\"",
        "\"a\", \"y\"",
        "\"x\", \"b\"",
        "\"y\", \"b\"",
    ]
    .iter()
    .enumerate()
    {
        let line = format!("between = [{link}]\n");
        let addresses = format!("addresses = [\"fd00:{number}::1/64\", \"fd00:{number}::2/64\"]\n");
        text = text.replacen(&line, &(line.clone() + &addresses), 1);
    }
    let Some(report) = run(&(text + "bytes = \"4M\"\n")) else {
        return;
    };
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (4 << 20, None));
    assert!(
        by(flow, "x-b") > 1 << 20 && by(flow, "y-b") > 1 << 19,
        "{report}"
    );
}

#[test]
fn what_a_kernel_lacks_is_told_by_the_flows_line() {
    let Some(options) = options() else { return };
    let refused = |text: &str, line: &str, words: &str| {
        let plan = plan(text);
        let started = Lab::start(&plan, &options, &|| false).map(drop);
        match started {
            Err(Error::Topology {
                line: at,
                text: why,
                ..
            }) => {
                assert_eq!(text.lines().nth(at - 1), Some(line), "{why}");
                assert!(why.contains(words), "{why}");
            }
            Err(other) => panic!("{other}"),
            Ok(()) => panic!("not refused"),
        }
    };
    let text = two_ways() + "bytes = \"1K\"\n";
    let off = "name = \"b\"\nsysctl = { \"net.mptcp.enabled\" = \"0\" }\n";
    let off = text.replacen("name = \"b\"\n", off, 1);
    refused(&off, "mptcp = true", "b has MPTCP switched off");
    let control = "congestion = \"none\"";
    refused(
        &format!("{text}{control}\n"),
        control,
        "no congestion control \"none\"",
    );
}

#[test]
fn each_path_has_the_congestion_control_of_the_flow() {
    // A loss in a hundred on long ways, which BBR does not take for a full queue.
    let long = two_ways()
        .replace("=5ms", "=50ms")
        .replace("=20ms", "=50ms");
    let text = long.replace("limit=60", "loss=1%") + "for = \"8s\"\ncongestion = ";
    let Some(cubic) = run(&format!("{text}\"cubic\"\n")) else {
        return;
    };
    let bbr = run(&format!("{text}\"bbr\"\n")).unwrap();
    for link in ["x-b", "y-b"] {
        let (cubic, bbr) = (by(&cubic.flows[0], link), by(&bbr.flows[0], link));
        assert!(bbr * 4 > cubic * 5, "{link}: {bbr} and {cubic}");
    }
}

#[test]
fn the_example_fills_both_paths_and_lives_through_the_cut() {
    // A quarter of the packets, which is as long as it takes to see.
    let text = include_str!("../examples/mptcp.toml")
        .replace("rate=20mbit,limit=100", "rate=5mbit,limit=25")
        .replace("rate=10mbit,limit=100", "rate=2500kbit,limit=25");
    assert!(!text.contains("limit=100"));
    let Some(report) = run(&text) else { return };
    let [fast, slow, both, failing] = &report.flows[..] else {
        panic!("{report}");
    };
    assert!(report.error().is_none(), "{report}");
    let during = |flow: &FlowReport, from: f64| {
        (at(&flow.samples, from + 8.0) - at(&flow.samples, from)) as f64
    };
    assert_eq!(during(failing, 74.0), 0.0);
    let alone = during(slow, 12.0);
    let share = during(both, 34.0) / alone;
    assert!(
        share > 0.95 && share < 1.1,
        "{share} of the path that is left"
    );
    let share = during(both, 50.0) / (during(fast, 1.0) + alone);
    assert!(share > 0.95 && share < 1.02, "{share} of both paths");
}
