//! Clusters compressed by zstd, which imago (0.2.6) does not know: it is shown a
//! header without that feature, and what it then calls special is read here.

use crate::backend::{only_read, Backend};
use crate::buffers::{buffer_mut, scatter, total, Buffers};
use crate::pages::{be32, be64, invalid, Pages};
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

/// Of the incompatible features: compressed otherwise than by zlib.
const FEATURE: u64 = 8;
/// Where the header has the lowest byte of those, and how it is compressed.
const FEATURES: u64 = 79;
const TYPE: u64 = 104;
const ZSTD: u8 = 1;

/// Where the clusters of an image are.
pub(super) struct Clusters {
    file: Pages,
    bits: u32,
    /// The table of tables, and how many entries it has.
    top: u64,
    entries: u64,
    /// The last one that was unpacked: what reads on wants more of it.
    last: Mutex<Option<(u64, Vec<u8>)>>,
}

impl Clusters {
    /// None: its clusters are compressed by zlib, if any are.
    pub fn of(file: &Arc<dyn Backend>) -> io::Result<Option<Self>> {
        let file = Pages::new(file.clone());
        let head = file.get::<112>(0, true)?;
        if be32(&head, 4) < 3 || be64(&head, 72) & FEATURE == 0 {
            return Ok(None);
        }
        let bits = be32(&head, 20);
        if head[TYPE as usize] != ZSTD || be32(&head, 100) <= TYPE as u32 {
            return Err(invalid("is compressed in a way that nobody knows"));
        }
        if !(9..=21).contains(&bits) {
            return Err(invalid("has clusters of an impossible size"));
        }
        Ok(Some(Self {
            bits,
            top: be64(&head, 40),
            entries: be32(&head, 36).into(),
            file,
            last: Mutex::default(),
        }))
    }

    /// Fill `to` with what is at `offset` of the disk, in compressed clusters.
    pub fn read(&self, mut to: &mut [u8], mut offset: u64) -> io::Result<()> {
        let cluster = 1u64 << self.bits;
        while !to.is_empty() {
            let within = (offset % cluster) as usize;
            let n = to.len().min(cluster as usize - within);
            let (now, rest) = to.split_at_mut(n);
            self.piece(now, offset - within as u64, within)?;
            (to, offset) = (rest, offset + n as u64);
        }
        Ok(())
    }

    fn piece(&self, to: &mut [u8], cluster: u64, within: usize) -> io::Result<()> {
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        if last.as_ref().is_none_or(|(at, _)| *at != cluster) {
            *last = None;
            *last = Some((cluster, self.unpack(cluster)?));
        }
        let bytes = last.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        to.copy_from_slice(&bytes[within..within + to.len()]);
        Ok(())
    }

    fn unpack(&self, cluster: u64) -> io::Result<Vec<u8>> {
        let damaged = || invalid("a compressed cluster's entry is damaged");
        let entry = |table: u64, index: u64| -> io::Result<u64> {
            let at = table.checked_add(index * 8).ok_or_else(damaged)?;
            Ok(u64::from_be_bytes(self.file.get(at, true)?))
        };
        let number = cluster >> self.bits;
        let tables = self.bits - 3;
        let index = number >> tables;
        if index >= self.entries {
            return Err(damaged());
        }
        let table = entry(self.top, index)? & 0x00ff_ffff_ffff_fe00;
        let found = entry(table, number & ((1 << tables) - 1))?;
        if table == 0 || found >> 62 & 1 == 0 {
            return Err(damaged());
        }
        // The offset, then the sectors that it goes on for behind its own.
        let low = 62 - (self.bits - 8);
        let at = found & ((1 << low) - 1);
        let sectors = (found & ((1 << 62) - 1)) >> low;
        let end = (at / 512 + sectors + 1) * 512;
        let end = end.min(self.file.file.size());
        let len = end.checked_sub(at).ok_or_else(damaged)?;
        let mut packed = vec![0; len as usize];
        self.file.file.read(&[buffer_mut(&mut packed)], at)?;
        let mut bytes = vec![0; 1 << self.bits];
        // What lies behind it in its last sector is others'.
        let mut decoder = zstd::stream::read::Decoder::with_buffer(&packed[..])?.single_frame();
        decoder.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The file with a header that does not tell of zstd; to be read.
pub(super) struct Plain(pub Arc<dyn Backend>);

impl Backend for Plain {
    fn size(&self) -> u64 {
        self.0.size()
    }

    only_read!();

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        if offset > TYPE {
            return self.0.read(to, offset);
        }
        let mut bytes = vec![0; total(to)];
        self.0.read(&[buffer_mut(&mut bytes)], offset)?;
        for (place, mask) in [(FEATURES, !(FEATURE as u8)), (TYPE, 0)] {
            let at = place.checked_sub(offset).map(|at| at as usize);
            if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                *byte &= mask;
            }
        }
        // SAFETY: the caller's memory, see `Buffers`.
        unsafe { scatter(&bytes, to) };
        Ok(())
    }
}
