//! Promises of tap interfaces: the host's own network is the other end, in a namespace
//! of the test's own, which takes no privileges.

mod inside;
mod wired;

use inside::default_kernel;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tane::net::{Nic, NicOptions, Tap};
use tane::Kernel;
use tane_test_support::in_namespace;
use tane_test_support::{eventually, tool};
use wired::{card, connect, listen, pattern, plain, v4, v6, LONG};

/// A kernel's card on a tap interface of the host's, which is "there".
struct Tapped {
    kernel: Kernel,
    nic: Nic,
    tap: std::sync::Arc<Tap>,
}

fn tapped(options: &NicOptions) -> Option<Tapped> {
    let kernel = default_kernel()?;
    let tap = Tap::open(None).expect("a tap interface");
    let nic = card(&kernel, tap.clone(), options, true);
    let host = Kernel::host()
        .link(tap.name())
        .expect("the host's interface");
    for net in [v4(), v6()] {
        host.add_address(net.there, net.prefix).unwrap();
    }
    host.set_up().unwrap();
    // The host asks whether anybody has its IPv6 address unless told not to, and a
    // kernel hears of a link a moment after it is there.
    eventually("the link is up", || nic.is_running().unwrap());
    Some(Tapped { kernel, nic, tap })
}

/// Bytes from a kernel's socket to one of the host's and back, or the other way round.
fn echo_with_host(kernel: &Kernel, net: wired::Net, len: usize) {
    let data = pattern(len);
    let listener = TcpListener::bind((net.there, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("what the kernel sends");
            stream.write_all(&all).expect("what goes back");
        });
        let mut stream = connect(kernel, address);
        stream.write_all(&data).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(
            back == data,
            "{} of {} bytes, or others",
            back.len(),
            data.len()
        );
    });
    let (listener, address) = listen(kernel, net.here);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("what the host sends");
            assert!(all == data);
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&data).unwrap();
    });
}

fn datagrams_with_host(kernel: &Kernel, net: wired::Net) {
    let host = UdpSocket::bind((net.there, 0)).unwrap();
    host.set_read_timeout(Some(LONG)).unwrap();
    let here = tane::net::UdpSocket::bind(kernel, (net.here, 0)).unwrap();
    here.set_read_timeout(Some(LONG)).unwrap();
    let mut buffer = vec![0; 70_000];
    for size in [1, 1472, 1473, 20_000, 65_000] {
        let data = pattern(size);
        here.send_to(&data, host.local_addr().unwrap()).unwrap();
        let (n, from) = host
            .recv_from(&mut buffer)
            .expect("a datagram for the host");
        assert!(buffer[..n] == data);
        host.send_to(&data, from).unwrap();
        let n = here.recv(&mut buffer).expect("a datagram for the kernel");
        assert!(buffer[..n] == data);
    }
}

#[test]
fn the_hosts_network_and_a_kernel_talk_whatever_is_taken_over() {
    if !in_namespace("the_hosts_network_and_a_kernel_talk_whatever_is_taken_over") {
        return;
    }
    for options in [NicOptions::default(), plain()] {
        let Some(tapped) = tapped(&options) else {
            return;
        };
        for net in [v4(), v6()] {
            echo_with_host(&tapped.kernel, net, 8 << 20);
            datagrams_with_host(&tapped.kernel, net);
        }
        let counters = tapped.nic.counters();
        assert_eq!(
            counters.malformed.load(Ordering::Relaxed),
            0,
            "{counters:?}"
        );
        if options.transmit.tso4 {
            // 32 MiB each way, in frames of 1,500 bytes 22,000.
            let sent = counters.sent.load(Ordering::Relaxed);
            assert!(sent < 15_000, "no large segments: {counters:?}");
        }
    }
}

#[test]
fn datagrams_that_are_several_reach_the_host_as_such() {
    if !in_namespace("datagrams_that_are_several_reach_the_host_as_such") {
        return;
    }
    let Some(tapped) = tapped(&NicOptions::default()) else {
        return;
    };
    for net in [v4(), v6()] {
        let host = UdpSocket::bind((net.there, 0)).unwrap();
        host.set_read_timeout(Some(LONG)).unwrap();
        let here = tane::net::UdpSocket::bind(&tapped.kernel, (net.here, 0)).unwrap();
        here.connect(host.local_addr().unwrap()).unwrap();
        here.set_segment(1200).unwrap();
        let data = pattern(12_345);
        here.send(&data).unwrap();
        let mut buffer = vec![0; 2000];
        for piece in data.chunks(1200) {
            let n = host.recv(&mut buffer).unwrap();
            assert!(&buffer[..n] == piece);
        }
    }
}

/// Something that the host's users have, and that nobody here wrote.
#[test]
fn curl_of_the_hosts_gets_a_file_from_a_kernel() {
    if !in_namespace("curl_of_the_hosts_gets_a_file_from_a_kernel") {
        return;
    }
    let Some(mut curl) = tool("curl", "curl") else {
        return;
    };
    let Some(tapped) = tapped(&NicOptions::default()) else {
        return;
    };
    let (listener, address) = listen(&tapped.kernel, v4().here);
    let data = pattern(5 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let n = stream.read(&mut request).unwrap();
            assert!(request[..n].starts_with(b"GET /file "));
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", data.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&data).unwrap();
        });
        let url = format!("http://{address}/file");
        curl.args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--max-time",
            "60",
        ]);
        let output = curl.arg(url).output().expect("curl");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(output.stdout == data);
    });
}

#[test]
fn a_tap_interface_that_is_deleted_is_a_link_that_is_down() {
    if !in_namespace("a_tap_interface_that_is_deleted_is_a_link_that_is_down") {
        return;
    }
    let Some(tapped) = tapped(&NicOptions::default()) else {
        return;
    };
    echo_with_host(&tapped.kernel, v4(), 10_000);
    delete(tapped.tap.name());
    eventually("the link is down", || !tapped.nic.is_running().unwrap());
    let error = tapped.tap.error().expect("a reason");
    assert!(
        matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EBADFD)),
        "{error}"
    );
    let socket = tane::net::UdpSocket::bind(&tapped.kernel, ([0, 0, 0, 0], 0)).unwrap();
    socket.send_to(b"nobody", (v4().there, 9)).ok();
    assert!(tapped.kernel.is_alive());
}

/// SIOCSIFFLAGS and the like have no call for it: RTM_DELLINK.
fn delete(name: &str) {
    let host = Kernel::host();
    let index = host.link(name).unwrap().index();
    // SAFETY: plain calls with structures of ours.
    unsafe {
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
        let mut message = [0u8; 32];
        message[..4].copy_from_slice(&32u32.to_ne_bytes());
        message[4..6].copy_from_slice(&17u16.to_ne_bytes());
        message[6..8].copy_from_slice(&5u16.to_ne_bytes());
        message[20..24].copy_from_slice(&index.to_ne_bytes());
        libc::send(socket, message.as_ptr().cast(), 32, 0);
        let mut answer = [0u8; 256];
        libc::recv(socket, answer.as_mut_ptr().cast(), 256, 0);
        assert_eq!(answer[16..20], [0; 4], "deleting {name}");
        libc::close(socket);
    }
}

#[test]
fn what_is_no_tap_interface_is_refused_and_so_is_one_in_use() {
    if !in_namespace("what_is_no_tap_interface_is_refused_and_so_is_one_in_use") {
        return;
    }
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(file.as_raw_fd() > 0);
    assert!(Tap::from_fd(file.into()).is_err());
    let tap = Tap::open(Some("mine")).unwrap();
    assert_eq!(tap.name(), "mine");
    let again = Tap::open(Some("mine")).err().expect("an error");
    assert_eq!(again.raw_os_error(), Some(libc::EBUSY));
    assert!(Tap::open(Some("a name that is too long")).is_err());
}

#[test]
fn a_kernel_that_ends_or_stands_still_holds_up_nobody_at_the_tap() {
    if !in_namespace("a_kernel_that_ends_or_stands_still_holds_up_nobody_at_the_tap") {
        return;
    }
    for halts in [true, false] {
        let Some(tapped) = tapped(&NicOptions::default()) else {
            return;
        };
        let ended = AtomicBool::new(false);
        let there: IpAddr = v4().here;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let host = UdpSocket::bind((v4().there, 0)).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    host.send_to(&[0; 1400], (there, 9)).ok();
                }
            });
            std::thread::sleep(Duration::from_millis(100));
            if halts {
                tapped.kernel.halt();
            } else {
                tapped.nic.set_down().unwrap();
            }
            std::thread::sleep(Duration::from_millis(100));
            let start = Instant::now();
            drop(tapped);
            assert!(start.elapsed() < LONG);
            ended.store(true, Ordering::Relaxed);
        });
    }
}
