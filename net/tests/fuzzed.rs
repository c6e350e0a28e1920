//! Frames and headers of somebody who lies harm nobody: the fuzzer's entry function
//! with random bytes, and with packets that are nearly right.

use proptest::prelude::*;
use tane_net::{fuzz_packet, Header, Malformed, Packet};

/// A frame of TCP or UDP over IPv4 or IPv6, in its header's bytes and its own.
fn packet(v6: bool, tcp: bool, tags: usize, payload: usize, gso_size: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for _ in 0..tags {
        frame.extend([0x81, 0, 0, 7]);
    }
    let transport = if tcp { 20 } else { 8 };
    let len = (transport + payload) as u16;
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([if tcp { 6 } else { 17 }, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, if tcp { 6 } else { 17 }, 0, 0]);
        frame.extend([10; 8]);
    }
    let start = frame.len();
    if tcp {
        frame.extend([
            0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x19, 1, 0, 0, 0, 0, 0,
        ]);
    } else {
        frame.extend([0, 80, 0, 81]);
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend((0..payload).map(|i| i as u8));
    let header = Header {
        flags: 1,
        gso_type: match (tcp, v6) {
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        },
        hdr_len: 0,
        gso_size,
        csum_start: start as u16,
        csum_offset: if tcp { 16 } else { 6 },
    };
    [&header.encode(0)[..], &frame].concat()
}

fn refused(bytes: &[u8]) -> Option<Malformed> {
    let (head, frame) = bytes.split_first_chunk().unwrap();
    let buffers = [tane_buffers::buffer(frame)];
    // SAFETY: borrowed memory that is only read.
    unsafe { Packet::new(Header::decode(head), &buffers).err() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_end_well(data in proptest::collection::vec(any::<u8>(), 0..3000)) {
        fuzz_packet(&data);
    }

    #[test]
    fn packets_that_are_nearly_right_end_well(
        v6: bool,
        tcp: bool,
        tags in 0usize..3,
        payload in 1usize..5000,
        gso_size in 1u16..3000,
        changes in proptest::collection::vec((0usize..100, any::<u8>()), 0..4),
        cut in 0usize..6000,
    ) {
        let mut bytes = packet(v6, tcp, tags, payload, gso_size);
        prop_assert_eq!(refused(&bytes), None);
        fuzz_packet(&bytes);
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(cut.max(12));
        fuzz_packet(&bytes);
    }
}

#[test]
fn what_would_make_thousands_of_frames_of_one_is_refused() {
    assert_eq!(refused(&packet(false, true, 0, 60_000, 1000)), None);
    for gso_size in [0, 1, 7] {
        assert!(refused(&packet(false, true, 0, 60_000, gso_size)).is_some());
    }
}

#[test]
fn headers_that_do_not_fit_their_frames_are_refused() {
    let right = packet(false, true, 0, 3000, 1000);
    let changed = |at: usize, byte: u8| {
        let mut bytes = right.clone();
        bytes[at] = byte;
        refused(&bytes)
    };
    // The header: no checksum, other segments, a checksum elsewhere or outside.
    for (at, byte) in [
        (0, 0),
        (1, 3),
        (1, 4),
        (1, 5),
        (6, 50),
        (7, 0xff),
        (8, 6),
        (9, 0xff),
    ] {
        assert!(changed(at, byte).is_some(), "byte {at} as {byte}");
    }
    // The frame: no IP, another version, other lengths, a fragment, UDP.
    for (at, byte) in [
        (24, 9),
        (26, 0x65),
        (26, 0x44),
        (26, 0x4f),
        (32, 0x20),
        (35, 17),
        (58, 0x40),
    ] {
        assert!(changed(at, byte).is_some(), "byte {at} as {byte}");
    }
    assert!(refused(&right[..12 + 13]).is_some());
    assert!(refused(&[&[0; 12][..], &vec![0; 70_000]].concat()).is_some());
}
