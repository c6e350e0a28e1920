//! The pages of a ring buffer, as trace_pipe_raw gives them: a time stamp, a length,
//! and records, each after a word of its length and of the time since the last one
//! (include/linux/ring_buffer.h). The records' own times are not read here.

use crate::error::{Error, Result};

const HEADER: usize = 16;
const LENGTH: u64 = (1 << 20) - 1;

/// The records of a page.
pub fn records(page: &[u8]) -> Result<Vec<&[u8]>> {
    const PADDING: u32 = 29;
    const EXTEND: u32 = 30;
    const STAMP: u32 = 31;
    let length = page.get(8..HEADER).ok_or(SHORT)?;
    let length = u64::from_le_bytes(length.try_into().map_err(|_| SHORT)?);
    let end = HEADER + (length & LENGTH) as usize;
    let data = page.get(..end).ok_or(SHORT)?;
    let mut found = Vec::new();
    let mut at = HEADER;
    while at < end {
        let kind = word(data, at)? & 31;
        at += 4;
        let len = match kind {
            PADDING => break,
            EXTEND | STAMP => {
                at += 4;
                continue;
            }
            // The length stands in the next word, which it includes.
            0 => {
                at += 4;
                (word(data, at - 4)? as usize).saturating_sub(4)
            }
            words => words as usize * 4,
        };
        found.push(data.get(at..at + len).ok_or(SHORT)?);
        at += len.next_multiple_of(4);
    }
    Ok(found)
}

const SHORT: Error = Error::Record("a page ends too early");

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let word = bytes.get(at..at + 4).ok_or(SHORT)?;
    Ok(u32::from_le_bytes(word.try_into().map_err(|_| SHORT)?))
}

#[cfg(test)]
mod tests {
    use super::records;

    fn page(words: &[u32], flags: u64) -> Vec<u8> {
        let mut page = vec![0; 8];
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    #[test]
    fn records_of_each_kind_are_found() {
        // One of two words, a longer time, one whose length stands beside it.
        let bytes = page(&[2, 7, 8, 30, 1, 0, 8, 9], 1 << 31);
        let found = records(&bytes).unwrap();
        assert_eq!(found, [[7, 0, 0, 0, 8, 0, 0, 0].as_slice(), &[9, 0, 0, 0]]);
    }

    #[test]
    fn a_page_that_lies_is_an_error() {
        assert!(records(&[0; 12]).is_err());
        assert!(records(&page(&[2, 7], 0)).is_err());
        assert!(records(&page(&[0, u32::MAX], 0)).is_err());
        let mut long = page(&[1, 7], 0);
        long[8] = 200;
        assert!(records(&long).is_err());
    }
}
