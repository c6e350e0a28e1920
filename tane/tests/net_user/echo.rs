//! Echo requests.

use crate::inside::{at, call, into, ok};
use crate::wired::pattern;
use crate::{furnish_namespace, networked, options};
use tane::Kernel;
use tane_test_support::in_namespace;

fn checked(mut message: Vec<u8>) -> Vec<u8> {
    let words = message
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Send an echo request; what comes back, from its ICMP header on, or as an error.
fn ping(kernel: &Kernel, to: [u8; 4], payload: &[u8]) -> Result<Vec<u8>, i32> {
    let socket = ok(
        kernel,
        libc::SYS_socket,
        &[libc::AF_INET as u64, libc::SOCK_RAW as u64, 1],
    );
    let mut address = [2u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    address[4..8].copy_from_slice(&to);
    ok(kernel, libc::SYS_connect, &[socket, at(&address), 16]);
    let head = [8, 0, 0, 0, 0x12, 0x34, 0, 1];
    let message = checked([&head, payload].concat());
    ok(
        kernel,
        libc::SYS_write,
        &[socket, at(&message[..]), message.len() as u64],
    );
    let mut buffer = vec![0u8; 70_000];
    let n = call(
        kernel,
        libc::SYS_read,
        &[socket, into(&mut buffer[..]), 70_000],
    );
    ok(kernel, libc::SYS_close, &[socket]);
    Ok(buffer[20..n? as usize].to_vec())
}

#[test]
fn echo_requests_reach_the_host_where_it_lets_its_user_send_them() {
    if !in_namespace("echo::echo_requests_reach_the_host_where_it_lets_its_user_send_them") {
        return;
    }
    furnish_namespace(&[[203, 0, 113, 1]]);
    let Some((kernel, _nic)) = networked(&options(&[])) else {
        return;
    };
    // What is closed, and where the host does not let its user, is "forbidden".
    let refused = ping(&kernel, [203, 0, 113, 1], b"x");
    assert_eq!(refused, Err(libc::EHOSTUNREACH));
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
    for size in [0, 56, 9000] {
        let payload = pattern(size);
        let reply = ping(&kernel, [203, 0, 113, 1], &payload).unwrap();
        assert_eq!(reply[..2], [0, 0], "a reply");
        assert_eq!(reply[4..8], [0x12, 0x34, 0, 1], "to this request");
        assert!(reply[8..] == payload, "{size}");
    }
    let closed = ping(&kernel, [169, 254, 169, 254], b"x");
    assert_eq!(closed, Err(libc::EHOSTUNREACH));
}
