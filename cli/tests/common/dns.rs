//! A resolver of a test's own, for datagrams: it knows the addresses that it was given.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

const A: u16 = 1;

/// Where it answers. Of a name that it knows it knows nothing else; others do not exist.
pub fn resolver(known: &'static [(&'static str, Ipv4Addr)]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            if let Some(answer) = answer(&buffer[..n], known) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    at
}

/// RFC 1035, 4.1.
fn answer(query: &[u8], known: &[(&str, Ipv4Addr)]) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    let name = labels.join(".");
    let found = known.iter().find(|(one, _)| *one == name);
    // One question, and nothing behind it.
    let mut answer = query.get(..at + 4)?.to_vec();
    answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    answer[2] |= 0x80;
    answer[3] = if found.is_some() { 0x80 } else { 0x83 };
    if let (Some((_, address)), A) = (found, kind) {
        answer[7] = 1;
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
