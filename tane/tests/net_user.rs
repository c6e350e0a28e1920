//! Promises of user mode: a kernel reaches the host's network through ordinary sockets,
//! and nothing of it that was not let.

mod inside;
mod wired;

use inside::{at, call, default_kernel, into, ok};
use std::io::{ErrorKind, Read, Write};
use std::net::{self, IpAddr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};
use tane::net::{addresses, Forward, TcpListener, TcpStream, UdpSocket, UserNetwork, UserNic};
use tane::Kernel;
use tane_test_support::eventually;
use wired::{connect, in_namespace, pattern, LONG};

/// The host's loopback interface as the kernel sees it.
fn host(port: u16) -> SocketAddr {
    (addresses::GATEWAY4, port).into()
}

fn host6(port: u16) -> SocketAddr {
    (addresses::GATEWAY6, port).into()
}

fn options(allow: &[&str]) -> UserNetwork {
    UserNetwork {
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        ..UserNetwork::default()
    }
}

fn networked(options: &UserNetwork) -> Option<(Kernel, UserNic)> {
    let kernel = default_kernel()?;
    let nic = kernel
        .user_network(options)
        .unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    Some((kernel, nic))
}

/// A server of the host's that sends back what it gets, until the end of it.
fn echo_server(address: &str) -> SocketAddr {
    let listener = net::TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        if stream.write_all(&buffer[..n]).is_err() {
                            return;
                        }
                    }
                })
                .unwrap();
        }
    });
    address
}

fn through(kernel: &Kernel, to: SocketAddr, len: usize) {
    let data = pattern(len);
    let stream = connect(kernel, to);
    let writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for piece in data.chunks(77_777) {
                (&writer).write_all(piece).expect("bytes to send");
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        (&stream)
            .read_to_end(&mut back)
            .expect("bytes that come back");
        assert_eq!(back.len(), data.len());
        assert!(back == data, "bytes have changed");
    });
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| panic!("{error}"))
}

fn error_of(kernel: &Kernel, to: SocketAddr) -> i32 {
    match TcpStream::connect(kernel, to) {
        Ok(_) => panic!("{to} is open"),
        Err(error) => errno(&error),
    }
}

#[test]
fn a_kernel_talks_to_servers_of_the_host_by_tcp_over_ipv4_and_ipv6() {
    let Some((kernel, _nic)) = networked(&options(&["host"])) else {
        return;
    };
    through(&kernel, host(echo_server("127.0.0.1:0").port()), 24 << 20);
    through(&kernel, host6(echo_server("[::1]:0").port()), 3 << 20);
}

#[test]
fn a_port_at_which_nobody_listens_is_refused_as_such() {
    let Some((kernel, _nic)) = networked(&options(&["host"])) else {
        return;
    };
    let port = {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_eq!(error_of(&kernel, host(port)), libc::ECONNREFUSED);
    assert_eq!(error_of(&kernel, host6(port)), libc::ECONNREFUSED);
}

#[test]
fn what_is_the_hosts_alone_is_closed_unless_it_is_opened_by_name() {
    let server = echo_server("127.0.0.1:0");
    for allow in [&[][..], &["0.0.0.0/0", "::/0", "*"], &["host:1"]] {
        let Some((kernel, _nic)) = networked(&options(allow)) else {
            return;
        };
        assert_eq!(error_of(&kernel, host(server.port())), libc::EHOSTUNREACH);
        // Linux has another name for it in IPv6.
        assert_eq!(error_of(&kernel, host6(server.port())), libc::EACCES);
        for closed in ["169.254.169.254", "100.100.100.200", "224.0.0.1"] {
            let to = SocketAddr::new(closed.parse().unwrap(), 80);
            let errno = error_of(&kernel, to);
            assert!(
                [libc::EHOSTUNREACH, libc::ENETUNREACH].contains(&errno),
                "{closed}: {errno}"
            );
        }
        for closed in ["fd00:ec2::254", "64:ff9b::7f00:1", "2002:7f00:1::1"] {
            let to = SocketAddr::new(closed.parse().unwrap(), server.port());
            assert_eq!(error_of(&kernel, to), libc::EACCES, "{closed}");
        }
        // That is the kernel's own.
        let own = SocketAddr::from(([127, 0, 0, 1], server.port()));
        assert_eq!(error_of(&kernel, own), libc::ECONNREFUSED);
    }
}

#[test]
fn ends_of_either_direction_and_resets_arrive_as_such() {
    let Some((kernel, _nic)) = networked(&options(&["host"])) else {
        return;
    };
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = host(listener.local_addr().unwrap().port());
    let pair = || {
        let inside = connect(&kernel, to);
        let (outside, _) = listener.accept().unwrap();
        outside.set_read_timeout(Some(LONG)).unwrap();
        (inside, outside)
    };
    // Their end comes first, and ours goes on.
    let (mut inside, mut outside) = pair();
    outside.shutdown(Shutdown::Write).unwrap();
    assert_eq!(inside.read(&mut [0]).unwrap(), 0);
    inside.write_all(b"still").unwrap();
    inside.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    outside.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still");
    // Ours comes first.
    let (mut inside, mut outside) = pair();
    inside.shutdown(Shutdown::Write).unwrap();
    assert_eq!(outside.read(&mut [0]).unwrap(), 0);
    outside.write_all(b"still").unwrap();
    drop(outside);
    text.clear();
    inside.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still");
    // Resets: what was sent is not read, and then the connection is closed.
    let (mut inside, mut outside) = pair();
    inside.write_all(b"unread").unwrap();
    eventually("it is there", || {
        outside.peek(&mut [0]).is_ok_and(|n| n == 1)
    });
    outside.write_all(b"an answer before").unwrap();
    drop(outside);
    inside.read_exact(&mut [0; 16]).unwrap();
    let error = inside.read(&mut [0]).unwrap_err();
    assert_eq!(errno(&error), libc::ECONNRESET);
    let (inside, other) = pair();
    outside = other;
    outside.write_all(b"unread").unwrap();
    eventually("it is there", || {
        inside.peek(&mut [0]).is_ok_and(|n| n == 1)
    });
    drop(inside);
    let error = outside.read(&mut [0]).unwrap_err();
    assert_eq!(errno(&error), libc::ECONNRESET);
}

#[test]
fn a_peer_that_takes_nothing_stalls_its_own_flow_alone_and_who_sends_is_stopped() {
    let Some((kernel, _nic)) = networked(&options(&["host"])) else {
        return;
    };
    let stalled = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let inside = connect(&kernel, host(stalled.local_addr().unwrap().port()));
    let (mut outside, _) = stalled.accept().unwrap();
    inside.set_nonblocking(true).unwrap();
    // It is full when it stays so for a while, and no memory holds much more.
    let (data, mut sent, mut last) = (pattern(1 << 20), 0, Instant::now());
    while last.elapsed() < Duration::from_millis(700) {
        match (&inside).write(&data[sent % data.len()..]) {
            Ok(n) => (sent, last) = (sent + n, Instant::now()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(sent < 64 << 20, "nobody stops who sends");
    }
    through(&kernel, host(echo_server("127.0.0.1:0").port()), 2 << 20);
    // What was taken is what arrives.
    inside.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    outside.read_to_end(&mut back).unwrap();
    assert_eq!(back.len(), sent);
    let is_same = back
        .chunks(data.len())
        .all(|piece| piece == &data[..piece.len()]);
    assert!(is_same, "bytes have changed");
}

#[test]
fn datagrams_go_both_ways_and_a_port_without_anybody_is_refused() {
    let Some((kernel, _nic)) = networked(&options(&["host"])) else {
        return;
    };
    for (own, there) in [
        ("127.0.0.1:0", host as fn(u16) -> SocketAddr),
        ("[::1]:0", host6),
    ] {
        let server = net::UdpSocket::bind(own).unwrap();
        let to = there(server.local_addr().unwrap().port());
        let any: IpAddr = if to.is_ipv4() {
            [0; 4].into()
        } else {
            [0; 16].into()
        };
        let client = UdpSocket::bind(&kernel, (any, 0)).unwrap();
        client.connect(to).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        server.set_read_timeout(Some(LONG)).unwrap();
        let mut buffer = vec![0; 70_000];
        for size in [1, 1472, 9000, 60_000] {
            let data = pattern(size);
            client.send(&data).unwrap();
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            assert!(buffer[..n] == data, "{size}");
            server.send_to(&buffer[..n], from).unwrap();
            let n = client.recv(&mut buffer).unwrap();
            assert!(buffer[..n] == data, "{size}");
        }
        drop(server);
        client.send(b"anybody?").unwrap();
        let error = client.recv(&mut buffer).unwrap_err();
        assert_eq!(errno(&error), libc::ECONNREFUSED);
    }
}

#[test]
fn a_port_of_the_hosts_leads_inside() {
    let forwards = vec!["0:80".parse::<Forward>().unwrap()];
    let options = UserNetwork {
        forwards,
        ..UserNetwork::default()
    };
    let Some((kernel, nic)) = networked(&options) else {
        return;
    };
    let at = nic.listening()[0];
    assert!(at.ip().is_loopback());
    // Nobody listens yet.
    let mut early = net::TcpStream::connect(at).unwrap();
    early.set_read_timeout(Some(LONG)).unwrap();
    let error = early.read(&mut [0]).unwrap_err();
    assert_eq!(errno(&error), libc::ECONNRESET);
    let listener = TcpListener::bind(&kernel, ([0; 4], 80)).unwrap();
    let mut outside = net::TcpStream::connect(at).unwrap();
    let (mut inside, _) = listener.accept().unwrap();
    outside.write_all(b"in").unwrap();
    outside.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    inside.read_to_string(&mut text).unwrap();
    inside.write_all(b"and out").unwrap();
    drop(inside);
    outside.read_to_string(&mut text).unwrap();
    assert_eq!(text, "inand out");
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let taken = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let options = UserNetwork {
        forwards: vec![Forward { listen, to: 80 }],
        ..UserNetwork::default()
    };
    let error = kernel.user_network(&options).unwrap_err();
    assert_eq!(error.errno(), libc::EADDRINUSE);
    assert!(error.to_string().contains(&listen.to_string()), "{error}");
}

/// As many as this process may have open, and half of what it takes for one each.
fn raise_limit() -> usize {
    // SAFETY: a structure of ours.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        limit.rlim_cur as usize
    }
}

#[test]
fn more_than_a_thousand_connections_are_open_at_once() {
    const MANY: usize = 1200;
    if raise_limit() < 4 * MANY {
        tane_test_support::skip("this process may not have so many files open");
        return;
    }
    let Some((kernel, nic)) = networked(&options(&["host"])) else {
        return;
    };
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = host(listener.local_addr().unwrap().port());
    let mut both: Vec<_> = (0..MANY)
        .map(|_| (connect(&kernel, to), listener.accept().unwrap().0))
        .collect();
    // Connections are made one by one, and each is its own.
    for (n, (inside, _)) in both.iter_mut().enumerate() {
        inside.write_all(&(n as u32).to_le_bytes()).unwrap();
    }
    for (n, (inside, outside)) in both.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        outside.read_exact(&mut bytes).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), n as u32);
        outside.write_all(&bytes).unwrap();
        inside.read_exact(&mut bytes).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), n as u32);
    }
    drop(both);
    drop(nic);
}

#[test]
fn a_network_or_a_kernel_that_goes_under_traffic_ends_its_connections() {
    let server = echo_server("127.0.0.1:0");
    for halted in [false, true] {
        let Some((kernel, nic)) = networked(&options(&["host"])) else {
            return;
        };
        let stream = connect(&kernel, host(server.port()));
        let writer = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let data = pattern(1 << 20);
            while (&writer).write_all(&data).is_ok() {}
        });
        let mut buffer = vec![0; 64 << 10];
        (&stream).read_exact(&mut buffer).unwrap();
        if halted {
            kernel.halt();
        }
        drop(nic);
        if !halted {
            assert!(kernel.link("eth0").is_err());
            // The rest of the kernel is as it was, and may have another.
            kernel.user_network(&options(&[])).unwrap();
            // Who sends is told that it has failed, or nothing, as with a cable that was cut.
            let _ = stream.shutdown(Shutdown::Both);
            kernel.halt();
        }
        sender.join().unwrap();
    }
}

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

/// Addresses of the host's that are not its loopback interface's, in a namespace; nobody
/// may send echo requests in a new one.
fn furnish_namespace(addresses: &[[u8; 4]]) {
    let lo = Kernel::host().link("lo").unwrap();
    lo.set_up().unwrap();
    for address in addresses {
        lo.add_address(*address, 32).unwrap();
    }
}

#[test]
fn with_a_list_only_names_and_addresses_on_it_are_open() {
    if !in_namespace("with_a_list_only_names_and_addresses_on_it_are_open") {
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

fn checked(mut message: Vec<u8>) -> Vec<u8> {
    let words = message
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Send an echo request; what comes back, from its ICMP header on, or as an error.
fn ping(kernel: &Kernel, to: [u8; 4], payload: &[u8]) -> Result<Vec<u8>, i32> {
    let socket = ok(
        kernel,
        libc::SYS_socket,
        &[libc::AF_INET as u64, libc::SOCK_RAW as u64, 1],
    );
    let mut address = [2u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    address[4..8].copy_from_slice(&to);
    ok(kernel, libc::SYS_connect, &[socket, at(&address), 16]);
    let head = [8, 0, 0, 0, 0x12, 0x34, 0, 1];
    let message = checked([&head, payload].concat());
    ok(
        kernel,
        libc::SYS_write,
        &[socket, at(&message[..]), message.len() as u64],
    );
    let mut buffer = vec![0u8; 70_000];
    let n = call(
        kernel,
        libc::SYS_read,
        &[socket, into(&mut buffer[..]), 70_000],
    );
    ok(kernel, libc::SYS_close, &[socket]);
    Ok(buffer[20..n? as usize].to_vec())
}

#[test]
fn echo_requests_reach_the_host_where_it_lets_its_user_send_them() {
    if !in_namespace("echo_requests_reach_the_host_where_it_lets_its_user_send_them") {
        return;
    }
    furnish_namespace(&[[203, 0, 113, 1]]);
    let Some((kernel, _nic)) = networked(&options(&[])) else {
        return;
    };
    // What is closed, and where the host does not let its user, is "forbidden".
    let refused = ping(&kernel, [203, 0, 113, 1], b"x");
    assert_eq!(refused, Err(libc::EHOSTUNREACH));
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
    for size in [0, 56, 9000] {
        let payload = pattern(size);
        let reply = ping(&kernel, [203, 0, 113, 1], &payload).unwrap();
        assert_eq!(reply[..2], [0, 0], "a reply");
        assert_eq!(reply[4..8], [0x12, 0x34, 0, 1], "to this request");
        assert!(reply[8..] == payload, "{size}");
    }
    let closed = ping(&kernel, [169, 254, 169, 254], b"x");
    assert_eq!(closed, Err(libc::EHOSTUNREACH));
}
