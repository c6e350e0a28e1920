//! Connections and datagrams.

use crate::inside::default_kernel;
use crate::wired::{connect, pattern, LONG};
use crate::{echo_server, errno, error_of, host, host6, networked, options, through};
use std::io::{ErrorKind, Read, Write};
use std::net::{self, IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tane::net::{line, Forward, TcpListener, UdpSocket, UserNetwork};
use tane::Kernel;
use tane_test_support::eventually;

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

#[test]
fn who_waits_for_a_broker_that_goes_is_told_and_so_is_who_comes_later() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (near, far) = line().unwrap();
    let _nic = kernel.user_network_by(near).unwrap();
    let to = SocketAddr::from(([192, 0, 2, 1], 80));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| error_of(&kernel, to));
        // It has asked.
        let mut message = [0u8; 64];
        let at = message.as_mut_ptr().cast();
        // SAFETY: writes into these bytes.
        let n = unsafe { libc::recv(far.as_raw_fd(), at, message.len(), 0) };
        assert!(n > 0);
        drop(far);
        assert_eq!(waits.join().unwrap(), libc::ENETUNREACH);
    });
    assert_eq!(error_of(&kernel, to), libc::ENETUNREACH);
}

#[test]
fn an_image_without_a_network_says_so() {
    let Some(image) = tane_test_support::image("tiny") else {
        return;
    };
    let kernel = Kernel::builder().image(image).boot().unwrap();
    let error = kernel.user_network(&options(&[])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the image has no network (`default` has)"),
        "{text}"
    );
}
