//! A sparse extent: a directory of tables of grains. Of VMware's "Virtual Disk
//! Format 5.0", with the compressed grains of OVA packages, which are read only.

use crate::backend::Backend;
use crate::blocks::{Map, Source};
use crate::kept::Kept;
use crate::pages::{invalid, le32, le64, read_exactly, unsupported, Pages};
use std::io::{self, Read};

const SECTOR: u64 = 512;
const COMPRESSED: u32 = 1 << 16;
/// The directory's place stands in the footer.
const AT_END: u64 = u64::MAX;
/// Unpacked bytes that are kept.
const KEPT: usize = 4 << 20;

pub(super) struct Sparse {
    size: u64,
    /// Of a grain, in bytes.
    grain: u64,
    entries: u64,
    directory: u64,
    /// The second copy of the directory, if the image keeps one.
    second: Option<u64>,
    zeroed: bool,
    compressed: bool,
    /// Where the text is, and how long, in bytes.
    pub descriptor: Option<(u64, usize)>,
    unpacked: Kept,
}

impl Sparse {
    pub fn open(file: &dyn Backend) -> io::Result<Self> {
        let mut header = read_exactly(file, 0, 512)?;
        let descriptor = (le64(&header, 28), le64(&header, 36));
        if le64(&header, 56) == AT_END {
            // A footer's header is in the last sector but one.
            header = read_exactly(file, file.size().saturating_sub(2 * SECTOR), 512)?;
            if !header.starts_with(b"KDMV") {
                return Err(invalid("is cut short: its footer is missing"));
            }
        }
        let version = le32(&header, 4);
        if !(1..=3).contains(&version) {
            return Err(unsupported(format!("has the unknown version {version}")));
        }
        let flags = le32(&header, 8);
        let sectors = |at: usize| {
            le64(&header, at)
                .checked_mul(SECTOR)
                .filter(|n| *n < 1 << 62)
        };
        let wrong = || invalid("its header makes no sense");
        let size = sectors(12).ok_or_else(wrong)?;
        let grain = sectors(20).ok_or_else(wrong)?;
        let entries = u64::from(le32(&header, 44));
        if !grain.is_power_of_two() || !(4096..=64 << 20).contains(&grain) {
            return Err(invalid(format!("has grains of {grain} bytes")));
        }
        if entries == 0 || entries > 1 << 16 {
            return Err(invalid(format!("has tables of {entries} entries")));
        }
        let compressed = flags & COMPRESSED != 0;
        if compressed && u16::from_le_bytes([header[77], header[78]]) != 1 {
            return Err(unsupported("has grains compressed in an unknown way"));
        }
        let directory = sectors(56).ok_or_else(wrong)?;
        let tables = size.div_ceil(grain * entries);
        if directory + tables * 4 > file.size() {
            return Err(invalid("is cut short: its directory is missing"));
        }
        let text = (descriptor.0.checked_mul(SECTOR), descriptor.1);
        let descriptor = match text {
            (Some(1..), 1..) => Some((text.0.unwrap_or(0), (text.1.min(2048) * SECTOR) as usize)),
            _ => None,
        };
        Ok(Self {
            size,
            grain,
            entries,
            directory,
            second: (flags & 2 != 0).then(|| sectors(48)).flatten(),
            zeroed: flags & 4 != 0,
            compressed,
            descriptor,
            unpacked: Kept::new(KEPT),
        })
    }

    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// The place of a grain's entry, by one of the two directories.
    fn entry_place(
        &self,
        pages: &Pages,
        directory: u64,
        index: u64,
        wait: bool,
    ) -> io::Result<Option<u64>> {
        let table = pages.get::<4>(directory + index / self.entries * 4, wait)?;
        let table = u64::from(u32::from_le_bytes(table)) * SECTOR;
        Ok((table != 0).then(|| table + index % self.entries * 4))
    }

    /// A compressed grain: its sector, its length, and a zlib stream.
    fn unpack(&self, pages: &Pages, at: u64) -> io::Result<Vec<u8>> {
        let head = read_exactly(&*pages.file, at, 12)?;
        let len = le32(&head, 8) as usize;
        // What does not shrink grows by a little.
        if len as u64 > self.grain + self.grain / 8 + 1024 {
            return Err(invalid("a compressed grain is too long"));
        }
        let packed = read_exactly(&*pages.file, at + 12, len)?;
        let mut bytes = Vec::with_capacity(self.grain as usize);
        let stream = flate2::read::ZlibDecoder::new(&packed[..]);
        stream.take(self.grain).read_to_end(&mut bytes)?;
        // The last grain of a disk may be short.
        bytes.resize(self.grain as usize, 0);
        Ok(bytes)
    }
}

impl Map for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.grain
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.grain, offset % self.grain);
        let rest = self.grain - within;
        let Some(at) = self.entry_place(pages, self.directory, index, wait)? else {
            return Ok((Source::Absent, rest));
        };
        let entry = u32::from_le_bytes(pages.get::<4>(at, wait)?);
        let at = u64::from(entry) * SECTOR;
        let place = match entry {
            0 => Source::Absent,
            1 if self.zeroed => Source::Zero,
            _ if self.compressed => {
                let len = self.grain as usize;
                let bytes = self
                    .unpacked
                    .get(at, len, wait, || self.unpack(pages, at))?;
                Source::Unpacked(bytes, within as usize)
            }
            _ => Source::At(at + within),
        };
        Ok((place, rest))
    }

    fn room(&self, end: u64) -> (u64, u64) {
        let at = end.next_multiple_of(self.grain);
        (at, at + self.grain)
    }

    fn check(&self, pages: &Pages, index: u64) -> io::Result<()> {
        match self.entry_place(pages, self.directory, index, true)? {
            Some(_) => Ok(()),
            None => Err(unsupported(
                "the image has no table for this part; convert it with qemu-img convert",
            )),
        }
    }

    fn record(&self, pages: &Pages, index: u64, at: u64) -> io::Result<()> {
        let entry = u32::try_from(at / SECTOR).map_err(|_| io::ErrorKind::FileTooLarge)?;
        for directory in [self.second, Some(self.directory)].into_iter().flatten() {
            if let Some(place) = self.entry_place(pages, directory, index, true)? {
                pages.put(place, &entry.to_le_bytes())?;
            }
        }
        Ok(())
    }
}
