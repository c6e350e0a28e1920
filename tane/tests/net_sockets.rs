//! Promises of Unix sockets as wires, in QEMU's framing, and of captures: a kernel at
//! each end, or a peer of the test's own that keeps no rule.

mod common;
mod inside;
mod wired;

use common::TempDir;
use inside::default_kernel;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tane::net::{Capture, Datagram, NicOptions, Pair, Stream, UdpSocket, Wire};
use tane_test_support::{eventually, tool};
use wired::{card, datagrams, echo, plain, v4, v6, LONG};

fn streams() -> (Arc<Stream>, Arc<Stream>) {
    let (a, b) = UnixStream::pair().unwrap();
    (Stream::new(a).unwrap(), Stream::new(b).unwrap())
}

fn talk(a: Arc<dyn Wire>, b: Arc<dyn Wire>, options: &NicOptions) {
    let (Some(here), Some(there)) = (default_kernel(), default_kernel()) else {
        return;
    };
    let nics = [
        card(&here, a, options, true),
        card(&there, b, &plain(), false),
    ];
    for net in [v4(), v6()] {
        echo(&here, &there, net.there, 2 << 20);
        datagrams(&here, &there, net, &[1, 1472, 20_000]);
    }
    for nic in &nics {
        assert_eq!(nic.counters().malformed.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn two_kernels_talk_through_a_stream_socket() {
    for options in [NicOptions::default(), plain()] {
        let (a, b) = streams();
        talk(a, b, &options);
    }
}

#[test]
fn two_kernels_talk_through_datagram_sockets() {
    for options in [NicOptions::default(), plain()] {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (a, b) = (Datagram::new(a).unwrap(), Datagram::new(b).unwrap());
        talk(a, b, &options);
    }
}

/// A frame behind its length.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

fn next_frame(socket: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame).expect("a frame");
    frame
}

/// RFC 826: who has 10.7.0.1? tell 10.7.0.9.
fn arp_request() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 9, 9, 9, 9, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 9, 9, 9, 9, 9, 10, 7, 0, 9]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 7, 0, 1]);
    frame
}

fn expect_arp_reply(socket: &mut UnixStream, mac: [u8; 6]) {
    let reply = std::iter::repeat_with(|| next_frame(socket))
        .find(|frame| frame[12..14] == [8, 6] && frame[20..22] == [0, 2])
        .unwrap();
    assert_eq!(reply[..6], [2, 9, 9, 9, 9, 9]);
    assert_eq!(reply[22..28], mac);
    assert_eq!(reply[28..32], [10, 7, 0, 1]);
}

#[test]
fn frames_on_a_stream_are_what_standards_say_in_pieces_of_any_size() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (socket, mut peer) = UnixStream::pair().unwrap();
    let wire = Stream::new(socket).unwrap();
    let nic = card(&kernel, wire, &NicOptions::default(), true);
    peer.set_read_timeout(Some(LONG)).unwrap();
    for byte in framed(&arp_request()) {
        peer.write_all(&[byte]).unwrap();
    }
    expect_arp_reply(&mut peer, nic.mac().0);
    // Frames that are none lie between two that are.
    let mut many = framed(&[]);
    many.extend(framed(&[1; 13]));
    many.extend(framed(&[0xff; 60_000]));
    many.extend(framed(&arp_request()));
    peer.write_all(&many).unwrap();
    expect_arp_reply(&mut peer, nic.mac().0);
    assert_eq!(nic.last_error(), None);
}

#[test]
fn a_peer_that_vanishes_or_lies_about_lengths_is_a_link_that_is_down() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    for lie in [None, Some([0xff; 4]), Some(100_000u32.to_be_bytes())] {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let wire = Stream::new(socket).unwrap();
        let nic = card(&kernel, wire.clone(), &NicOptions::default(), true);
        eventually("the link is up", || nic.is_running().unwrap());
        match lie {
            Some(length) => peer.write_all(&length).unwrap(),
            None => drop(peer),
        }
        eventually("the link is down", || !nic.is_running().unwrap());
        let error = wire.error().expect("a reason").to_string();
        if lie.is_some() {
            assert!(error.contains("a frame of"), "{error}");
        }
        // Whoever sends finds a network without anybody, and not a wall.
        let socket = UdpSocket::bind(&kernel, ([0, 0, 0, 0], 0)).unwrap();
        socket.set_write_timeout(Some(LONG)).unwrap();
        for _ in 0..1_000 {
            socket.send_to(&[0; 1000], (v4().there, 9)).ok();
        }
    }
}

#[test]
fn a_peer_that_reads_nothing_keeps_nobody_waiting_and_is_there_again_when_it_reads() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (socket, mut peer) = UnixStream::pair().unwrap();
    let wire = Stream::new(socket).unwrap();
    let nic = card(&kernel, wire, &NicOptions::default(), true);
    let socket = UdpSocket::bind(&kernel, (v4().here, 0)).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.set_write_timeout(Some(LONG)).unwrap();
    eventually("the link is up", || nic.is_running().unwrap());
    let lost = || nic.counters().lost.load(Ordering::Relaxed);
    eventually("packets are given up", || {
        socket.send_to(&[7; 1400], ([10, 7, 0, 255], 9)).ok();
        lost() > 100
    });
    peer.set_read_timeout(Some(LONG)).unwrap();
    peer.write_all(&framed(&arp_request())).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The answer to the first may have been given up.
        let mut writer = peer.try_clone().unwrap();
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                writer.write_all(&framed(&arp_request())).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        expect_arp_reply(&mut peer, nic.mac().0);
        done.store(true, Ordering::Relaxed);
    });
}

/// Each block: type, length, body, length.
fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let len = word(4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(word(len - 4) as usize, len);
        blocks.push((word(0), &file[8..len - 4]));
        file = &file[len..];
    }
    blocks
}

fn capture_a_talk(file: &std::path::Path) -> Option<u64> {
    let (here, there) = (default_kernel()?, default_kernel()?);
    let (a, b) = Pair::new();
    let capture = Capture::new(a, std::fs::File::create(file).unwrap(), "eth0").unwrap();
    let nic = card(&here, capture.clone(), &NicOptions::default(), true);
    let _other = card(&there, b, &NicOptions::default(), false);
    echo(&here, &there, v4().there, 1 << 20);
    let counters = nic.counters();
    let (sent, received) = (&counters.sent, &counters.received);
    let packets = sent.load(Ordering::Relaxed) + received.load(Ordering::Relaxed);
    drop(nic);
    assert!(capture.error().is_none());
    capture.flush().unwrap();
    Some(packets)
}

#[test]
fn a_capture_has_every_packet_of_a_wire() {
    let dir = TempDir::new();
    let file = dir.path().join("wire.pcapng");
    let Some(packets) = capture_a_talk(&file) else {
        return;
    };
    let bytes = std::fs::read(&file).unwrap();
    let blocks = blocks(&bytes);
    assert_eq!(blocks[0].0, 0x0a0d_0d0a);
    assert_eq!(blocks[1].0, 1);
    assert!(blocks[2..].iter().all(|(kind, _)| *kind == 6));
    assert!(
        blocks.len() as u64 - 2 >= packets,
        "{} of {packets}",
        blocks.len()
    );
    let bytes: u64 = blocks[2..]
        .iter()
        .map(|(_, body)| u64::from(u32::from_le_bytes(body[12..16].try_into().unwrap())))
        .sum();
    assert!(bytes > 2 << 20);
}

#[test]
fn tcpdump_reads_what_a_capture_wrote() {
    let Some(mut tcpdump) = tool("tcpdump", "tcpdump") else {
        return;
    };
    let dir = TempDir::new();
    let file = dir.path().join("wire.pcapng");
    let Some(packets) = capture_a_talk(&file) else {
        return;
    };
    let output = tcpdump
        .args(["-n", "-r"])
        .arg(&file)
        .output()
        .expect("tcpdump");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(text.lines().count() as u64 >= packets, "{text}\n{errors}");
    assert!(text.contains("IP 10.7.0.1."), "{text}");
}

#[test]
fn a_full_disk_ends_a_capture_and_not_the_network() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    let (Some(here), Some(there)) = (default_kernel(), default_kernel()) else {
        return;
    };
    let (a, b) = Pair::new();
    let capture = Capture::new(a, full, "eth0").unwrap();
    let _nic = card(&here, capture.clone(), &NicOptions::default(), true);
    let _other = card(&there, b, &NicOptions::default(), false);
    echo(&here, &there, v4().there, 2 << 20);
    let error = capture.error().expect("an error");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(capture.flush().is_err());
}
