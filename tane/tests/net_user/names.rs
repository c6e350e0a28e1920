//! Names, and lists of who may be reached.

use crate::inside::default_kernel;
use crate::wired::{connect, LONG};
use crate::{echo_server, error_of, furnish_namespace, host, networked, options, through};
use std::io::{Read, Write};
use std::net::{self, SocketAddr};
use tane::net::{addresses, UdpSocket};
use tane::Kernel;
use tane_test_support::in_namespace;

/// An answer of DNS to this query: its name is at this address.
fn answer(query: &[u8], address: [u8; 4]) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer[7] = 1;
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(address);
    answer
}

fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

/// A resolver of the host's, for datagrams and connections, which knows this address alone.
fn resolver(address: [u8; 4]) -> SocketAddr {
    let (datagrams, stream) = loop {
        let datagrams = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // Somebody may have the same port of the other kind.
        if let Ok(stream) = net::TcpListener::bind(datagrams.local_addr().unwrap()) {
            break (datagrams, stream);
        }
    };
    let at = datagrams.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = datagrams.recv_from(&mut buffer) {
            datagrams
                .send_to(&answer(&buffer[..n], address), from)
                .unwrap();
        }
    });
    std::thread::spawn(move || {
        for stream in stream.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut query = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut query).unwrap();
            let answer = answer(&query, address);
            stream
                .write_all(&(answer.len() as u16).to_be_bytes())
                .unwrap();
            stream.write_all(&answer).unwrap();
        }
    });
    at
}

fn ask(kernel: &Kernel, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind(kernel, ([0; 4], 0)).unwrap();
    socket.connect((addresses::NAMES4, 53)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send(query).unwrap();
    let mut buffer = [0; 512];
    let n = socket.recv(&mut buffer).unwrap();
    buffer[..n].to_vec()
}

fn ask_long(kernel: &Kernel, query: &[u8]) -> Vec<u8> {
    let mut stream = connect(kernel, (addresses::NAMES6, 53).into());
    // In pieces, as it may come.
    let message = [&(query.len() as u16).to_be_bytes(), query].concat();
    for byte in message {
        stream.write_all(&[byte]).unwrap();
    }
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn names_are_resolved_by_the_hosts_resolvers_and_those_that_are_denied_are_not() {
    let address = [192, 0, 2, 77];
    let mut options = options(&[]);
    options.deny = vec!["*.evil.example".parse().unwrap()];
    options.resolvers = Some(vec![resolver(address)]);
    let Some((kernel, _nic)) = networked(&options) else {
        return;
    };
    let good = query("good.example");
    assert_eq!(ask(&kernel, &good), answer(&good, address));
    assert_eq!(ask_long(&kernel, &good), answer(&good, address));
    let evil = query("very.EVIL.example");
    for refused in [ask(&kernel, &evil), ask_long(&kernel, &evil)] {
        assert_eq!(
            (refused[2] & 0x80, refused[3] & 15, refused[7]),
            (0x80, 5, 0)
        );
    }
}

#[test]
fn with_a_list_only_names_and_addresses_on_it_are_open() {
    if !in_namespace("names::with_a_list_only_names_and_addresses_on_it_are_open") {
        return;
    }
    let [named, numbered, neither] = [[203, 0, 113, 1], [203, 0, 113, 2], [203, 0, 113, 3]];
    furnish_namespace(&[named, numbered, neither]);
    let port = echo_server("0.0.0.0:0").port();
    let mut options = options(&["203.0.113.2", "*.good.example"]);
    options.deny = vec!["bad.good.example".parse().unwrap()];
    options.resolvers = Some(vec![resolver(named)]);
    let Some((kernel, _nic)) = networked(&options) else {
        return;
    };
    through(&kernel, (numbered, port).into(), 1000);
    for closed in [named, neither] {
        assert_eq!(error_of(&kernel, (closed, port).into()), libc::EHOSTUNREACH);
    }
    assert_eq!(ask(&kernel, &query("bad.good.example"))[3] & 15, 5);
    assert_eq!(ask(&kernel, &query("good.example"))[3] & 15, 5);
    assert_eq!(error_of(&kernel, (named, port).into()), libc::EHOSTUNREACH);
    // Its address is known once somebody has asked.
    assert_eq!(ask(&kernel, &query("a.good.example"))[3] & 15, 0);
    through(&kernel, (named, port).into(), 1000);
    assert_eq!(
        error_of(&kernel, (neither, port).into()),
        libc::EHOSTUNREACH
    );
    // A name that says it is the host itself opens nothing.
    let mut options = options.clone();
    options.resolvers = Some(vec![resolver([127, 0, 0, 1])]);
    let kernel = default_kernel().unwrap();
    let _nic = kernel.user_network(&options).unwrap();
    assert_eq!(ask(&kernel, &query("a.good.example"))[3] & 15, 0);
    assert_eq!(error_of(&kernel, host(port)), libc::EHOSTUNREACH);
}
