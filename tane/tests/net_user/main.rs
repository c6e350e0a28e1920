//! Promises of user mode: a kernel reaches the host's network through ordinary sockets,
//! and nothing of it that was not let.

#[path = "../inside/mod.rs"]
mod inside;
#[path = "../wired/mod.rs"]
mod wired;

mod echo;
mod flows;
mod names;

use inside::default_kernel;
use std::io::{Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use tane::net::{addresses, TcpStream, UserNetwork, UserNic};
use tane::Kernel;
use wired::{connect, pattern};

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

/// Addresses of the host's that are not its loopback interface's, in a namespace; nobody
/// may send echo requests in a new one.
fn furnish_namespace(addresses: &[[u8; 4]]) {
    let lo = Kernel::host().link("lo").unwrap();
    lo.set_up().unwrap();
    for address in addresses {
        lo.add_address(*address, 32).unwrap();
    }
}
