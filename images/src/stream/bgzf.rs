//! The blocks of a .gz stream that bgzip wrote: each says how long it is, in a
//! field that other programs skip. From the SAM specification, chapter 4.

use super::pieces::{push, Piece};
use crate::backend::Backend;
use crate::pages::{invalid, Pages};
use std::io::{self, Read};
use std::sync::Arc;

/// None: an ordinary .gz.
pub(super) fn pieces(file: &Arc<dyn Backend>) -> io::Result<Option<Vec<Piece>>> {
    let pages = Pages::new(file.clone());
    let mut list = Vec::new();
    let mut at = 0;
    while at < file.size() {
        let head = pages.get::<18>(at, true)?;
        let is_block = head.starts_with(b"\x1f\x8b\x08\x04") && head[10..16] == *b"\x06\0BC\x02\0";
        if !is_block {
            return Ok(None);
        }
        let len = u64::from(u16::from_le_bytes([head[16], head[17]])) + 1;
        if at + len > file.size() || len < 26 {
            return Err(invalid("is cut short"));
        }
        let unpacked = u32::from_le_bytes(pages.get(at + len - 4, true)?);
        if push(&mut list, at, len, unpacked.into(), 0).is_none() {
            return Ok(None);
        }
        at += len;
    }
    Ok((!list.is_empty()).then_some(list))
}

pub(super) fn unpack(_: &dyn Backend, _: &Piece, packed: &[u8], to: &mut [u8]) -> io::Result<()> {
    let mut stream = flate2::read::GzDecoder::new(packed);
    stream.read_exact(to)?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(invalid("a block is longer than it says")),
    }
}
