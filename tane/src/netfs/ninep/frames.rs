//! Where messages of 9p begin and end in a stream of bytes, and what stands at their begin.

/// Bytes that every message begins with: its size, its type and its tag.
const HEADER: usize = 7;
/// With the tag that a Tflush is about.
const MOST: usize = HEADER + 2;
pub const TFLUSH: u8 = 108;
pub const TFSYNC: u8 = 50;

/// A message, as far as it is of interest here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub tag: u16,
    /// Of a Tflush: the message that is not waited for any more.
    pub flushed: Option<u16>,
}

/// It is no message: shorter than its own header.
#[derive(Debug, PartialEq, Eq)]
pub struct Nonsense;

/// One direction of a connection.
#[derive(Default)]
pub struct Frames {
    begin: [u8; MOST],
    /// Bytes of the message that have come.
    come: usize,
}

impl Frames {
    /// More of the stream: `whole` is told each message of which all has come.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut whole: impl FnMut(Message),
    ) -> Result<(), Nonsense> {
        while !bytes.is_empty() {
            let size = self.size().unwrap_or(HEADER);
            let wanted = match self.come < HEADER {
                true => HEADER - self.come,
                false => size - self.come,
            };
            let (now, rest) = bytes.split_at(wanted.min(bytes.len()));
            let room = &mut self.begin[self.come.min(MOST)..];
            let kept = room.len().min(now.len());
            room[..kept].copy_from_slice(&now[..kept]);
            self.come += now.len();
            bytes = rest;
            match self.size() {
                Some(size) if size < HEADER => return Err(Nonsense),
                Some(size) if self.come == size => {
                    whole(self.message());
                    self.come = 0;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Of the message, if its header is there.
    fn size(&self) -> Option<usize> {
        let [a, b, c, d, ..] = self.begin;
        (self.come >= HEADER).then(|| u32::from_le_bytes([a, b, c, d]) as usize)
    }

    fn message(&self) -> Message {
        let word = |at: usize| u16::from_le_bytes([self.begin[at], self.begin[at + 1]]);
        let kind = self.begin[4];
        Message {
            kind,
            tag: word(5),
            flushed: (kind == TFLUSH && self.come >= MOST).then(|| word(7)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, tag: u16, behind: &[u8]) -> Vec<u8> {
        let size = (HEADER + behind.len()) as u32;
        let tag = tag.to_le_bytes();
        [&size.to_le_bytes()[..], &[kind], &tag, behind].concat()
    }

    #[test]
    fn messages_are_told_when_their_last_byte_has_come_however_they_are_cut() {
        let all = [
            message(100, 0xffff, &[1; 20]),
            message(120, 3, &[]),
            message(TFLUSH, 4, &[3, 0]),
            message(117, 5, &[9; 300]),
        ]
        .concat();
        let told = |kind, tag, flushed| Message { kind, tag, flushed };
        let expected = [
            told(100, 0xffff, None),
            told(120, 3, None),
            told(TFLUSH, 4, Some(3)),
            told(117, 5, None),
        ];
        for piece in [1, 2, 6, 7, 8, 9, 10, 64, all.len()] {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for part in all.chunks(piece) {
                let fed = frames.feed(part, |message| found.push(message));
                assert_eq!(fed, Ok(()));
            }
            assert_eq!(found, expected, "in pieces of {piece}");
            let mut frames = Frames::default();
            let mut count = 0;
            let short = &all[..all.len() - 1];
            assert_eq!(frames.feed(short, |_| count += 1), Ok(()));
            assert_eq!(count, 3);
        }
    }

    #[test]
    fn what_is_shorter_than_its_header_is_no_message() {
        for size in 0..HEADER as u32 {
            let bytes = [&size.to_le_bytes()[..], &[101, 0, 0]].concat();
            assert_eq!(Frames::default().feed(&bytes, |_| ()), Err(Nonsense));
        }
    }
}
