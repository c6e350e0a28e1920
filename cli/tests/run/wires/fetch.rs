//! Promises of `tane net http`: what a server has and says, by whose name, how late.

use super::{net, port, said, says, scratch, HOST};
use crate::common::dns::resolver;
use crate::common::text;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;
use tane_test_support::http::{Reply, Server};

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
