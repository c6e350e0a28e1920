//! What the fuzzer calls, and a test with random bytes: a driver that lost its
//! mind. Nothing outside guest memory may be touched, and everything ends.

use super::request::{Disk, Request, Status, ID_SIZE};
use crate::virtio::{GuestMemory, Queue, QueueLayout};
use tane_host::Physical;
use tane_images::{Backend, Ram};

/// Bytes of guest memory. Small, so that random addresses often lie in it.
const MEMORY: usize = 64 << 10;
/// A disk of which the last sector is not whole.
const DISK: u64 = (32 << 10) + 100;
/// Bytes at the start of the input that say how the queue lies.
const HEAD: usize = 8;

/// Guest memory is the input, again and again; the queue lies somewhere in it,
/// and what it holds is done to a disk.
#[doc(hidden)]
pub fn fuzz_queue(data: &[u8]) {
    if data.len() < HEAD {
        return;
    }
    let (head, rest) = data.split_at(HEAD);
    // Words, for the alignment of pages is more than rings ask for.
    let mut ram = vec![0u64; MEMORY / 8 + 1];
    let base = ram.as_mut_ptr().cast::<u8>();
    // Rings are aligned to 16, which a vector of words need not be.
    let base = base.wrapping_add(base.align_offset(16));
    let len = (MEMORY - 16) as u64;
    for (at, byte) in rest.iter().take(len as usize).enumerate() {
        // SAFETY: inside `ram`.
        unsafe { base.add(at).write(*byte) };
    }
    // SAFETY: `ram` outlives the queue and is only used through it.
    let memory = unsafe { GuestMemory::new(base, len) };
    let layout = QueueLayout {
        desc: Physical(u64::from(head[0]) * 16),
        driver: Physical(u64::from(head[1]) * 64),
        device: Physical(u64::from(head[2]) * 128),
        size: 1 << (head[3] % 9),
        event_idx: head[4] & 1 != 0,
        indirect: head[4] & 2 != 0,
    };
    let Ok(mut queue) = Queue::new(memory, layout) else {
        return;
    };
    let backend = Ram::new(DISK).expect("memory for a small disk");
    let disk = Disk {
        backend: &backend,
        read_only: head[4] & 4 != 0,
        unit: super::request::SECTOR,
        serial: &[b's'; ID_SIZE],
    };
    let mut request = Request::default();
    // A driver that always has more is stopped from outside, like any.
    for _ in 0..3 * u32::from(layout.size) {
        match queue.pop(&mut request.chain) {
            Ok(true) => {}
            Ok(false) if queue.enable_notification() => continue,
            Ok(false) | Err(_) => break,
        }
        for buffer in request.chain.readable.iter().chain(&request.chain.writable) {
            let start = (buffer.iov_base as usize).wrapping_sub(base as usize);
            assert!(start <= len as usize && buffer.iov_len <= len as usize - start);
        }
        let head = request.chain.head;
        let written = if request.parse() {
            let now = request.try_now(&disk, false);
            let result = now.unwrap_or_else(|| request.now(&disk, false));
            request.answer(result.map_or_else(|(status, _)| status, |()| Status::Ok))
        } else {
            0
        };
        queue.push(head, written);
        queue.wants_interrupt();
    }
    assert_eq!(backend.size(), DISK);
}
