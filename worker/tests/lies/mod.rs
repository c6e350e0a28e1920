//! Answers that are right but for one lie: each field that a message has, and each word of
//! what an answer holds, takes each of the numbers that programs get wrong, one call after
//! the other.

pub mod trees;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Of worker/src/area.rs.
const BULK: u64 = 1 << 20;
const ROOM: u64 = BULK + (64 << 10);
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    3,
    255,
    4095,
    4096,
    BULK,
    BULK + 1,
    ROOM - 1,
    ROOM,
    ROOM + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX,
];
/// Fields of a message: operation, handle and the request's length, which nobody should
/// read again; errno, the answer's length, the result in two halves.
const FIELDS: std::ops::Range<usize> = 3..10;

/// What a worker that does not lie might say: its bytes, and the result.
fn honest(operation: u32) -> (Vec<u8>, u64) {
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let text = |text: &[u8]| [&words(&[text.len() as u64])[..], text].concat();
    // The end of a listing comes with the next message.
    let entry = || [words(&[1, 7, 0x8000]), text(b"name"), words(&[0])].concat();
    match operation {
        // OPEN: what Landlock holds, notices.
        1 => (words(&[0, 0]), 0),
        // MOUNT: handle, place, descriptor.
        3 => ([words(&[1]), text(b"/m"), words(&[5])].concat(), 0),
        // OPEN_FILE: handle, descriptor.
        5 => (words(&[1, 6]), 0),
        // PREAD and READ; PWRITE and WRITE; LSEEK.
        6 | 7 => (words(&[0x6161_6161_6161_6161; 4]), 32),
        8 | 9 | 13 => (Vec::new(), 1),
        // SYSCALL: as much as any of those has, and a result that all may have.
        14 => (words(&[0x1_0000_0001; 512]), 3),
        // READ_FILES: ten, of a byte each.
        10 => ([words(&[1; 10]), vec![b'a'; 10]].concat(), 10),
        // LIST, with a handle, and LIST_MORE.
        11 => (entry(), 1),
        12 => (
            [entry(), words(&[2]), text(b"d/e"), entry(), words(&[0])].concat(),
            0,
        ),
        21 => (words(&[1]), 0),
        22 | 23 | 55 | 56 => (text(b"text"), 0),
        57 => (text(b"user.a\0user.b\0"), 0),
        // A volume: struct tane_volume.
        30 => ([words(&[1]), vec![b'v'; 1288]].concat(), 0),
        // struct tane_statfs, struct tane_stat.
        41 => (words(&[9; 9]), 0),
        42 | 73 => (words(&[9; 18]), 0),
        76 => (words(&[0]), 0),
        // Shared parts.
        79 => (words(&[2, 0, 10, 100, 20, 10, 200]), 0),
        _ => (Vec::new(), 0),
    }
}

/// One word of the memory that both have, and what a liar would have it.
pub struct Lie<'a> {
    pub at: &'a AtomicU32,
    pub honest: u32,
    pub lie: u32,
}

/// Which lie is the next of each operation.
#[derive(Default)]
pub struct Lies(HashMap<u32, usize>);

impl Lies {
    /// Write the answer of the call that `control` has into `room`, with its lie; what was
    /// lied about. The first call of each kind that makes something to be asked for is
    /// answered as it should be.
    pub fn tell<'a>(&mut self, control: &'a [AtomicU32], room: &'a [AtomicU32]) -> Option<Lie<'a>> {
        let operation = control[3].load(SeqCst);
        let (bytes, result) = honest(operation);
        for (word, bytes) in room.iter().zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_le_bytes(whole), SeqCst);
        }
        control[6].store(0, SeqCst);
        control[7].store(bytes.len() as u32, SeqCst);
        control[8].store(result as u32, SeqCst);
        control[9].store((result >> 32) as u32, SeqCst);
        let next = self.0.entry(operation).or_default();
        let number = *next;
        *next += 1;
        if operation == 1 || number == 0 {
            return None;
        }
        let (field, value) = (number / NUMBERS.len(), NUMBERS[number % NUMBERS.len()]);
        let words = bytes.len().div_ceil(4);
        let field = field % (FIELDS.len() + words);
        let (at, lie) = match field.checked_sub(FIELDS.len()) {
            None => (&control[FIELDS.start + field], value as u32),
            // Both halves of what has eight bytes.
            Some(word) => (&room[word], (value >> (32 * (word % 2))) as u32),
        };
        let honest = at.swap(lie, SeqCst);
        if let Some(word) = field.checked_sub(FIELDS.len()).filter(|word| word % 2 == 0) {
            room[word + 1].store((value >> 32) as u32, SeqCst);
        }
        Some(Lie { at, honest, lie })
    }
}
