//! The index at the end of an .xz stream, which says where its blocks are. From
//! "The .xz File Format", 1.2.

use super::pieces::{push, Piece};
use crate::backend::Backend;
use crate::pages::{invalid, le32, read_exactly};
use liblzma::stream::{Action, Status, Stream};
use std::io;
use std::sync::Arc;

/// Memory for one decoder: the largest of xz's presets needs 65 MiB.
pub(super) const MEMORY: u64 = 256 << 20;
/// Longest index that is read, in bytes.
const LONGEST_INDEX: u64 = 32 << 20;

/// None: its blocks are too long, or it has but one.
pub(super) fn pieces(file: &Arc<dyn Backend>) -> io::Result<Option<Vec<Piece>>> {
    let mut streams = Vec::new();
    let mut end = file.size();
    while end > 0 {
        if !end.is_multiple_of(4) || end < 24 {
            return Err(invalid("is cut short, or something follows the stream"));
        }
        let footer = read_exactly(&**file, end - 12, 12)?;
        if footer == [0; 12] || footer[8..] == [0; 4] {
            end -= 4; // padding between streams
            continue;
        }
        let index_len = (u64::from(le32(&footer, 4)) + 1) * 4;
        if !footer.ends_with(b"YZ") || index_len + 24 > end {
            return Err(invalid("is cut short: its footer is missing"));
        }
        if index_len > LONGEST_INDEX {
            return Ok(None);
        }
        let index_at = end - 12 - index_len;
        let index = read_exactly(&**file, index_at, index_len as usize)?;
        let records = records(&index).ok_or_else(|| invalid("its index is damaged"))?;
        let blocks = records.iter().try_fold(0u64, |sum, (len, _)| {
            sum.checked_add(len.checked_next_multiple_of(4)?)
        });
        let start = blocks.and_then(|len| index_at.checked_sub(len)?.checked_sub(12));
        end = start.ok_or_else(|| invalid("its index is damaged"))?;
        streams.push((end, records));
    }
    let mut list = Vec::new();
    for (start, records) in streams.into_iter().rev() {
        let mut at = start + 12;
        for (len, unpacked) in records {
            let len = len.next_multiple_of(4);
            if push(&mut list, at, len, unpacked, start).is_none() {
                return Ok(None);
            }
            at += len;
        }
    }
    // A small image in one block is read whole, and at once.
    Ok((!list.is_empty()).then_some(list))
}

fn records(index: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut rest = index.strip_prefix(&[0])?;
    let count = number(&mut rest)?;
    // Each takes two bytes at least.
    if count > rest.len() as u64 / 2 {
        return None;
    }
    let mut records = Vec::new();
    for _ in 0..count {
        records.push((number(&mut rest)?, number(&mut rest)?));
    }
    Some(records)
}

/// Seven bits a byte, the lowest first.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A block behind a stream's header is a stream, as far as it goes.
pub(super) fn unpack(
    file: &dyn Backend,
    piece: &Piece,
    packed: &[u8],
    to: &mut [u8],
) -> io::Result<()> {
    let mut stream = Stream::new_stream_decoder(MEMORY, 0)?;
    let header = read_exactly(file, piece.extra, 12)?;
    stream.process(&header, &mut [], Action::Run)?;
    let mut status = Status::Ok;
    while stream.total_out() < to.len() as u64 && status == Status::Ok {
        let (used, made) = (stream.total_in() as usize - 12, stream.total_out() as usize);
        let input = packed.get(used..).unwrap_or_default();
        status = stream.process(input, &mut to[made..], Action::Run)?;
        if stream.total_in() as usize - 12 == used && stream.total_out() as usize == made {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    // On to the checksum behind the data.
    let used = stream.total_in() as usize - 12;
    let rest = packed.get(used..).unwrap_or_default();
    let mut none = [0; 1];
    match stream.process(rest, &mut none, Action::Run) {
        Ok(_) if stream.total_out() > to.len() as u64 => {
            Err(invalid("a block is longer than the index says"))
        }
        Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
