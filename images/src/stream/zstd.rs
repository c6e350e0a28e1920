//! The frames of a .zst stream, found by walking over their blocks. From
//! RFC 8878. What pzstd, t2sz and the seekable format write has many.

use super::pieces::{push, Piece, LONGEST};
use crate::backend::Backend;
use crate::pages::{invalid, Pages};
use std::io;
use std::sync::Arc;

const MAGIC: u32 = 0xfd2f_b528;

/// None: a frame is too long, or does not say how long it is.
pub(super) fn pieces(file: &Arc<dyn Backend>) -> io::Result<Option<Vec<Piece>>> {
    let pages = Pages::new(file.clone());
    let size = file.size();
    let mut list = Vec::new();
    let mut at = 0;
    while at < size {
        let magic = u32::from_le_bytes(pages.get::<4>(at, true)?);
        if magic & !0xf == 0x184d_2a50 {
            // Skippable: not ours to read.
            let len = u32::from_le_bytes(pages.get::<4>(at + 4, true)?);
            at += 8 + u64::from(len);
            continue;
        }
        if magic != MAGIC {
            return Err(invalid(format!("has something else behind byte {at}")));
        }
        let (start, (content, mut next), checksum) =
            (at, frame(&pages, at)?, checksum(&pages, at)?);
        let Some(content) = content.filter(|len| *len <= LONGEST) else {
            return Ok(None);
        };
        loop {
            let [a, b, c] = pages.get::<3>(next, true)?;
            let header = u32::from_le_bytes([a, b, c, 0]);
            let len = match header >> 1 & 3 {
                1 => 1,
                3 => return Err(invalid(format!("is damaged at byte {next}"))),
                _ => u64::from(header >> 3),
            };
            next += 3 + len;
            if next > size {
                return Err(invalid("is cut short"));
            }
            if header & 1 == 1 {
                break;
            }
        }
        at = next + if checksum { 4 } else { 0 };
        if push(&mut list, start, at - start, content, 0).is_none() {
            return Ok(None);
        }
    }
    Ok((at == size && !list.is_empty()).then_some(list))
}

fn checksum(pages: &Pages, at: u64) -> io::Result<bool> {
    Ok(pages.get::<1>(at + 4, true)?[0] & 4 != 0)
}

/// The length of the content, if the header has it, and where the blocks start.
fn frame(pages: &Pages, at: u64) -> io::Result<(Option<u64>, u64)> {
    let [descriptor] = pages.get::<1>(at + 4, true)?;
    let single = descriptor & 0x20 != 0;
    let place = at + 5 + u64::from(!single) + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match (descriptor >> 6, single) {
        (0, false) => return Ok((None, place)),
        (0, true) => (pages.get::<1>(place, true)?[0].into(), 1),
        (1, _) => (
            u64::from(u16::from_le_bytes(pages.get(place, true)?)) + 256,
            2,
        ),
        (2, _) => (u32::from_le_bytes(pages.get(place, true)?).into(), 4),
        _ => (u64::from_le_bytes(pages.get(place, true)?), 8),
    };
    Ok((Some(content.0), place + content.1))
}

pub(super) fn unpack(_: &dyn Backend, _: &Piece, packed: &[u8], to: &mut [u8]) -> io::Result<()> {
    match ::zstd::bulk::decompress_to_buffer(packed, to)? {
        n if n == to.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
