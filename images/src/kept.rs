//! Unpacked pieces of a container, for who wants more of them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

pub(crate) struct Kept {
    /// Bytes that are kept; a piece that is longer stays alone.
    most: usize,
    /// By a number that the container gives them, the newest last.
    pieces: Mutex<VecDeque<(u64, Arc<[u8]>)>>,
}

impl Kept {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            pieces: Mutex::default(),
        }
    }

    /// Piece `number`, of `len` bytes, which `unpack` makes. Readers wait for each
    /// other: two of them mostly want the same piece. Without `wait`, an error of
    /// the kind `WouldBlock` unless it is kept.
    pub fn get(
        &self,
        number: u64,
        len: usize,
        wait: bool,
        unpack: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Arc<[u8]>> {
        let mut pieces = match wait {
            true => self.pieces.lock().unwrap_or_else(|e| e.into_inner()),
            false => self
                .pieces
                .try_lock()
                .map_err(|_| io::ErrorKind::WouldBlock)?,
        };
        if let Some(at) = pieces.iter().position(|(n, _)| *n == number) {
            if let Some(found) = pieces.remove(at) {
                let bytes = found.1.clone();
                pieces.push_back(found);
                return Ok(bytes);
            }
        }
        if !wait {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Room first: the newest pieces that fit stay.
        let mut room = self.most.saturating_sub(len);
        let fits = |(_, bytes): &(u64, Arc<[u8]>)| {
            let fits = bytes.len() <= room;
            room = room.saturating_sub(bytes.len());
            fits
        };
        let stay = pieces.iter().rev().map(fits).take_while(|f| *f).count();
        let old = pieces.len() - stay;
        pieces.drain(..old);
        let bytes: Arc<[u8]> = unpack()?.into();
        pieces.push_back((number, bytes.clone()));
        Ok(bytes)
    }
}
