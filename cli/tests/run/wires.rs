//! Promises of `tane net`: what it sends and serves goes by the network that was named, and
//! by no other.

use crate::common::dns::resolver;
use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tane_test_support::http::{Reply, Server};
use tane_test_support::{eventually, skip};

const LONG: Duration = Duration::from_secs(300);
/// The host's loopback interface, as it is seen from inside.
const HOST: &str = "10.0.2.2";

fn scratch() -> Option<Scratch> {
    tane_test_support::image("default").map(|_| Scratch::new())
}

fn net(s: &Scratch, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.arg("net").args(words);
    command
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn said(mut command: Command) -> Said {
    let output = command.output().expect("tane");
    Said {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

#[track_caller]
fn says(command: Command, code: i32, out: &str, err: &str) {
    let said = said(command);
    assert!(
        said.code == Some(code) && said.out == out && said.err.contains(err),
        "{:?}\n{}\n{}",
        said.code,
        said.out,
        said.err
    );
}

fn port(server: &Server) -> u16 {
    let address: SocketAddr = server.address().parse().expect("an address");
    address.port()
}

#[test]
fn a_document_of_the_hosts_server_is_fetched_if_the_host_is_open() {
    let Some(s) = scratch() else { return };
    let body: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let server = Server::of(body.clone());
    let url = format!("http://{HOST}:{}/a?b", port(&server));
    let output = net(&s, &["http", &url, "--allow", "host"])
        .output()
        .expect("tane");
    assert!(output.stdout == body, "{}", text(&output.stderr));
    // The header alone, word for word.
    let only = ["http", &url, "--allow", "host", "-I"];
    let said = said(net(&s, &only));
    assert!(
        said.out.starts_with("HTTP/1.1 200 Test\r\n"),
        "{}",
        said.out
    );
    says(net(&s, &["http", &url]), 1, "", "--allow names it");
    let none = ["http", &url, "--net", "none"];
    says(net(&s, &none), 1, "", "Network is unreachable");
}

#[test]
fn what_a_server_says_is_taken_for_what_it_is() {
    let Some(s) = scratch() else { return };
    let server = Server::new(|request| match request.target.as_str() {
        "/none" => Reply {
            body: b"nothing here\n".to_vec(),
            ..Reply::status(404)
        },
        "/cut" => Reply {
            body: vec![b'x'; 1000],
            cut: Some(10),
            ..Reply::status(200)
        },
        _ => Reply {
            body: b"to the end\n".to_vec(),
            unmeasured: true,
            ..Reply::status(200)
        },
    });
    let fetch = |path: &str| {
        let url = format!("http://{HOST}:{}{path}", port(&server));
        net(&s, &["http", &url, "--allow", "host"])
    };
    says(
        fetch("/none"),
        1,
        "nothing here\n",
        "the server says HTTP/1.1 404",
    );
    let cut = said(fetch("/cut"));
    assert_eq!(cut.code, Some(1));
    assert!(
        cut.err.contains("ended after 10 of 1000 bytes"),
        "{}",
        cut.err
    );
    says(fetch("/"), 0, "to the end\n", "");
    // What is no server at all.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("bound").port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client");
        stream.write_all(b"220 mail\r\n").expect("it reads");
    });
    let url = format!("http://{HOST}:{port}/");
    let command = net(&s, &["http", &url, "--allow", "host"]);
    says(command, 1, "", "is no HTTP");
    thread.join().expect("a server");
    let nobody = net(&s, &["http", &url, "--allow", "host"]);
    says(nobody, 1, "", "Connection refused");
}

#[test]
fn names_are_those_of_the_resolver_that_was_named() {
    let Some(s) = scratch() else { return };
    const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
    let dns = resolver(&[("good.example", THERE)]).to_string();
    let server = Server::of(b"by its name\n".to_vec());
    let url = |name: &str| format!("http://{name}:{}/", port(&server));
    let open = ["--allow", "host", "--dns", &dns];
    let fetch = |name: &str| net(&s, &[&["http", &url(name)][..], &open].concat());
    says(fetch("good.example"), 0, "by its name\n", "");
    says(fetch("bad.example"), 1, "", "there is no such name");
    let listed = [
        "http",
        &url("bad.example"),
        "--allow",
        "good.example",
        "--dns",
        &dns,
    ];
    says(net(&s, &listed), 1, "", "--allow names what may be reached");
    let none = ["http", &url("good.example"), "--net", "none"];
    says(net(&s, &none), 1, "", "--dns says who is asked");
}

/// A server, which has said where it is, and its client.
struct Serving {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(mut command: Command) -> (Self, String) {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("tane");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut serving = Self { child, errors };
        let mut line = String::new();
        serving.errors.read_line(&mut line).expect("where it is");
        (serving, line)
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().expect("piped");
        stdout.read_to_string(&mut out).expect("what it served");
        (self.child.wait().expect("its end").code(), out)
    }
}

fn request(at: SocketAddr, request: &str) -> String {
    let mut answer = String::new();
    // It listens a moment after it has said so.
    eventually("it answers", || {
        answer.clear();
        let Ok(mut stream) = TcpStream::connect(at) else {
            return false;
        };
        stream.set_read_timeout(Some(LONG)).expect("a time");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream.read_to_string(&mut answer).is_ok() && !answer.is_empty()
    });
    answer
}

#[test]
fn a_directory_is_served_and_nothing_outside_of_it() {
    let Some(s) = scratch() else { return };
    s.write("site/a <b>.txt", b"a file\n");
    s.write("site/sub/index.html", b"<p>index\n");
    s.write("secret", b"secret\n");
    std::os::unix::fs::symlink("../secret", s.join("site/link")).expect("a link");
    let requests = [
        (
            "GET /",
            "200 OK",
            "<a href=\"./a%20%3Cb%3E.txt\">a &lt;b&gt;.txt</a>",
        ),
        ("GET /a%20%3Cb%3E.txt?x", "200 OK", "a file\n"),
        ("GET /sub", "301 Moved Permanently", "Location: /sub/\r\n"),
        ("GET /sub/", "200 OK", "<p>index\n"),
        ("HEAD /sub/", "200 OK", "Content-Length: 9\r\n"),
        ("GET /link", "404 Not Found", "not found"),
        ("GET /../secret", "400 Bad Request", "no path"),
        ("GET /%2e%2e/secret", "400 Bad Request", "no path"),
        ("GET /none", "404 Not Found", "not found"),
        ("POST /", "501 Not Implemented", "GET and HEAD alone"),
    ];
    let count = requests.len().to_string();
    let words = ["serve", "site", "-p", "0:8000", "--requests", &count];
    let (serving, line) = Serving::start(net(&s, &words));
    let at = line.split_whitespace().find_map(|word| word.parse().ok());
    let at: SocketAddr = at.unwrap_or_else(|| panic!("{line}"));
    for (what, status, part) in requests {
        let answer = request(at, &format!("{what} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let expected = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&expected), "{what}: {answer}");
        assert!(answer.contains(part), "{what}: {answer}");
        assert!(!answer.contains("secret\n"), "{what}: {answer}");
    }
    let (code, out) = serving.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("\"GET /sub/ HTTP/1.1\" 200 9\n"), "{out}");
    says(net(&s, &["serve", "secret"]), 2, "", "is no directory");
}

/// Who passes on between the two that connect what they send.
fn switch(s: &Scratch) -> String {
    let path = s.join("switch");
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        let ends = [(); 2].map(|()| listener.accept().expect("a client").0);
        let pass = |mut from: UnixStream, mut to: UnixStream| {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            })
        };
        let [a, b] = [0, 1].map(|n: usize| ends[n].try_clone().expect("a handle"));
        let [c, d] = ends;
        for thread in [pass(a, d), pass(b, c)] {
            thread.join().expect("a way");
        }
    });
    format!("switch={}", path.display())
}

#[test]
fn what_is_fetched_takes_as_long_as_the_network_was_made_to_be() {
    let Some(s) = scratch() else { return };
    let server = Server::of(b"late\n".to_vec());
    let url = format!("http://{HOST}:{}/", port(&server));
    let words = ["http", &url, "--allow", "host", "--impair", "delay=300ms"];
    let begun = std::time::Instant::now();
    says(net(&s, &words), 0, "late\n", "");
    // To connect, and to ask.
    assert!(begun.elapsed() >= Duration::from_millis(600));
    let lost = ["ping", "127.0.0.1", "--net", "user", "--impair", "loss"];
    says(net(&s, &lost), 2, "", "delay=100ms");
}

#[test]
fn two_of_them_talk_by_a_switch_and_their_packets_are_written_down() {
    let Some(s) = scratch() else { return };
    s.write("site/file", &[b'x'; 500_000]);
    let wire = switch(&s);
    let server = [
        "serve",
        "site",
        "--net",
        &wire,
        "--address",
        "10.7.0.2/24",
        "--requests",
        "1",
    ];
    let (serving, line) = Serving::start(net(&s, &server));
    assert!(line.contains("http://10.7.0.2:8000/"), "{line}");
    let client = [
        "http",
        "http://10.7.0.2:8000/file",
        "--net",
        &wire,
        "--address",
        "10.7.0.1/24",
        "--capture",
        "all.pcapng",
    ];
    let fetched = said(net(&s, &client));
    assert_eq!(fetched.out.len(), 500_000, "{}", fetched.err);
    let (code, out) = serving.end();
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "10.7.0.1 \"GET /file HTTP/1.1\" 200 500000\n")
    );
    let capture = s.read("all.pcapng");
    assert!(capture.len() > 500_000, "{} bytes", capture.len());
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let told = succeed(
        tcpdump
            .args(["-nr", "all.pcapng", "tcp"])
            .current_dir(s.path()),
    );
    assert!(
        text(&told.stdout).contains("10.7.0.2.8000"),
        "{}",
        text(&told.stdout)
    );
}

#[test]
fn a_ping_is_answered_by_a_wire_of_datagrams_as_well() {
    let Some(s) = scratch() else { return };
    let path = s.join("datagrams");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LONG)).expect("a time");
    // One that has every address answers who asks for one and echoes what is sent to it.
    let peer = std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        loop {
            let (n, from) = socket.recv_from(&mut frame).expect("a frame");
            let Some(answer) = answered(&frame[..n]) else {
                continue;
            };
            let is_echo = answer[12..14] == [8, 0];
            if socket.send_to_addr(&answer, &from).is_err() || is_echo {
                return;
            }
        }
    });
    let wire = format!("switch={}", path.display());
    let words = [
        "ping",
        "10.7.0.9",
        "-c",
        "1",
        "--net",
        &wire,
        "--address",
        "10.7.0.1/24",
    ];
    let pinged = said(net(&s, &words));
    assert_eq!(pinged.code, Some(0), "{}{}", pinged.out, pinged.err);
    let line = "64 bytes from 10.7.0.9: icmp_seq=1 ttl=64 time=";
    assert!(pinged.out.contains(line), "{}", pinged.out);
    assert!(pinged
        .out
        .contains("1 packets transmitted, 1 received, 0% packet loss"));
    peer.join().expect("a peer");
}

/// An answer to a question for an address (RFC 826) or to an echo request (RFC 792).
fn answered(frame: &[u8]) -> Option<Vec<u8>> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    match frame.get(12..14)? {
        [8, 6] if frame.get(20..22)? == [0, 1] => {
            answer[21] = 2;
            let (asker, asked) = (frame[22..32].to_vec(), frame[38..42].to_vec());
            answer[22..28].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
            answer[28..32].copy_from_slice(&asked);
            answer[32..42].copy_from_slice(&asker);
            Some(answer)
        }
        [8, 0] if frame.get(23)? == &1 && frame.get(34)? == &8 => {
            let (from, to) = (frame[26..30].to_vec(), frame[30..34].to_vec());
            answer[26..30].copy_from_slice(&to);
            answer[30..34].copy_from_slice(&from);
            // From 8 to 0, which the sum has with the other sign.
            answer[34] = 0;
            let sum = u16::from_be_bytes([frame[36], frame[37]]);
            let (sum, over) = sum.overflowing_add(0x800);
            let sum = sum + u16::from(over);
            answer[36..38].copy_from_slice(&sum.to_be_bytes());
            Some(answer)
        }
        _ => None,
    }
}

#[test]
fn pings_of_itself_are_answered_and_told_as_json_and_others_are_not() {
    let Some(s) = scratch() else { return };
    for host in ["127.0.0.1", "::1", "localhost"] {
        let words = [
            "ping", host, "-c", "2", "-i", "0.1", "--net", "none", "--json",
        ];
        let pinged = said(net(&s, &words));
        let lines: Vec<serde_json::Value> = pinged
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 3, "{}{}", pinged.out, pinged.err);
        assert_eq!(lines[1]["seq"], 2);
        assert_eq!(lines[2]["received"], 2);
        assert_eq!(lines[2]["host"], host);
    }
    let words = ["ping", "192.0.2.1", "-c", "1", "--net", "none"];
    let said = said(net(&s, &words));
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("unreachable"), "{}", said.err);
}

const INSIDE: &str = "TANE_TEST_NAMESPACE";

/// Run the rest of the test of this name in a user and a network namespace. `true`: this is the
/// process that is in them.
#[track_caller]
fn in_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = || {
        let mut command = Command::new("timeout");
        command.args(["300", "unshare", "--user", "--map-root-user", "--net"]);
        command
    };
    let tap = "test -c /dev/net/tun && exec 3<>/dev/net/tun";
    let allowed = unshare().args(["sh", "-c", tap]).output().expect("timeout");
    if !allowed.status.success() {
        let why = text(&allowed.stderr);
        skip(format!("no namespaces or tap interfaces here: {why}"));
        return false;
    }
    let me = std::env::current_exe().expect("this program");
    let mut again = unshare();
    again
        .arg(me)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1");
    let output = again.output().expect("unshare");
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        text(&output.stderr)
    );
    false
}

#[test]
fn the_hosts_own_programs_reach_a_tap_interface() {
    if !in_namespace("wires::the_hosts_own_programs_reach_a_tap_interface") {
        return;
    }
    let Some(s) = scratch() else { return };
    s.write("site/file", b"by a tap interface\n");
    let words = [
        "serve",
        "site",
        "--net",
        "tap=t0",
        "--address",
        "192.0.2.2/24",
        "--requests",
        "1",
    ];
    let (serving, line) = Serving::start(net(&s, &words));
    assert!(line.contains("http://192.0.2.2:8000/"), "{line}");
    let host = tane::Kernel::host();
    eventually("the interface is there", || host.link("t0").is_ok());
    let link = host.link("t0").expect("just seen");
    link.add_address([192, 0, 2, 1], 24).expect("an address");
    link.set_up().expect("an interface that is up");
    let at = SocketAddr::from(([192, 0, 2, 2], 8000));
    let answer = request(at, "GET /file HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("by a tap interface\n"), "{answer}");
    assert_eq!(serving.end().0, Some(0));
    // Nobody else has it now.
    let words = [
        "http",
        "http://192.0.2.1:9/",
        "--net",
        "tap=t0",
        "--address",
        "192.0.2.2/24",
    ];
    let alone = said(net(&s, &words));
    assert_eq!(alone.code, Some(1), "{}", alone.err);
}

#[test]
fn what_makes_no_sense_is_said_with_its_remedy() {
    let Some(s) = scratch() else { return };
    let wrong = |words: &[&str], part: &str| says(net(&s, words), 2, "", part);
    wrong(&["http", "https://a/"], "http alone");
    wrong(&["http", "a"], "write http://");
    wrong(
        &["ping", "::1", "--net", "bridge"],
        "write none, user, tap=NAME or switch=PATH",
    );
    wrong(
        &["ping", "::1", "--address", "10.0.0.1/24"],
        "--address is about a wire",
    );
    wrong(
        &["ping", "::1", "--net", "none", "--dns", "1.1.1.1"],
        "--dns is about a network",
    );
    wrong(
        &["ping", "::1", "--net", "tap=t", "--allow", "host"],
        "--allow is about the host's",
    );
    wrong(
        &["ping", "::1", "--net", "tap=t", "--address", "1.2.3.4"],
        "write ADDRESS/BITS",
    );
    wrong(
        &["ping", "::1", "--net", "none", "--impair", "loss=1%"],
        "--impair is about a network",
    );
    wrong(&["ping", "::1", "-c", "0"], "");
    let nobody = net(&s, &["ping", "::1", "--net", "switch=nobody"]);
    says(nobody, 3, "", "is to be started first");
    let long = net(&s, &["ping", "::1", "--net", "tap=a-name-that-is-too-long"]);
    says(long, 3, "", "at most 15 bytes");
}
