//! Kernels on a network, and what goes through it: what the tests of wires share.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tane::net::{Nic, NicOptions, Offloads, Pair, TcpListener, TcpStream, UdpSocket, Wire};
use tane::Kernel;

/// A test that waits longer than this has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// The addresses of the two ends.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    pub here: IpAddr,
    pub there: IpAddr,
    pub prefix: u8,
}

pub fn v4() -> Net {
    Net {
        here: [10, 7, 0, 1].into(),
        there: [10, 7, 0, 2].into(),
        prefix: 24,
    }
}

pub fn v6() -> Net {
    let address = |last| [0xfd00, 7, 0, 0, 0, 0, 0, last].into();
    Net {
        here: address(1),
        there: address(2),
        prefix: 64,
    }
}

pub fn plain() -> NicOptions {
    NicOptions {
        transmit: Offloads::NONE,
        receive: Offloads::NONE,
        mergeable: false,
        ..NicOptions::default()
    }
}

/// A card that is up, with addresses of both kinds.
#[track_caller]
pub fn card(kernel: &Kernel, wire: Arc<dyn Wire>, options: &NicOptions, first: bool) -> Nic {
    let nic = kernel.add_nic(wire, options).expect("a card");
    for net in [v4(), v6()] {
        let address = if first { net.here } else { net.there };
        nic.add_address(address, net.prefix).expect("an address");
    }
    nic.set_up().expect("an interface that is up");
    nic
}

/// Two kernels on a wire.
pub struct Two {
    pub nics: [Nic; 2],
    pub kernels: [Kernel; 2],
}

pub fn two(options: [&NicOptions; 2]) -> Option<Two> {
    let kernels = [
        crate::inside::default_kernel()?,
        crate::inside::default_kernel()?,
    ];
    let (a, b) = Pair::new();
    let nics = [
        card(&kernels[0], a, options[0], true),
        card(&kernels[1], b, options[1], false),
    ];
    Some(Two { nics, kernels })
}

pub fn listen(kernel: &Kernel, address: IpAddr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(kernel, (address, 0)).expect("a listener");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

pub fn connect(kernel: &Kernel, to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(kernel, to).expect("a connection");
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Bytes that no shifted or lost part of is taken for another.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9u32;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(4)).flat_map(word).collect();
    bytes.truncate(len);
    bytes
}

/// Send `len` bytes and have them back, in pieces of any size.
pub fn echo(from: &Kernel, to: &Kernel, address: IpAddr, len: usize) {
    let (listener, address) = listen(to, address);
    let data = pattern(len);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut buffer = vec![0; 100_000];
            loop {
                match (&stream).read(&mut buffer).expect("bytes to send back") {
                    0 => return,
                    n => (&stream).write_all(&buffer[..n]).expect("bytes sent back"),
                }
            }
        });
        let stream = connect(from, address);
        let writer = stream.try_clone().unwrap();
        let send = &data;
        scope.spawn(move || {
            for piece in send.chunks(77_777) {
                (&writer).write_all(piece).expect("bytes to send");
            }
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        (&stream)
            .read_to_end(&mut back)
            .expect("bytes that come back");
        assert_eq!(back.len(), data.len());
        assert!(back == data, "bytes have changed");
    });
}

/// Datagrams of many sizes, one at a time, there and back; one that is lost is sent
/// again, as users of UDP do.
pub fn datagrams(from: &Kernel, to: &Kernel, net: Net, sizes: &[usize]) {
    let there = UdpSocket::bind(to, (net.there, 0)).expect("a socket");
    let here = UdpSocket::bind(from, (net.here, 0)).expect("a socket");
    there.set_read_timeout(Some(LONG)).unwrap();
    here.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let address = there.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 70_000];
            loop {
                let (n, from) = there.recv_from(&mut buffer).expect("a datagram");
                if n == 0 {
                    return;
                }
                there.send_to(&buffer[..n], from).expect("it goes back");
            }
        });
        let mut buffer = vec![0; 70_000];
        for &size in sizes {
            let data = pattern(size);
            let back = (0..20).find_map(|_| {
                here.send_to(&data, address).expect("a datagram sent");
                here.recv(&mut buffer).ok()
            });
            assert_eq!(back, Some(size), "a datagram of {size} bytes");
            assert!(
                buffer[..size] == data,
                "a datagram of {size} bytes has changed"
            );
        }
        for _ in 0..10 {
            here.send_to(&[], address).unwrap();
        }
    });
}
