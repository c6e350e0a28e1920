//! Promises of `tane net ping`: who answers, by which wire, and how it is told.

use super::{net, said, scratch, LONG};
use std::os::unix::net::UnixDatagram;

#[test]
fn a_ping_is_answered_by_a_wire_of_datagrams_as_well() {
    let Some(s) = scratch() else { return };
    let path = s.join("datagrams");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LONG)).expect("a time");
    // One that has every address answers who asks for one and echoes what is sent to it.
    let peer = std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        loop {
            let (n, from) = socket.recv_from(&mut frame).expect("a frame");
            let Some(answer) = answered(&frame[..n]) else {
                continue;
            };
            let is_echo = answer[12..14] == [8, 0];
            if socket.send_to_addr(&answer, &from).is_err() || is_echo {
                return;
            }
        }
    });
    let wire = format!("switch={}", path.display());
    let words = [
        "ping",
        "10.7.0.9",
        "-c",
        "1",
        "--net",
        &wire,
        "--address",
        "10.7.0.1/24",
    ];
    let pinged = said(net(&s, &words));
    assert_eq!(pinged.code, Some(0), "{}{}", pinged.out, pinged.err);
    let line = "64 bytes from 10.7.0.9: icmp_seq=1 ttl=64 time=";
    assert!(pinged.out.contains(line), "{}", pinged.out);
    assert!(pinged
        .out
        .contains("1 packets transmitted, 1 received, 0% packet loss"));
    peer.join().expect("a peer");
}

/// An answer to a question for an address (RFC 826) or to an echo request (RFC 792).
fn answered(frame: &[u8]) -> Option<Vec<u8>> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    match frame.get(12..14)? {
        [8, 6] if frame.get(20..22)? == [0, 1] => {
            answer[21] = 2;
            let (asker, asked) = (frame[22..32].to_vec(), frame[38..42].to_vec());
            answer[22..28].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
            answer[28..32].copy_from_slice(&asked);
            answer[32..42].copy_from_slice(&asker);
            Some(answer)
        }
        [8, 0] if frame.get(23)? == &1 && frame.get(34)? == &8 => {
            let (from, to) = (frame[26..30].to_vec(), frame[30..34].to_vec());
            answer[26..30].copy_from_slice(&to);
            answer[30..34].copy_from_slice(&from);
            // From 8 to 0, which the sum has with the other sign.
            answer[34] = 0;
            let sum = u16::from_be_bytes([frame[36], frame[37]]);
            let (sum, over) = sum.overflowing_add(0x800);
            let sum = sum + u16::from(over);
            answer[36..38].copy_from_slice(&sum.to_be_bytes());
            Some(answer)
        }
        _ => None,
    }
}

#[test]
fn pings_of_itself_are_answered_and_told_as_json_and_others_are_not() {
    let Some(s) = scratch() else { return };
    for host in ["127.0.0.1", "::1", "localhost"] {
        let words = [
            "ping", host, "-c", "2", "-i", "0.1", "--net", "none", "--json",
        ];
        let pinged = said(net(&s, &words));
        let lines: Vec<serde_json::Value> = pinged
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 3, "{}{}", pinged.out, pinged.err);
        assert_eq!(lines[1]["seq"], 2);
        assert_eq!(lines[2]["received"], 2);
        assert_eq!(lines[2]["host"], host);
    }
    let words = ["ping", "192.0.2.1", "-c", "1", "--net", "none"];
    let said = said(net(&s, &words));
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("unreachable"), "{}", said.err);
}
