//! Promises of the network between two kernels of this process: what goes in comes out,
//! whatever either side takes over of the work, and nobody's end is anybody else's.

mod inside;
mod wired;

use inside::default_kernel;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tane::net::{NicOptions, Offloads, Pair, TcpListener, TcpStream, UdpSocket};
use tane::Kernel;
use tane_test_support::eventually;
use wired::{card, connect, datagrams, echo, listen, plain, two, v4, v6, LONG};

#[test]
fn two_kernels_talk_by_tcp_and_udp_over_both_versions_of_ip() {
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    for net in [v4(), v6()] {
        echo(a, b, net.there, 20 << 20);
        datagrams(a, b, net, &[1, 100, 1400, 1473, 9000, 65_000]);
    }
    let counters = two.nics[0].counters();
    assert_eq!(counters.malformed.load(Ordering::Relaxed), 0);
    assert_eq!(two.nics[0].last_error(), None);
}

#[test]
fn bytes_are_the_same_whatever_of_the_work_each_side_takes_over() {
    let all = NicOptions::default();
    let checksums = Offloads {
        checksum: true,
        ..Offloads::NONE
    };
    let receives = |receive: Offloads, mergeable: bool| NicOptions {
        receive,
        mergeable,
        ..NicOptions::default()
    };
    let sides = [
        (all.clone(), plain()),
        (plain(), all.clone()),
        (plain(), plain()),
        (all.clone(), receives(checksums, true)),
        (all.clone(), receives(Offloads::NONE, true)),
        (all.clone(), receives(Offloads::ALL, false)),
    ];
    for (one, other) in &sides {
        let Some(two) = two([one, other]) else { return };
        let [a, b] = &two.kernels;
        for net in [v4(), v6()] {
            echo(a, b, net.there, 3 << 20);
            datagrams(a, b, net, &[1, 1473, 30_000]);
        }
        let [one, other] = two.nics.each_ref().map(|nic| nic.counters());
        for counters in [one, other] {
            let malformed = counters.malformed.load(Ordering::Relaxed);
            assert_eq!(malformed, 0, "{counters:?}");
        }
        // Linux's own judgement of what it got.
        for kernel in &two.kernels {
            let tree = kernel.tree("/proc").unwrap();
            let snmp = tree.read_to_string("net/snmp").unwrap();
            for protocol in ["Tcp: ", "Udp: "] {
                let mut lines = snmp.lines().filter(|line| line.starts_with(protocol));
                let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
                let mut both = names.split(' ').zip(values.split(' '));
                let (_, errors) = both.find(|(name, _)| *name == "InCsumErrors").unwrap();
                assert_eq!(errors, "0", "{snmp}");
            }
        }
    }
}

#[test]
fn datagrams_that_are_several_are_cut_on_the_way() {
    for receive in [Offloads::ALL, Offloads::NONE] {
        let options = NicOptions {
            receive,
            ..NicOptions::default()
        };
        let Some(two) = two([&NicOptions::default(), &options]) else {
            return;
        };
        let [a, b] = &two.kernels;
        for net in [v4(), v6()] {
            let there = UdpSocket::bind(b, (net.there, 0)).unwrap();
            there.set_read_timeout(Some(LONG)).unwrap();
            let here = UdpSocket::bind(a, (net.here, 0)).unwrap();
            here.connect(there.local_addr().unwrap()).unwrap();
            here.send(b"who is there").unwrap();
            let mut buffer = vec![0; 2000];
            assert_eq!(there.recv(&mut buffer).unwrap(), 12);
            let sent = |nic: &tane::net::Nic| nic.counters().sent.load(Ordering::Relaxed);
            let before = sent(&two.nics[0]);
            here.set_segment(1000).unwrap();
            let data = wired::pattern(10_500);
            here.send(&data).unwrap();
            for piece in data.chunks(1000) {
                let n = there.recv(&mut buffer).unwrap();
                assert!(&buffer[..n] == piece);
            }
            // One packet left the sender: others may go beside it, but no ten.
            assert!(sent(&two.nics[0]) - before < 10, "it was cut before");
        }
    }
}

/// An ICMP echo through a raw socket, as ping(8) does.
#[test]
fn a_kernel_answers_pings() {
    use inside::{at, call, into, ok};
    let Some(two) = two([&NicOptions::default(), &plain()]) else {
        return;
    };
    let [a, _] = &two.kernels;
    let icmp = [libc::AF_INET as u64, libc::SOCK_RAW as u64, 1];
    let socket = ok(a, libc::SYS_socket, &icmp);
    let timeout = [2i64, 0];
    let option = [socket, 1, libc::SO_RCVTIMEO as u64, at(&timeout), 16];
    ok(a, libc::SYS_setsockopt, &option);
    // Type 8, its checksum, number 1, sequence 1.
    let echo = [8u8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
    let address = [2u8, 0, 0, 0, 10, 7, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    let send = [socket, at(&echo), 8, 0, at(&address), 16];
    let answered = (0..20).any(|_| {
        ok(a, libc::SYS_sendto, &send);
        let mut answer = [0u8; 64];
        let receive = [socket, into(&mut answer), 64, 0, 0, 0];
        let n = call(a, libc::SYS_recvfrom, &receive);
        // Behind an IP header of 20 bytes: type 0, an echo's answer.
        n == Ok(28) && answer[20] == 0 && answer[24..28] == [0, 1, 0, 1]
    });
    assert!(answered);
}

#[test]
fn ten_thousand_connections_are_open_at_a_time() {
    const CONNECTIONS: usize = 10_000;
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let [a, b] = &two.kernels;
    let all = TcpListener::bind_with_backlog(b, (v4().there, 0), 4096).unwrap();
    let address = all.local_addr().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let accept = |_| all.accept().expect("a connection").0;
            let streams: Vec<_> = (0..CONNECTIONS).map(accept).collect();
            for mut stream in &streams {
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut number = [0; 4];
                stream.read_exact(&mut number).expect("its number");
                stream.write_all(&number).expect("its number back");
            }
            streams
        });
        let streams: Vec<_> = (0..CONNECTIONS).map(|_| connect(a, address)).collect();
        for (number, mut stream) in streams.iter().enumerate() {
            stream.write_all(&(number as u32).to_le_bytes()).unwrap();
        }
        for (number, mut stream) in streams.iter().enumerate() {
            let mut back = [0; 4];
            stream.read_exact(&mut back).expect("an answer");
            assert_eq!(u32::from_le_bytes(back), number as u32);
        }
        assert_eq!(server.join().unwrap().len(), CONNECTIONS);
    });
}

#[test]
fn a_link_is_up_while_both_ends_are_there() {
    let (Some(a), Some(b)) = (default_kernel(), default_kernel()) else {
        return;
    };
    let (wire_a, wire_b) = Pair::new();
    let here = card(&a, wire_a, &NicOptions::default(), true);
    assert!(!here.link_is_up());
    assert!(!here.is_running().unwrap());
    for _ in 0..3 {
        let there = card(&b, wire_b.clone(), &NicOptions::default(), false);
        eventually("the link is up", || here.is_running().unwrap());
        echo(&a, &b, v4().there, 1000);
        drop(there);
        eventually("the link is down", || !here.is_running().unwrap());
    }
}

#[test]
fn one_end_of_a_wire_has_one_card() {
    let Some(a) = default_kernel() else { return };
    let (wire, _other) = Pair::new();
    let first = a.add_nic(wire.clone(), &NicOptions::default()).unwrap();
    let second = a.add_nic(wire, &NicOptions::default());
    if let Ok(second) = &second {
        let error = second.last_error().expect("an error");
        assert!(error.contains("busy"), "{error}");
    }
    assert_eq!(first.last_error(), None);
}

/// Two cards of one kernel, in two of its network namespaces.
#[test]
fn a_pair_may_join_two_cards_of_one_kernel() {
    use inside::ok;
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (wire_a, wire_b) = Pair::new();
    let here = card(&kernel, wire_a, &NicOptions::default(), true);
    let (listener, address) = listen(&kernel, v4().here);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A thread of the host's is one of the kernel's: it leaves alone.
            ok(&kernel, libc::SYS_unshare, &[libc::CLONE_NEWNET as u64]);
            let wire = wire_b;
            // A card comes to the kernel's first namespace.
            let there = std::thread::spawn({
                let kernel = kernel.clone();
                move || kernel.add_nic(wire, &NicOptions::default())
            });
            let there = there.join().unwrap().expect("a card");
            move_here(&kernel, &there);
            let link = kernel.link(there.name()).unwrap();
            link.add_address(v4().there, 24).unwrap();
            link.set_up().unwrap();
            let stream = connect(&kernel, address);
            (&stream).write_all(b"hello").unwrap();
            drop(stream);
        });
        let (mut stream, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), v4().there);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    });
    assert!(here.counters().received.load(Ordering::Relaxed) > 0);
}

/// Have this thread's network namespace take a card of the first one's.
fn move_here(kernel: &Kernel, nic: &tane::net::Nic) {
    use inside::{at, ok};
    let proc = c"/proc/thread-self/ns/net";
    let open = [libc::AT_FDCWD as u64, proc.as_ptr() as u64, 0, 0];
    let here = ok(kernel, libc::SYS_openat, &open);
    let (kernel, index) = (kernel.clone(), nic.index());
    let done = std::thread::spawn(move || {
        let socket = ok(&kernel, libc::SYS_socket, &[16, 3, 0]);
        // RTM_NEWLINK with IFLA_NET_NS_FD.
        let mut message = [0u8; 40];
        message[..4].copy_from_slice(&40u32.to_ne_bytes());
        message[4..6].copy_from_slice(&16u16.to_ne_bytes());
        message[6..8].copy_from_slice(&5u16.to_ne_bytes());
        message[20..24].copy_from_slice(&index.to_ne_bytes());
        message[32..34].copy_from_slice(&8u16.to_ne_bytes());
        message[34..36].copy_from_slice(&28u16.to_ne_bytes());
        message[36..40].copy_from_slice(&(here as u32).to_ne_bytes());
        let send = [socket, at(&message), 40, 0, 0, 0];
        ok(&kernel, libc::SYS_sendto, &send);
        let mut answer = [0u8; 256];
        let receive = [socket, inside::into(&mut answer), 256, 0, 0, 0];
        ok(&kernel, libc::SYS_recvfrom, &receive);
        assert_eq!(answer[16..20], [0; 4], "moving the card");
    });
    done.join().unwrap();
}

#[test]
fn a_peer_that_stands_still_keeps_nobody_waiting() {
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let [a, _] = &two.kernels;
    // It is there and takes nothing: its interface is down.
    two.nics[1].set_down().unwrap();
    let socket = UdpSocket::bind(a, (v4().here, 0)).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.set_write_timeout(Some(LONG)).unwrap();
    let data = vec![0; 1400];
    for _ in 0..3_000 {
        // Broadcasts ask for nobody's address.
        match socket.send_to(&data, ([10, 7, 0, 255], 9)) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let lost = &two.nics[0].counters().lost;
    eventually("packets are given up", || lost.load(Ordering::Relaxed) > 0);
    two.nics[1].set_up().unwrap();
    two.nics[1].add_address(v6().there, 64).ok();
    echo(a, &two.kernels[1], v4().there, 1 << 20);
}

#[test]
fn a_kernel_that_ends_under_traffic_leaves_the_other_alone() {
    for round in 0..6 {
        let Some(two) = two([&NicOptions::default(); 2]) else {
            return;
        };
        let [connected, ended] = [const { AtomicBool::new(false) }; 2];
        let [a, b] = &two.kernels;
        let (listener, address) = listen(b, v4().there);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let Ok((mut stream, _)) = listener.accept() else {
                    return;
                };
                let mut buffer = vec![0; 1 << 16];
                while matches!(stream.read(&mut buffer), Ok(1..)) {}
            });
            scope.spawn(|| {
                let stream = TcpStream::connect(a, address);
                connected.store(true, Ordering::Relaxed);
                let mut stream = stream.expect("a connection");
                stream
                    .set_write_timeout(Some(Duration::from_millis(200)))
                    .unwrap();
                let data = vec![1; 1 << 16];
                while !ended.load(Ordering::Relaxed) {
                    if let Err(error) = stream.write(&data) {
                        if error.kind() != std::io::ErrorKind::WouldBlock {
                            break;
                        }
                    }
                }
            });
            while !connected.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50 + 20 * round));
            // Whose turn it is: the sender's or the receiver's.
            two.kernels[round as usize % 2].halt();
            std::thread::sleep(Duration::from_millis(50));
            ended.store(true, Ordering::Relaxed);
            two.kernels[1 - round as usize % 2]
                .link("lo")
                .unwrap()
                .set_up()
                .unwrap();
            two.kernels[1].halt();
        });
    }
}

#[test]
fn cards_come_and_go_under_traffic() {
    let Some(two) = two([&NicOptions::default(); 2]) else {
        return;
    };
    let wired::Two {
        nics: [here, there],
        kernels: [a, b],
    } = two;
    let (listener, address) = listen(&b, v4().there);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            let mut buffer = vec![0; 1 << 16];
            while !ended.load(Ordering::Relaxed) {
                let _some = stream.read(&mut buffer);
            }
        });
        scope.spawn(|| {
            let mut stream = connect(&a, address);
            stream
                .set_write_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            while !ended.load(Ordering::Relaxed) {
                let _some = stream.write(&[0; 9999]);
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        drop(there);
        for _ in 0..10 {
            let (wire, _other) = Pair::new();
            drop(card(&b, wire, &NicOptions::default(), false));
        }
        drop(here);
        ended.store(true, Ordering::Relaxed);
    });
    assert!(a.is_alive() && b.is_alive());
}
