//! What fuzzers run.

use crate::list;
use crate::open::Opened;
use crate::records::VolumeRecord;
use crate::wire::{List, Reader, Wire};

/// Decode what may be an answer to anything, for fuzzing: it must come to an end.
#[doc(hidden)]
pub fn fuzz_answers(bytes: &[u8]) {
    let mut from = Reader::new(bytes);
    let _ = List::<VolumeRecord>::get(&mut from);
    let mut from = Reader::new(bytes);
    let _ = Opened::get(&mut from);
    let mut from = Reader::new(bytes);
    while let Ok(Some(_)) = list::parse(&mut from) {}
}
