//! Power cuts: what a medium may hold after one, from the log of what was done.
//!
//! A disk with a volatile cache keeps everything before its last flush. Of what
//! came after it, any subset may be there: the cache is written back in any
//! order, and the power may end at any moment of that.

use crate::backend::Backend;
use crate::buffers::buffer;
use std::io;

/// A change that took place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    Discard {
        offset: u64,
        len: u64,
    },
    WriteZeroes {
        offset: u64,
        len: u64,
    },
    /// The medium is a file, and became this long.
    Grow {
        size: u64,
    },
    /// Everything before it is durable.
    Flush,
}

/// What of an event that no flush covers is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    Nothing,
    All,
    /// A write's first bytes, cut down to whole sectors of 512.
    Torn {
        bytes: usize,
    },
}

impl Event {
    /// Do to `disk` what was done then.
    pub fn replay(&self, disk: &dyn Backend) -> io::Result<()> {
        match self {
            Self::Write { offset, data } => disk.write(&[buffer(data)], *offset),
            Self::Discard { offset, len } => disk.discard(*offset, *len),
            Self::WriteZeroes { offset, len } => disk.write_zeroes(*offset, *len, true),
            Self::Grow { size } => disk.grow(*size),
            Self::Flush => disk.flush(),
        }
    }
}

/// How many events at the start of `log` the flushes in it made durable.
pub fn durable(log: &[Event]) -> usize {
    let flush = log.iter().rposition(|event| *event == Event::Flush);
    flush.map_or(0, |at| at + 1)
}

/// Bring `disk`, a copy of the image as it was before the log, to a state that
/// it may have had if the power failed right after the last event of `log`:
/// pass a prefix. `survives` decides about each event that no flush covers, by
/// its place in the log.
pub fn cut(
    log: &[Event],
    disk: &dyn Backend,
    mut survives: impl FnMut(usize, &Event) -> Survives,
) -> io::Result<()> {
    let durable = durable(log);
    for (at, event) in log.iter().enumerate() {
        let what = match at < durable {
            true => Survives::All,
            false => survives(at, event),
        };
        match (what, event) {
            // A file's length may be there before any of what is in it.
            (_, Event::Grow { .. }) => event.replay(disk)?,
            (Survives::Nothing, _) => {}
            (Survives::Torn { bytes }, Event::Write { offset, data }) => {
                let bytes = bytes.min(data.len()) / 512 * 512;
                if bytes > 0 {
                    disk.write(&[buffer(&data[..bytes])], *offset)?;
                }
            }
            _ => event.replay(disk)?,
        }
    }
    Ok(())
}
