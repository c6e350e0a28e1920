//! Promises of topologies that make no sense: each is refused, with its line and what is wrong.

use std::path::Path;
use tane_netlab::{Error, Plan};

const TWO: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n";
const LINK: &str = "[[link]]\nbetween = [\"a\", \"b\"]\n";

fn plan(text: &str) -> Result<Plan, Error> {
    Plan::parse(Path::new("lab.toml"), text)
}

/// The line that is named, and what is wrong.
#[track_caller]
fn refused(text: &str) -> (usize, String) {
    match plan(text) {
        Err(Error::Topology { line, text, path }) => {
            assert_eq!(path, Path::new("lab.toml"));
            (line, text)
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused:\n{text}"),
    }
}

#[track_caller]
fn is_refused(text: &str, line: usize, words: &str) {
    let (there, why) = refused(text);
    assert!(why.contains(words), "{why:?} does not say {words:?}");
    assert_eq!(there, line, "{why}\n{text}");
}

#[test]
fn a_whole_topology_is_taken() {
    let text = format!(
        "seed = 7\nfor = \"10s\"\nsample = \"50ms\"\n{TWO}memory = \"64M\"\n\
         [node.sysctl]\n\"net.ipv4.tcp_ecn\" = \"1\"\n{LINK}name = \"wan\"\nmtu = 9000\n\
         addresses = [\"fd00::1/64\", \"fd00::2/64\"]\nthere = \"rate=1mbit,loss=1%\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\nfor = \"5s\"\ncongestion = \"bbr\"\n\
         [[flow]]\nname = \"rpc\"\nfrom = \"b\"\nto = \"a\"\nrequest = \"100\"\nresponse = \"1K\"\ntimes = 10\n\
         [[event]]\nat = \"2s\"\nlink = \"wan\"\ncut = true\n"
    );
    let plan = plan(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.nodes(), 2);
    assert_eq!(plan.links().collect::<Vec<_>>(), ["wan"]);
}

#[test]
fn names_that_nobody_has_are_refused() {
    is_refused("seed = 1\n", 1, "no [[node]]");
    is_refused(
        &format!("{TWO}[[link]]\nbetween = [\"a\", \"c\"]\n"),
        6,
        "no node \"c\"",
    );
    is_refused(
        &format!("{TWO}[[link]]\nbetween = [\"a\", \"c\"]\n"),
        6,
        "nodes are a, b",
    );
    is_refused(
        &format!("{TWO}{LINK}[[flow]]\nfrom = \"x\"\nto = \"b\"\nbytes = \"1K\"\n"),
        8,
        "\"x\"",
    );
    is_refused(
        &format!("{TWO}{LINK}[[event]]\nat = \"1s\"\nlink = \"c\"\ncut = true\n"),
        9,
        "links are a-b",
    );
    is_refused(
        &format!("{TWO}[[node]]\nname = \"a\"\n"),
        6,
        "a second node a; the first is in line 2",
    );
    is_refused("[[node]]\nname = \"../x\"\n", 2, "is no name");
    is_refused(&format!("{TWO}colour = \"red\"\n"), 5, "colour");
}

#[test]
fn links_that_join_nothing_are_refused() {
    is_refused(
        &format!("{TWO}[[link]]\nbetween = [\"a\", \"a\"]\n"),
        6,
        "from a to itself",
    );
    is_refused(
        &format!("{TWO}[[link]]\nbetween = [\"a\"]\n"),
        6,
        "between two nodes",
    );
    is_refused(&format!("{TWO}{LINK}mtu = 20\n"), 7, "an MTU is from 68");
}

#[test]
fn addresses_that_clash_are_refused() {
    let with = |addresses: &str| format!("{TWO}{LINK}addresses = {addresses}\n");
    is_refused(&with("[\"10.0.0.1/24\"]"), 7, "one for each end");
    is_refused(
        &with("[\"10.0.0.1\", \"10.0.0.2/24\"]"),
        7,
        "write 10.0.0.1/24",
    );
    is_refused(&with("[\"10.0.0.1/33\", \"10.0.0.2/33\"]"), 7, "no address");
    is_refused(&with("[\"10.0.0.1/24\", \"10.0.0.1/24\"]"), 7, "both ends");
    is_refused(
        &with("[\"10.0.0.1/24\", \"10.0.1.2/24\"]"),
        7,
        "not in the network",
    );
    is_refused(&with("[\"127.0.0.1/8\", \"127.0.0.2/8\"]"), 7, "loopback");
    is_refused(
        &with("[\"10.0.0.0/24\", \"10.0.0.2/24\"]"),
        7,
        "the network's own",
    );
    let text = with("[\"10.0.0.1/24\", \"10.0.0.2/24\"]")
        + "[[link]]\nbetween = [\"a\", \"b\"]\naddresses = [\"10.0.0.129/25\", \"10.0.0.130/25\"]\n";
    is_refused(&text, 10, "also that of the link a-b (line 6)");
}

#[test]
fn routes_that_lead_nowhere_or_round_and_round_are_refused() {
    let three = "[[node]]\nname = \"a\"\n[[node]]\nname = \"r\"\nROUTES[[node]]\nname = \"s\"\n\
                 [[node.route]]\nto = \"10.0.9.0/24\"\nvia = \"10.0.1.1\"\n\
                 [[node]]\nname = \"b\"\n\
                 [[link]]\nbetween = [\"a\", \"r\"]\n\
                 [[link]]\nbetween = [\"r\", \"s\"]\naddresses = [\"10.0.1.1/24\", \"10.0.1.2/24\"]\n\
                 [[link]]\nbetween = [\"r\", \"b\"]\naddresses = [\"10.0.9.1/24\", \"10.0.9.2/24\"]\n";
    let good = three.replace("ROUTES", "");
    plan(&good).unwrap_or_else(|e| panic!("{e}"));
    // To one host of it by the node that sends it back.
    let routes = "[[node.route]]\nto = \"10.0.9.2/32\"\nvia = \"10.0.1.2\"\n";
    // The router is on that network itself; but this is more of the address.
    is_refused(
        &three.replace("ROUTES", routes),
        11,
        "round and round: s - r - s",
    );
    let routes = "[[node.route]]\nto = \"10.0.9.7/24\"\nvia = \"10.0.1.2\"\n";
    is_refused(
        &three.replace("ROUTES", routes),
        6,
        "r is on 10.0.9.0/24 itself, by its link r-b",
    );
    let routes = "[[node.route]]\nto = \"10.0.9.0/24\"\nvia = \"10.0.7.7\"\n";
    is_refused(
        &three.replace("ROUTES", routes),
        7,
        "at the other end of no link of r",
    );

    let circle = "[[node]]\nname = \"a\"\n\
                  [[node]]\nname = \"r\"\n[[node.route]]\nto = \"default\"\nvia = \"10.0.1.2\"\n\
                  [[node]]\nname = \"s\"\n[[node.route]]\nto = \"10.0.9.0/24\"\nvia = \"10.0.1.1\"\n\
                  [[node]]\nname = \"t\"\nforward = false\n[[node]]\nname = \"b\"\n\
                  [[link]]\nbetween = [\"a\", \"r\"]\n\
                  [[link]]\nbetween = [\"r\", \"s\"]\naddresses = [\"10.0.1.1/24\", \"10.0.1.2/24\"]\n\
                  [[link]]\nbetween = [\"s\", \"t\"]\n\
                  [[link]]\nbetween = [\"t\", \"b\"]\naddresses = [\"10.0.9.1/24\", \"10.0.9.2/24\"]\n";
    is_refused(circle, 6, "round and round: r - s - r");
}

#[test]
fn routes_of_which_each_hides_the_others_gateway_are_refused() {
    let text = "[[node]]\nname = \"a\"\n\
                [[node.route]]\nto = \"fd00:1::2/128\"\nvia = \"fd00:2::2\"\n\
                [[node.route]]\nto = \"fd00:2::2/128\"\nvia = \"fd00:1::2\"\n\
                [[node]]\nname = \"b\"\n\
                [[node.route]]\nto = \"fd00:2::/64\"\nvia = \"fd00:3::1\"\n\
                [[node]]\nname = \"r\"\n\
                [[node.route]]\nto = \"fd00:1::/64\"\nvia = \"fd00:3::2\"\n\
                [[link]]\nbetween = [\"a\", \"b\"]\naddresses = [\"fd00:1::1/64\", \"fd00:1::2/64\"]\n\
                [[link]]\nbetween = [\"a\", \"r\"]\naddresses = [\"fd00:2::1/64\", \"fd00:2::2/64\"]\n\
                [[link]]\nbetween = [\"r\", \"b\"]\naddresses = [\"fd00:3::1/64\", \"fd00:3::2/64\"]\n";
    is_refused(text, 4, "no gateway to which another route leads");
    // IPv4 minds that not.
    let four = text.replace("fd00:", "10.0.").replace("::/", ".0/");
    let four = four
        .replace("::", ".")
        .replace("/128", "/32")
        .replace("/64", "/24");
    plan(&four).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn flows_that_cannot_be_are_refused() {
    let with = |flow: &str| format!("{TWO}{LINK}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}");
    is_refused(&with(""), 8, "how much?");
    is_refused(&with("bytes = \"0\"\n"), 10, "nothing is sent");
    is_refused(&with("bytes = \"much\"\n"), 10, "is no size");
    is_refused(&with("for = \"10\"\n"), 10, "is no time");
    is_refused(&with("for = \"10s\"\n"), 8, "without a rate");
    is_refused(&with("request = \"10\"\n"), 10, "how often?");
    is_refused(&with("request = \"10\"\ntimes = 0\n"), 11, "no times");
    is_refused(&with("response = \"10\"\n"), 10, "a response to no request");
    is_refused(
        &with("bytes = \"1K\"\naddress = \"10.9.9.9\"\n"),
        11,
        "no address of b",
    );
    is_refused(&with("bytes = \"1K\"\nport = 0\n"), 8, "a port is");
    is_refused(
        &with("request = \"1\"\nfor = \"1s\"\n").replace("to = \"b\"", "to = \"a\""),
        8,
        "within one node",
    );
    let apart = format!(
        "{TWO}[[node]]\nname = \"c\"\n{LINK}[[flow]]\nfrom = \"c\"\nto = \"b\"\nbytes = \"1K\"\n"
    );
    is_refused(&apart, 11, "packets of c do not reach");
}

#[test]
fn datagrams_that_cannot_be_are_refused() {
    let with = |rest: &str| {
        format!("{TWO}{LINK}[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\n{rest}")
    };
    let rate = "rate = \"1mbit\"\n";
    plan(&with(&format!("{rate}for = \"1s\"\n"))).unwrap_or_else(|e| panic!("{e}"));
    is_refused(&with("times = 1\n"), 8, "how fast?");
    is_refused(&with(rate), 8, "how many?");
    is_refused(
        &with(&format!("{rate}times = 1\nfor = \"1s\"\n")),
        8,
        "one of bytes",
    );
    is_refused(&with(&format!("{rate}times = 0\n")), 12, "no times");
    is_refused(&with("rate = \"fast\"\ntimes = 1\n"), 11, "is no rate");
    is_refused(
        &with(&format!("{rate}size = \"7\"\ntimes = 1\n")),
        12,
        "from 8 to",
    );
    is_refused(
        &with(&format!("{rate}size = \"64K\"\ntimes = 1\n")),
        12,
        "from 8 to",
    );
    is_refused(
        &with(&format!("{rate}mptcp = true\ntimes = 1\n")),
        12,
        "of TCP",
    );
    is_refused(
        &with(&format!("{rate}congestion = \"bbr\"\ntimes = 1\n")),
        12,
        "of TCP",
    );
    let other = with("times = 1\n").replace("udp", "sctp");
    is_refused(&other, 10, "no protocol");
    let tcp = with(&format!("{rate}bytes = \"1K\"\n")).replace("udp", "tcp");
    is_refused(&tcp, 11, "of datagrams");
}

#[test]
fn endpoints_that_cannot_be_are_refused() {
    let with = |endpoint: &str| {
        let node = format!("name = \"a\"\n[[node.endpoint]]\n{endpoint}\n");
        TWO.replacen("name = \"a\"\n", &node, 1)
            + "[[node]]\nname = \"c\"\n"
            + LINK
            + "[[link]]\nbetween = [\"a\", \"c\"]\n"
            + "[[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1K\"\nmptcp = true\n"
    };
    let good = with("address = \"10.0.1.1\"\nflags = \"signal\"");
    plan(&good).unwrap_or_else(|e| panic!("{e}"));
    let foreign = with("address = \"10.0.0.2\"\nflags = \"subflow\"");
    is_refused(&foreign, 4, "no address of a");
    let flags = with("address = \"10.0.1.1\"\nflags = \"subflow,often\"");
    is_refused(&flags, 5, "write subflow, signal");
    is_refused(&with("address = \"10.0.1.1\""), 3, "flags");
    // c is at no other link.
    let nowhere = with("address = \"10.0.1.1\"\nflags = \"subflow\"");
    is_refused(&nowhere, 4, "no way from 10.0.1.1 by its link to b");
    let one = "address = \"10.0.1.1\"\nflags = \"signal\"\n";
    let twice = with(&format!("{one}[[node.endpoint]]\n{one}"));
    is_refused(
        &twice,
        7,
        "a second endpoint 10.0.1.1; the first is in line 4",
    );
}

#[test]
fn impossible_rates_are_refused() {
    for wrong in ["rate=0bit", "loss=101%", "delay=-1ms", "fast"] {
        is_refused(
            &format!("{TWO}{LINK}impair = \"{wrong}\"\n"),
            7,
            "impairs nothing",
        );
    }
    let both = format!("{TWO}{LINK}impair = \"loss=1%\"\nthere = \"loss=1%\"\n");
    is_refused(&both, 7, "say there and back, or impair");
    is_refused(
        &format!("{TWO}{LINK}[[event]]\nat = \"1s\"\nlink = \"a-b\"\n"),
        8,
        "nothing happens",
    );
    is_refused(&format!("sample = \"0s\"\n{TWO}"), 1, "no time between");
}

#[test]
fn what_is_no_toml_is_refused_by_its_line() {
    is_refused("seed = 1\n[[node]\nname = \"a\"\n", 2, "");
    is_refused("seed = \"one\"\n", 1, "invalid type");
    let error = Plan::read(Path::new("/nonexistent/lab.toml")).unwrap_err();
    assert!(
        error.to_string().starts_with("/nonexistent/lab.toml: "),
        "{error}"
    );
}

#[test]
fn more_nodes_than_a_process_has_room_for_are_refused_before_one_starts() {
    let nodes = |count: usize| -> String {
        let node = |i| format!("[[node]]\nname = \"n{i}\"\n");
        (0..count).map(node).collect()
    };
    assert_eq!(plan(&nodes(128)).expect("a plan").nodes(), 128);
    is_refused(&nodes(129), 2 * 128 + 2, "room for 128 kernels");
}
