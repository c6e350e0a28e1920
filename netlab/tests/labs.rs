//! Promises of laboratories: what a file describes is there, what it asks for happens, at the
//! time that it says, and again in the same way.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tane_netlab::{Error, FlowReport, Lab, Options, Plan, Report};
use tane_test_support::{image, Scratch};

fn plan(text: &str) -> Plan {
    Plan::parse(Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"))
}

/// `None`: there is no kernel image with a network.
#[track_caller]
fn options() -> Option<Options> {
    Some(Options {
        image: Some(image("default")?),
        ..Options::default()
    })
}

#[track_caller]
fn run(text: &str) -> Option<Report> {
    let plan = plan(text);
    let lab = Lab::start(&plan, &options()?, &|| false).unwrap_or_else(|e| panic!("{e}"));
    let report = lab.run(&|| false).unwrap_or_else(|e| panic!("{e}"));
    Some(report)
}

const THREE: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"r\"\n[[node]]\nname = \"b\"\n";

/// A path by a router.
fn path(impair: &str) -> String {
    format!(
        "{THREE}[[link]]\nbetween = [\"a\", \"r\"]\n\
         [[link]]\nbetween = [\"r\", \"b\"]\nimpair = \"{impair}\"\n"
    )
}

const SEND: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

/// A run, and what passed each link.
fn captured(text: &str, seed: u64) -> Option<(Report, Vec<Vec<u8>>)> {
    let scratch = Scratch::new("netlab");
    let plan = plan(text).with_seed(seed);
    let options = Options {
        captures: Some(scratch.to_path_buf()),
        ..options()?
    };
    let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
    let report = lab.run(&|| false).unwrap_or_else(|e| panic!("{e}"));
    let files = plan
        .links()
        .map(|link| scratch.join(format!("{link}.pcapng")));
    Some((
        report,
        files
            .map(|file| fs::read(file).expect("a capture"))
            .collect(),
    ))
}

#[test]
fn the_same_seed_gives_the_same_packets_bit_for_bit_and_another_seed_others() {
    let text = path("delay=10ms,jitter=2ms,rate=20mbit,loss=2%")
        + SEND
        + "bytes = \"2M\"\ncongestion = \"cubic\"\n"
        + SEND
        + "name = \"rpc\"\nrequest = \"100\"\nresponse = \"5K\"\ntimes = 20\n"
        + "[[event]]\nat = \"300ms\"\nlink = \"r-b\"\ncut = true\n"
        + "[[event]]\nat = \"500ms\"\nlink = \"r-b\"\ncut = false\n"
        + "[[event]]\nat = \"900ms\"\nlink = \"r-b\"\nthere = \"delay=30ms,rate=10mbit\"\n";
    let Some((first, packets)) = captured(&text, 1) else {
        return;
    };
    assert!(
        packets.iter().all(|trace| trace.len() > 1 << 20),
        "little was captured"
    );
    for _ in 0..2 {
        let (again, the_same) = captured(&text, 1).unwrap();
        assert_eq!(first.frames, again.frames);
        assert!(packets == the_same, "the same seed, and other packets");
    }
    let (_, others) = captured(&text, 2).unwrap();
    assert!(packets != others, "another seed, and the same packets");
}

#[test]
fn many_kernels_that_start_beside_each_other_are_the_same_each_time() {
    // A ring, and four streams across it, by ways that lose.
    let nodes = (0..16).map(|n| format!("[[node]]\nname = \"n{n}\"\nmemory = \"32M\"\n"));
    let links = (0..16).map(|n| {
        let next = (n + 1) % 16;
        format!("[[link]]\nbetween = [\"n{n}\", \"n{next}\"]\nimpair = \"delay=1ms,jitter=1ms,loss=1%\"\n")
    });
    let flows = (0..4).map(|n| {
        let other = n + 7;
        format!("[[flow]]\nfrom = \"n{n}\"\nto = \"n{other}\"\nbytes = \"200K\"\n")
    });
    let text: String = nodes.chain(links).chain(flows).collect();
    let Some((first, packets)) = captured(&text, 1) else {
        return;
    };
    assert!(first.error().is_none(), "{first}");
    for _ in 0..2 {
        let (again, the_same) = captured(&text, 1).unwrap();
        assert_eq!(first.frames, again.frames);
        assert!(packets == the_same, "the same seed, and other packets");
    }
}

#[test]
fn a_stream_arrives_whole_and_no_faster_than_its_way() {
    let text = path("delay=5ms,rate=10mbit") + SEND + "bytes = \"5M\"\n";
    let Some(report) = run(&text) else { return };
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (5 << 20, None));
    // 1448 of 1514 bytes of a frame are the stream's.
    let most = 10e6 * 1448.0 / 1514.0;
    let rate = flow.bits_per_second;
    assert!(rate < most && rate > most * 0.9, "{rate}");
    assert!(
        flow.min_rtt_ms >= 10.0 && flow.min_rtt_ms < 15.0,
        "{}",
        flow.min_rtt_ms
    );
    assert!(!flow.samples.is_empty());
}

#[test]
fn an_answer_takes_what_its_way_is_long_to_the_microsecond() {
    let text = path("delay=7ms") + SEND + "request = \"10\"\nresponse = \"10\"\ntimes = 50\n";
    let Some(report) = run(&text) else { return };
    let latency = report.flows[0].latency.expect("answers");
    assert_eq!(latency.count, 50);
    // Twice 7 ms, and four cables of 1 µs.
    assert!((14.004..14.010).contains(&latency.median_ms), "{latency:?}");
}

#[test]
fn a_link_that_is_cut_carries_nothing_until_it_is_mended() {
    let text = path("delay=5ms,rate=10mbit") + SEND + "bytes = \"5M\"\n";
    let Some(whole) = run(&text) else { return };
    let cut = "[[event]]\nat = \"1s\"\nlink = \"r-b\"\ncut = true\n\
               [[event]]\nat = \"3s\"\nlink = \"r-b\"\ncut = false\n";
    let report = run(&(text + cut)).unwrap();
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.error.as_deref()), (5 << 20, None));
    let ended = |report: &Report| report.flows[0].ended.expect("an end");
    assert!(ended(&report) > ended(&whole) + 2.0, "{flow:?}");
    let at = |seconds: f64| {
        let before = flow
            .samples
            .iter()
            .rfind(|sample| sample.seconds <= seconds);
        before.map_or(0, |sample| sample.bytes)
    };
    assert_eq!(at(1.1), at(2.9), "bytes over a link that is cut");
    let events = report.events.iter();
    let events: Vec<_> = events.map(|event| (event.seconds, &*event.what)).collect();
    assert_eq!(events, [(1.0, "r-b cut"), (3.0, "r-b mended")]);
    assert_eq!(report.svg().matches("r-b mended").count(), 4);
}

#[test]
fn an_event_that_impairs_anew_leaves_nothing_of_what_was_before() {
    let before = ["delay=1ms,rate=1mbit", "delay=1ms,corrupt=100%"];
    for before in before {
        let text = path(before)
            + SEND
            + "at = \"1s\"\nbytes = \"1M\"\n"
            + "[[event]]\nat = \"500ms\"\nlink = \"r-b\"\nimpair = \"delay=1ms\"\n";
        let Some(report) = run(&text) else { return };
        let flow = &report.flows[0];
        assert_eq!((flow.bytes, flow.retransmits), (1 << 20, 0), "{before}");
        assert!(flow.bits_per_second > 50e6, "{before}: {report}");
    }
}

#[test]
fn packets_take_the_way_that_the_file_says() {
    // A square: a, x, b and a, y, b. The shortest ways are as long; the file prefers y.
    let text = "[[node]]\nname = \"a\"\n[[node.route]]\nto = \"TO\"\nvia = \"10.0.2.2\"\n\
                [[node]]\nname = \"x\"\n[[node]]\nname = \"y\"\n[[node]]\nname = \"b\"\n\
                [[link]]\nbetween = [\"a\", \"x\"]\n\
                [[link]]\nbetween = [\"x\", \"b\"]\n\
                [[link]]\nbetween = [\"a\", \"y\"]\naddresses = [\"10.0.2.1/24\", \"10.0.2.2/24\"]\n\
                [[link]]\nbetween = [\"y\", \"b\"]\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"100K\"\n";
    for to in ["10.0.1.0/24", "10.0.0.0/8", "default"] {
        let Some(report) = run(&text.replace("TO", to)) else {
            return;
        };
        assert_eq!(report.flows[0].bytes, 100 << 10);
        let passed = |name: &str| {
            let mut links = report.links.iter();
            links.find(|link| link.name == name).expect("a link").bytes[0]
        };
        assert!(
            passed("a-y") > 100 << 10 && passed("a-x") < 1000,
            "{to}: {:?}",
            report.links
        );
    }
}

#[test]
fn ipv6_is_routed_too() {
    let text = format!(
        "{THREE}[[link]]\nbetween = [\"a\", \"r\"]\naddresses = [\"fd00:1::1/64\", \"fd00:1::2/64\"]\n\
         [[link]]\nbetween = [\"r\", \"b\"]\naddresses = [\"fd00:2::1/64\", \"fd00:2::2/64\"]\n\
         {SEND}bytes = \"1M\"\n"
    );
    let Some(report) = run(&text) else { return };
    assert_eq!(
        (report.flows[0].bytes, report.flows[0].error.as_deref()),
        (1 << 20, None)
    );
}

/// A triangle a, b, r, and c behind b.
const TRIANGLE: &str = "[[node]]\nname = \"a\"\nROUTES[[node]]\nname = \"b\"\n\
    [[node]]\nname = \"r\"\n[[node.route]]\nto = \"fd00:1::/64\"\nvia = \"fd00:3::2\"\n\
    [[node]]\nname = \"c\"\n\
    [[link]]\nbetween = [\"a\", \"b\"]\naddresses = [\"fd00:1::1/64\", \"fd00:1::2/64\"]\n\
    [[link]]\nbetween = [\"a\", \"r\"]\naddresses = [\"fd00:2::1/64\", \"fd00:2::2/64\"]\n\
    [[link]]\nbetween = [\"r\", \"b\"]\naddresses = [\"fd00:3::1/64\", \"fd00:3::2/64\"]\n\
    [[link]]\nbetween = [\"b\", \"c\"]\naddresses = [\"fd00:4::1/64\", \"fd00:4::2/64\"]\n";

#[test]
fn a_way_to_a_neighbour_may_be_by_another_one() {
    let route = |to: &str, via| format!("[[node.route]]\nto = \"{to}\"\nvia = \"{via}\"\n");
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"TO\"\nbytes = \"100K\"\n";
    // b itself is reached by r, and by b what is behind it.
    let near = route("fd00:1::2/128", "fd00:2::2");
    let by_itself = route("fd00:1::2/128", "fd00:1::2");
    let all = route("default", "fd00:1::2");
    for (routes, to, by_r) in [
        (near.clone(), "b", true),
        (near.clone(), "c", false),
        (near.clone() + &all, "c", false),
        (all.clone() + &near, "b", true),
        (by_itself.clone(), "b", false),
        (by_itself, "c", false),
        (all, "c", false),
        (route("default", "fd00:2::2"), "c", true),
    ] {
        let text = TRIANGLE.replace("ROUTES", &routes) + &flow.replace("TO", to);
        let Some(report) = run(&text) else { return };
        assert_eq!(report.flows[0].bytes, 100 << 10, "{routes}");
        let passed = |name: &str| {
            let mut links = report.links.iter();
            links.find(|link| link.name == name).expect("a link").bytes[0] > 100 << 10
        };
        assert_eq!(
            [passed("a-r"), passed("a-b")],
            [by_r, !by_r],
            "{routes}to {to}"
        );
    }
}

#[test]
fn bbr_fills_a_long_path_that_loses_where_cubic_does_not() {
    let text = include_str!("../examples/bbr.toml");
    // As long as it takes to see.
    let text = text
        .replace("\"20s\"", "\"6s\"")
        .replace("\"21s\"", "\"7s\"");
    let Some(report) = run(&text) else { return };
    let flow = |name: &str| -> &FlowReport {
        report
            .flows
            .iter()
            .find(|flow| flow.name == name)
            .expect("a flow")
    };
    let (cubic, bbr) = (flow("cubic"), flow("bbr"));
    assert!(cubic.retransmits > 5 && bbr.retransmits > 200, "{report}");
    assert!(bbr.bits_per_second > 40e6, "{report}");
    assert!(
        bbr.bits_per_second > 10.0 * cubic.bits_per_second,
        "{report}"
    );
    let svg = report.svg();
    assert_eq!(svg.matches("<polyline").count(), 8);
}

#[test]
fn what_the_image_lacks_is_told_by_its_line() {
    let Some(options) = options() else { return };
    let refused = |text: &str, options: &Options| match Lab::start(&plan(text), options, &|| false)
    {
        Err(Error::Topology { line, text, .. }) => (line, text),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    };
    let two =
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
               [[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1K\"\n";
    let (line, text) = refused(&format!("{two}congestion = \"none\"\n"), &options);
    assert_eq!(line, 11);
    assert!(
        text.contains("\"none\"; it has ") && text.contains("cubic"),
        "{text}"
    );
    let sysctl = two.replacen(
        "name = \"a\"",
        "name = \"a\"\nsysctl = { \"net.none\" = \"1\" }",
        1,
    );
    let (line, text) = refused(&sysctl, &options);
    assert_eq!(
        (line, text.as_str()),
        (3, "the kernel image has no sysctl net.none")
    );
    let Some(smp) = image("smp") else { return };
    let without = Options {
        image: Some(smp),
        ..options
    };
    let (line, text) = refused(two, &without);
    assert_eq!(line, 2);
    assert!(text.contains("has no network"), "{text}");
}

#[test]
fn who_wants_it_to_stop_is_heeded() {
    let Some(options) = options() else { return };
    let plan = plan(&(path("rate=10mbit") + SEND + "for = \"30min\"\n"));
    let early = Lab::start(&plan, &options, &|| true).map(drop);
    assert!(matches!(early, Err(Error::Interrupted)));
    let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(lab.run(&|| true), Err(Error::Interrupted)));
}

#[test]
fn who_wants_it_to_stop_is_heeded_while_no_time_passes() {
    let Some(options) = options() else { return };
    // A terabyte within a node, all of it at one instant.
    let send = SEND.replace("\"b\"", "\"a\"") + "bytes = \"1000G\"\n";
    let plan = plan(&(path("delay=1ms") + &send));
    let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
    let asked = AtomicU64::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) == 100;
    assert!(matches!(lab.run(&stop), Err(Error::Interrupted)));
}

#[test]
fn a_flow_that_nobody_answers_ends_with_an_error() {
    // Cut before it begins, for longer than TCP tries.
    let text = path("delay=1ms")
        + SEND
        + "at = \"1s\"\nbytes = \"1K\"\n[[event]]\nat = \"500ms\"\nlink = \"r-b\"\ncut = true\n";
    let Some(report) = run(&text) else { return };
    let flow = &report.flows[0];
    assert_eq!(flow.bytes, 0);
    assert!(flow.error.is_some(), "{report}");
    assert!(report.error().is_some_and(|(name, _)| name == "flow1"));
}

#[test]
fn a_connection_that_dies_when_all_was_handed_over_ends_with_an_error() {
    // Cut for good while the rest is on its way: of the bytes to the server, or of the answer to the
    // client, which has nothing to send then. The router first asks for the neighbour, for 40 ms.
    let works = [
        ("bytes = \"10K\"", "1090ms", 0),
        (
            "request = \"10\"\nresponse = \"20K\"\ntimes = 2",
            "1150ms",
            10,
        ),
    ];
    let soon = "sysctl = { \"net.ipv4.tcp_retries2\" = \"2\" }\n";
    let named = |name| format!("name = \"{name}\"\n");
    let path = ["a", "b"].iter().fold(path("delay=20ms"), |text, node| {
        text.replace(&named(node), &(named(node) + soon))
    });
    for (work, cut, bytes) in works {
        let text = path.clone()
            + SEND
            + &format!("at = \"1s\"\n{work}\n")
            + &format!("[[event]]\nat = \"{cut}\"\nlink = \"r-b\"\ncut = true\n");
        let Some(report) = run(&text) else { return };
        let flow = &report.flows[0];
        assert_eq!(flow.bytes, bytes, "{work}: {report}");
        assert!(flow.error.is_some(), "{work}: {report}");
    }
}
