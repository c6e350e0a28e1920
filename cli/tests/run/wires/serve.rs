//! Promises of `tane net serve`: a directory's files and no others, to peers by the host's
//! network, a switch's socket and a tap interface.

use super::{net, request, said, says, scratch, Serving};
use crate::common::*;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use tane_test_support::{eventually, in_namespace};

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
fn the_hosts_own_programs_reach_a_tap_interface() {
    if !in_namespace("wires::serve::the_hosts_own_programs_reach_a_tap_interface") {
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
