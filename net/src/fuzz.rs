//! What the fuzzer calls, and a test with random bytes: frames and headers of somebody
//! who lies.

use crate::header::{Header, Offloads};
use crate::packet::{Packet, ETHERNET, MAX_FRAME};
use crate::segment::{adapt, count, Scratch};
use tane_buffers::{buffer, gather, total};

/// The input is a header and a frame: they are refused, or become frames that are whole
/// and have nothing left to do.
#[doc(hidden)]
pub fn fuzz_packet(data: &[u8]) {
    let Some((head, frame)) = data.split_first_chunk::<{ Header::SIZE }>() else {
        return;
    };
    let header = Header::decode(head);
    let cut = frame.len() / 3;
    let buffers = [buffer(&frame[..cut]), buffer(&frame[cut..])];
    // SAFETY: borrowed memory that is only read.
    let Ok(packet) = (unsafe { Packet::new(header, &buffers) }) else {
        return;
    };
    let mut scratch = Scratch::default();
    let (mut frames, mut bytes) = (0, 0);
    let all = adapt(&packet, Offloads::NONE, &mut scratch, |frame| {
        assert!(frame.header().is_plain());
        assert!((ETHERNET..=MAX_FRAME).contains(&frame.len()));
        assert_eq!(frame.len(), total(frame.frame()));
        let mut copy = vec![0; frame.len()];
        // SAFETY: a packet's buffers are readable.
        unsafe { gather(frame.frame(), &mut copy) };
        frames += 1;
        bytes += frame.len();
        true
    });
    assert!(all);
    assert_eq!(frames, count(&packet, Offloads::NONE));
    let heads = (frames - 1) * usize::from(packet.header().hdr_len);
    assert_eq!(bytes, packet.len() + heads);
}
