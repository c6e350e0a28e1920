//! Promises of the broker: whoever is at the other end of its line, and whatever he says,
//! gets no socket but those that the policy permits.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::JoinHandle;
use tane_net::user::{addresses, line, receive, Answer, Broker, Request, UserNetwork, ROOM};

struct Other {
    line: OwnedFd,
    broker: JoinHandle<std::io::Result<()>>,
}

fn broker(allow: &[&str]) -> Other {
    let (near, far) = line().unwrap();
    let options = UserNetwork {
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        resolvers: Some(Vec::new()),
        ..UserNetwork::default()
    };
    let broker = Broker::new(&options, far).unwrap();
    Other {
        line: near,
        broker: std::thread::spawn(move || broker.run()),
    }
}

impl Other {
    fn say(&self, message: &[u8]) {
        let fd = self.line.as_raw_fd();
        // SAFETY: reads these bytes.
        let n = unsafe {
            libc::send(
                fd,
                message.as_ptr().cast(),
                message.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        assert_eq!(n, message.len() as isize);
    }

    fn ask(&self, request: &Request<'_>) -> Result<OwnedFd, i32> {
        self.say(&request.encode(7));
        let mut buffer = vec![0; ROOM];
        let (message, fd) = receive(self.line.as_fd(), &mut buffer).unwrap().unwrap();
        match Answer::decode(message, fd) {
            Some((7, Answer::Open(fd))) => Ok(fd),
            Some((7, Answer::Refused(errno))) => Err(errno),
            other => panic!("{other:?}"),
        }
    }
}

const CLOSED: [&str; 14] = [
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",
    "169.254.169.254",
    "224.0.0.251",
    "255.255.255.255",
    "::1",
    "::",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:0.0.0.0",
    "64:ff9b::127.0.0.1",
    "fe80::1",
    "ff02::1",
];

#[test]
fn whoever_asks_gets_no_socket_to_what_is_closed_in_whatever_form() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let broker = broker(&["0.0.0.0/0", "::/0", "*"]);
    let gateways = [
        addresses::GATEWAY4.to_string(),
        addresses::GATEWAY6.to_string(),
    ];
    for closed in CLOSED
        .iter()
        .copied()
        .chain(gateways.iter().map(String::as_str))
    {
        let to = SocketAddr::new(closed.parse().unwrap(), port);
        for request in [Request::Tcp(to), Request::Udp(to)] {
            assert_eq!(broker.ask(&request).unwrap_err(), libc::EACCES, "{closed}");
        }
        assert_eq!(
            broker.ask(&Request::Echo(to.ip())).unwrap_err(),
            libc::EACCES,
            "{closed}"
        );
    }
    tcp.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err(), "somebody came");
}

#[test]
fn a_socket_is_of_the_kind_and_to_the_place_that_was_let_and_says_errors_of_the_host() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let broker = broker(&[&format!("host:{port}")]);
    let to = SocketAddr::new(addresses::GATEWAY4.into(), port);
    let stream = std::net::TcpStream::from(broker.ask(&Request::Tcp(to)).unwrap());
    assert_eq!(stream.peer_addr().unwrap(), tcp.local_addr().unwrap());
    let datagrams = UdpSocket::from(broker.ask(&Request::Udp(to)).unwrap());
    assert_eq!(datagrams.peer_addr().unwrap(), tcp.local_addr().unwrap());
    drop(tcp);
    let refused = broker.ask(&Request::Tcp(to)).unwrap_err();
    assert_eq!(refused, libc::ECONNREFUSED);
    let other = SocketAddr::new(addresses::GATEWAY4.into(), port ^ 1);
    assert_eq!(broker.ask(&Request::Tcp(other)).unwrap_err(), libc::EACCES);
}

#[test]
fn who_says_what_no_gateway_says_is_served_no_more() {
    let good = Request::Tcp("192.0.2.1:80".parse().unwrap()).encode(1);
    let (mut kind, mut family, mut long) = (good.clone(), good.clone(), good.clone());
    kind[4] = 99;
    family[5] = 5;
    long.push(0);
    for bad in [&good[..7], &kind, &family, &long, &[0xff; 3000]] {
        let other = broker(&[]);
        other.say(bad);
        other.broker.join().unwrap().unwrap();
    }
    // Nor is it kept by who has gone.
    let other = broker(&[]);
    drop(other.line);
    other.broker.join().unwrap().unwrap();
}
