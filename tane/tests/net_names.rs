//! Promises of names: a kernel's resolvers are asked, and what they answer is taken for what
//! it is.

mod inside;
mod wired;

use inside::default_kernel;
use std::io::{ErrorKind, Read, Write};
use std::net::{self, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use tane::net::{addresses, TcpListener, TcpStream, UdpSocket, UserNetwork};
use tane::Kernel;
use wired::LONG;

/// Where the test's resolvers are, inside the kernel.
const SERVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 53), Ipv4Addr::new(127, 0, 0, 54)];

/// A kernel whose resolvers these are.
fn resolved_by(servers: &[Ipv4Addr]) -> Option<Kernel> {
    let kernel = default_kernel()?;
    kernel.link("lo").unwrap().set_up().unwrap();
    let root = kernel.tree("/").unwrap();
    root.create_dir_all("/etc").unwrap();
    let lines = servers.iter().map(|ip| format!("nameserver {ip}\n"));
    root.write("/etc/resolv.conf", lines.collect::<String>())
        .unwrap();
    Some(kernel)
}

/// Where the question ends, and which kind of address it is about.
fn asked(query: &[u8]) -> (usize, u16) {
    let mut at = 12;
    while query[at] != 0 {
        at += 1 + usize::from(query[at]);
    }
    (at + 5, u16::from_be_bytes([query[at + 1], query[at + 2]]))
}

/// An answer with this code and these addresses, RFC 1035.
fn answer(query: &[u8], flags: u8, code: u8, addresses: &[IpAddr]) -> Vec<u8> {
    let (end, kind) = asked(query);
    let mut answer = query[..end].to_vec();
    (answer[2], answer[3]) = (0x81 | flags, 0x80 | code);
    for address in addresses {
        let bytes = match (address, kind) {
            (IpAddr::V4(ip), 1) => ip.octets().to_vec(),
            (IpAddr::V6(ip), 28) => ip.octets().to_vec(),
            _ => continue,
        };
        answer[7] += 1;
        answer.extend([
            0xc0,
            12,
            0,
            kind as u8,
            0,
            1,
            0,
            0,
            0,
            9,
            0,
            bytes.len() as u8,
        ]);
        answer.extend(bytes);
    }
    answer
}

/// Run `body` while this answers what comes to port 53 of that address.
fn with_resolver<T>(
    kernel: &Kernel,
    at: Ipv4Addr,
    mut answers: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send,
    body: impl FnOnce() -> T,
) -> T {
    let socket = UdpSocket::bind(kernel, (at, 53)).unwrap();
    let end = UdpSocket::bind(kernel, (at, 0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut query = [0; 600];
            loop {
                let (n, from) = socket.recv_from(&mut query).unwrap();
                if n == 0 {
                    return;
                }
                for answer in answers(&query[..n]) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        let result = body();
        end.send_to(&[], (at, 53)).unwrap();
        result
    })
}

fn found(kernel: &Kernel, name: &str) -> Vec<IpAddr> {
    kernel.lookup(name).unwrap_or_else(|e| panic!("{e}"))
}

const BOTH: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

#[test]
fn a_name_has_the_addresses_of_both_kinds_that_the_resolver_says() {
    let Some(kernel) = resolved_by(&SERVERS[..1]) else {
        return;
    };
    let honest = |query: &[u8]| vec![answer(query, 0, 0, &BOTH)];
    with_resolver(&kernel, SERVERS[0], honest, || {
        assert_eq!(found(&kernel, "a.example"), BOTH);
        // The first address that answers is it.
        let listener = TcpListener::bind(&kernel, "[::1]:80").unwrap();
        let stream = TcpStream::connect(&kernel, "a.example:80").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), "[::1]:80".parse().unwrap());
        drop((stream, listener));
        let error = TcpStream::connect(&kernel, ("a.example", 80)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn guesses_of_others_are_not_taken_and_answers_without_room_are_asked_for_again() {
    let Some(kernel) = resolved_by(&SERVERS[..1]) else {
        return;
    };
    let listener = TcpListener::bind(&kernel, (SERVERS[0], 53)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut query = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut query).unwrap();
                let whole = answer(&query, 0, 0, &BOTH);
                stream
                    .write_all(&(whole.len() as u16).to_be_bytes())
                    .unwrap();
                stream.write_all(&whole).unwrap();
            }
        });
        let evil = [IpAddr::from([127, 0, 0, 66])];
        let cut = |query: &[u8]| {
            let mut other = query.to_vec();
            other[0] ^= 1;
            let mut named = query.to_vec();
            named[13] ^= 2;
            let mut guesses: Vec<_> = [&other, &named]
                .iter()
                .map(|query| answer(query, 0, 0, &evil))
                .collect();
            // Noise is no answer either.
            guesses.extend([vec![0; 3], vec![0xff; 500], query.to_vec()]);
            guesses.push(answer(query, 2, 0, &[]));
            guesses
        };
        with_resolver(&kernel, SERVERS[0], cut, || {
            assert_eq!(found(&kernel, "long.example"), BOTH);
        });
    });
}

#[test]
fn one_resolver_that_is_silent_or_refuses_is_passed_over_and_why_nothing_was_found_is_told() {
    let Some(kernel) = resolved_by(&SERVERS) else {
        return;
    };
    let errno = |name: &str| kernel.lookup(name).expect_err("no address").errno();
    let honest = |query: &[u8]| vec![answer(query, 0, 0, &BOTH)];
    // Nobody is at the first: the host says so at once.
    with_resolver(&kernel, SERVERS[1], honest, || {
        assert_eq!(found(&kernel, "b.example"), BOTH);
        // Here somebody is, and says nothing.
        with_resolver(
            &kernel,
            SERVERS[0],
            |_| vec![],
            || {
                let begun = Instant::now();
                assert_eq!(found(&kernel, "b.example"), BOTH);
                assert!(
                    begun.elapsed() >= Duration::from_secs(1),
                    "it was not asked"
                );
            },
        );
    });
    let refusing = |query: &[u8]| vec![answer(query, 0, 5, &[])];
    let failing = |query: &[u8]| vec![answer(query, 0, 2, &[])];
    let knowing = |query: &[u8]| vec![answer(query, 0, 3, &[])];
    with_resolver(&kernel, SERVERS[0], refusing, || {
        with_resolver(&kernel, SERVERS[1], refusing, || {
            assert_eq!(errno("c.example"), libc::EACCES);
        });
        with_resolver(&kernel, SERVERS[1], failing, || {
            assert_eq!(errno("c.example"), libc::EAGAIN);
        });
        with_resolver(&kernel, SERVERS[1], knowing, || {
            assert_eq!(errno("c.example"), libc::ENOENT);
        });
    });
    assert_eq!(errno("nobody.example"), libc::ETIMEDOUT);
    for wrong in ["", "a..b", "a b", "é.example"] {
        assert_eq!(errno(wrong), libc::ENOENT, "{wrong:?}");
    }
}

#[test]
fn without_a_resolver_there_are_the_names_of_hosts_and_addresses() {
    let Some(kernel) = resolved_by(&[]) else {
        return;
    };
    let root = kernel.tree("/").unwrap();
    root.write("/etc/hosts", "127.0.0.7 seven.example seven # a comment\n")
        .unwrap();
    assert_eq!(found(&kernel, "Seven"), [IpAddr::from([127, 0, 0, 7])]);
    assert_eq!(found(&kernel, "localhost")[0], IpAddr::from([127, 0, 0, 1]));
    assert_eq!(found(&kernel, "::1"), BOTH[1..]);
    let error = kernel.lookup("other.example").unwrap_err();
    assert_eq!(error.errno(), libc::ENONET);
    assert!(error.to_string().contains("resolv.conf"), "{error}");
    let _listener = TcpListener::bind(&kernel, "localhost:81").unwrap();
    TcpStream::connect(&kernel, "localhost:81").unwrap();
    for wrong in ["localhost", "localhost:", "localhost:99999", ""] {
        let error = TcpStream::connect(&kernel, wrong).expect_err(wrong);
        assert_ne!(
            error.kind(),
            ErrorKind::ConnectionRefused,
            "{wrong}: {error}"
        );
    }
}

/// One of the host's, for two queries.
fn of_host(address: IpAddr) -> SocketAddr {
    let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut query = [0; 600];
        while let Ok((n, from)) = socket.recv_from(&mut query) {
            let answer = answer(&query[..n], 0, 0, &[address]);
            socket.send_to(&answer, from).unwrap();
        }
    });
    at
}

#[test]
fn in_user_mode_names_are_the_hosts_resolvers() {
    let server = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let options = UserNetwork {
        allow: vec!["host".parse().unwrap()],
        resolvers: Some(vec![of_host(addresses::GATEWAY4.into())]),
        ..UserNetwork::default()
    };
    let Some(kernel) = default_kernel() else {
        return;
    };
    let _nic = kernel.user_network(&options).unwrap();
    let name = format!("server.example:{port}");
    let mut stream = TcpStream::connect(&kernel, name.as_str()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let (mut there, _) = server.accept().unwrap();
    there.write_all(b"hello").unwrap();
    let mut text = [0; 5];
    stream.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");
    let text = kernel
        .tree("/")
        .unwrap()
        .read_to_string("/etc/resolv.conf")
        .unwrap();
    assert!(text.contains("nameserver 10.0.2.3\n"), "{text}");
}

#[test]
fn a_connection_that_nobody_answers_ends_when_it_was_told_to() {
    let Some(two) = wired::two([&Default::default(); 2]) else {
        return;
    };
    let [here, there] = &two.kernels;
    // Nobody has this address, and the first thing that is missing is who would have it.
    let to = SocketAddr::from(([10, 7, 0, 99], 80));
    let error = TcpStream::connect_timeout(here, &to, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let listener = TcpListener::bind(there, (wired::v4().there, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let stream = TcpStream::connect_timeout(here, &to, LONG).unwrap();
    assert_eq!(stream.write_timeout().unwrap(), None);
}
