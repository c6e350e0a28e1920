//! Promises of flows of datagrams: each is counted as sent, and as arrived, lost, doubled or late, and
//! the time that it took is known to the nanosecond.

use std::path::Path;
use tane_netlab::{DatagramReport, FlowReport, Lab, Options, Plan, Report};
use tane_test_support::image;

#[track_caller]
fn run(text: &str, seed: u64) -> Option<Report> {
    let plan = Plan::parse(Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"));
    let plan = plan.with_seed(seed);
    let options = Options {
        image: Some(image("default")?),
        ..Options::default()
    };
    let lab = Lab::start(&plan, &options, &|| false).unwrap_or_else(|e| panic!("{e}"));
    Some(lab.run(&|| false).unwrap_or_else(|e| panic!("{e}")))
}

/// A path by a router, and a flow of datagrams of 1,000 bytes.
fn flow(impair: &str, rest: &str) -> String {
    format!(
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"r\"\n[[node]]\nname = \"b\"\n\
         [[link]]\nbetween = [\"a\", \"r\"]\n\
         [[link]]\nbetween = [\"r\", \"b\"]\nimpair = \"{impair}\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nsize = \"1000\"\n{rest}"
    )
}

fn counts(flow: &FlowReport) -> DatagramReport {
    assert_eq!((flow.protocol, flow.error.as_deref()), ("udp", None));
    let all = flow.datagrams.expect("datagrams");
    assert_eq!(all.sent, all.arrived + all.lost, "{all:?}");
    assert_eq!(flow.bytes, all.arrived * 1000);
    all
}

#[test]
fn datagrams_are_sent_at_their_rate_and_take_what_their_way_is_long() {
    let Some(report) = run(&flow("delay=7ms", "rate=\"4mbit\"\nfor = \"2s\"\n"), 1) else {
        return;
    };
    let flow = &report.flows[0];
    let all = counts(flow);
    // One every 2 ms.
    assert_eq!(
        (all.sent, all.lost, all.reordered, all.doubled),
        (1000, 0, 0, 0)
    );
    // Who the neighbours are is asked first; else 7 ms and two cables of 1 µs.
    assert_eq!((all.min_ms, all.median_ms), (7.002, 7.002), "{all:?}");
    assert!(all.jitter_ms < 1e-6, "{all:?}");
    let ended = flow.ended.expect("an end");
    assert!((2.0049..2.0051).contains(&ended), "{ended}");
    let text = report.to_string();
    assert!(
        text.contains("1000 datagrams: 0 lost, 0 out of order, 0 twice; 7.002 ms"),
        "{text}"
    );
    assert_eq!(report.svg().matches("<polyline").count(), 1);
}

#[test]
fn what_netem_loses_doubles_and_delays_is_counted_and_the_same_by_the_same_seed() {
    // An answer first: while a neighbour is asked for that is lost, datagrams wait, and few have room.
    let text = flow(
        "delay=20ms,jitter=5ms,loss=10%,duplicate=5%",
        "at = \"5s\"\nrate=\"8mbit\"\ntimes = 2000\n",
    )
        + "[[flow]]\nfrom = \"a\"\nto = \"b\"\nrequest = \"1\"\nresponse = \"1\"\ntimes = 1\n";
    let Some(report) = run(&text, 1) else { return };
    let all = counts(&report.flows[0]);
    assert_eq!(all.sent, 2000);
    assert!((140..260).contains(&all.lost), "{all:?}");
    assert!((50..150).contains(&all.doubled), "{all:?}");
    assert!(
        all.reordered > 100 && all.jitter_ms > 0.5 && all.max_ms > 22.0,
        "{all:?}"
    );
    let again = run(&text, 1).unwrap();
    assert_eq!(format!("{all:?}"), format!("{:?}", counts(&again.flows[0])));
    let other = run(&text, 2).unwrap();
    assert_ne!(format!("{all:?}"), format!("{:?}", counts(&other.flows[0])));
}

#[test]
fn a_way_that_is_narrower_than_the_flow_loses_the_rest() {
    let text = flow(
        "rate=2mbit,limit=10",
        "rate = \"4mbit\"\nbytes = \"1000000\"\n",
    );
    let Some(report) = run(&text, 1) else { return };
    let all = counts(&report.flows[0]);
    assert_eq!(all.sent, 1000);
    // 1,000 of 1,042 bytes of a frame.
    let rate = report.flows[0].bits_per_second;
    let most = 2e6 * 1000.0 / 1042.0;
    assert!(rate > 0.95 * most && rate <= most * 1.02, "{report}");
    assert!(all.lost > 500 && all.max_ms > 30.0, "{report}");
}

#[test]
fn a_link_that_is_cut_is_lost_datagrams_and_no_error() {
    // Long enough for its router to say that it reaches nobody.
    let text = flow("delay=1ms", "rate = \"800kbit\"\nfor = \"9s\"\n")
        + "[[event]]\nat = \"1005ms\"\nlink = \"r-b\"\ncut = true\n\
           [[event]]\nat = \"6005ms\"\nlink = \"r-b\"\ncut = false\n";
    let Some(report) = run(&text, 1) else { return };
    let flow = &report.flows[0];
    let all = counts(flow);
    // One every 10 ms; some wait for their neighbour.
    assert_eq!(all.sent, 900);
    assert!((390..=600).contains(&all.lost), "{all:?}");
    let at = |seconds: f64| {
        let mut samples = flow.samples.iter().rev();
        samples
            .find(|sample| sample.seconds <= seconds)
            .map_or(0, |sample| sample.bytes)
    };
    assert_eq!((at(1.1), at(6.0)), (101_000, 101_000), "{report}");
    assert!(at(8.9) > 101_000 + 100_000, "{report}");
    assert!(flow.ended.is_some_and(|ended| ended < 9.1), "{report}");
}

#[test]
fn a_sender_whose_buffer_is_full_waits_for_room_and_loses_nothing() {
    // The neighbour is asked for first, which takes 100 ms, while 500 are due: more than wait for
    // one, if the buffer does not stop them.
    let between = "between = [\"a\", \"r\"]\n";
    let slow = format!("{between}impair = \"delay=50ms,rate=100mbit,limit=5000\"\n");
    let small = "name = \"a\"\nsysctl = { \"net.core.wmem_default\" = \"65536\" }\n";
    let text = flow("delay=1ms", "rate = \"40mbit\"\ntimes = 1000\n")
        .replacen(between, &slow, 1)
        .replace("to = \"b\"", "to = \"r\"")
        .replacen("name = \"a\"\n", small, 1);
    let Some(report) = run(&text, 1) else { return };
    let all = counts(&report.flows[0]);
    assert_eq!((all.sent, all.lost), (1000, 0), "{report}");
    // The first, which waited inside the kernel; one that waited before; and none is behind.
    assert!((150.0..152.0).contains(&all.max_ms), "{report}");
    assert!((50.0..90.0).contains(&all.median_ms), "{report}");
    let ended = report.flows[0].ended.expect("an end");
    assert!((0.249..0.251).contains(&ended), "{ended}");
}

#[test]
fn datagrams_within_a_node_and_larger_than_a_frame_arrive() {
    let text = flow("delay=1ms", "rate = \"8mbit\"\ntimes = 100\n");
    let Some(report) = run(&text.replace("to = \"b\"", "to = \"a\""), 1) else {
        return;
    };
    let all = counts(&report.flows[0]);
    assert_eq!((all.arrived, all.max_ms), (100, 0.0), "{report}");
    let large = text.replace("size = \"1000\"", "size = \"60000\"");
    let report = run(&large, 1).unwrap();
    let all = report.flows[0].datagrams.expect("datagrams");
    assert_eq!((all.arrived, all.lost), (100, 0), "{report}");
}
