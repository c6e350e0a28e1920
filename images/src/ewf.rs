//! EWF: what EnCase, FTK Imager and ewfacquire keep evidence in, E01 and S01, in one
//! file or in segments. After libewf's "Expert Witness Compression Format"; that of
//! EnCase 7 (Ex01) is another. Every chunk is checked against its checksum when it is
//! read. Only read, as it is meant to be.

use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::concat::{Concat, Part};
use crate::kept::Kept;
use crate::neighbours::Neighbours;
use crate::pages::{invalid, le32, le64, read_exactly, unsupported, Pages};
use std::io::{self, Read};
use std::sync::Arc;

pub(crate) const MARK: &[u8] = b"EVF\x09\x0d\x0a\xff\0";
const COMPRESSED: u32 = 1 << 31;
/// Of what describes a section, in front of it.
const DESCRIPTION: u64 = 76;
/// In front of a table's entries.
const TABLE_HEAD: u64 = 24;
/// Unpacked bytes that are kept.
const KEPT: usize = 16 << 20;
/// The longest chunk, in bytes: a read of one byte unpacks all of it.
const LONGEST: u64 = 32 << 20;
/// Most sections that are looked at.
const MOST: usize = 1 << 20;

/// Open the EWF whose first segment is `file`; `others` opens those that follow.
pub(crate) fn open(file: Arc<dyn Backend>, others: &Neighbours) -> io::Result<Arc<dyn Backend>> {
    let mut set = Set::default();
    let (mut parts, mut segment) = (Vec::new(), file);
    for number in 1.. {
        let len = segment.size();
        let is_last = set.add(&*segment, number)?;
        let from = Some((segment, 0));
        parts.push(Part { len, from });
        if is_last {
            break;
        }
        let names = others.names();
        let name = names.iter().find_map(|name| name_of(name, number + 1));
        let name = name.ok_or_else(|| {
            invalid("is one of several segments, and its name does not tell those of the others")
        })?;
        segment = others.open_raw(&name, false).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => invalid(format!("its segment {name} is missing")),
            _ => e,
        })?;
    }
    let map = set.finish()?;
    let all = Arc::new(Concat::new(parts, false)?);
    Ok(Arc::new(Blocks::new(map, all, None, false)))
}

/// The name of a segment by that of the first: .E01 to .E99, .EAA to .EZZ, .FAA …
fn name_of(first: &str, number: u16) -> Option<String> {
    let (stem, end) = first.rsplit_once('.')?;
    let letter = end.strip_suffix("01")?.bytes().next()?;
    if end.len() != 3 || !letter.is_ascii_alphabetic() {
        return None;
    }
    if number < 100 {
        return Some(format!("{stem}.{}{number:02}", char::from(letter)));
    }
    let (a, z) = match letter.is_ascii_lowercase() {
        true => (b'a', b'z'),
        false => (b'A', b'Z'),
    };
    let number = number - 100;
    let high = u8::try_from(number / (26 * 26)).ok()?;
    let [high, middle, low] = [
        letter.checked_add(high).filter(|letter| *letter <= z)?,
        a + (number / 26 % 26) as u8,
        a + (number % 26) as u8,
    ]
    .map(char::from);
    Some(format!("{stem}.{high}{middle}{low}"))
}

/// Says where some chunks are that follow each other. Places are those of all segments
/// one after the other.
struct Table {
    first: u64,
    count: u32,
    entries: u64,
    /// Added to what the entries have.
    base: u64,
    /// Of the segment.
    end: u64,
}

/// What the segments looked at so far have.
#[derive(Default)]
struct Set {
    tables: Vec<Table>,
    /// Of the disk, and of a chunk, in bytes.
    geometry: Option<(u64, u64)>,
    chunks: u64,
    sections: usize,
    /// Of the segments so far, in bytes.
    len: u64,
}

impl Set {
    /// Whether it is the last.
    fn add(&mut self, segment: &dyn Backend, number: u16) -> io::Result<bool> {
        let head = read_exactly(segment, 0, 13)?;
        let found = u16::from_le_bytes([head[9], head[10]]);
        if !head.starts_with(MARK) {
            return Err(invalid(format!("its segment {number} is damaged")));
        }
        if found != number {
            return Err(invalid(match number {
                1 => format!("is segment {found} of an EWF; open the first (.E01)"),
                _ => format!("has segment {found} where segment {number} should be"),
            }));
        }
        let mut at = 13;
        loop {
            let section = read_exactly(segment, at, DESCRIPTION as usize)?;
            let is_whole = adler2::adler32_slice(&section[..72]) == le32(&section, 72);
            self.sections += 1;
            if !is_whole || self.sections > MOST {
                return Err(invalid(format!(
                    "the section at byte {at} of its segment {number} is damaged"
                )));
            }
            let end = section[..16].iter().position(|b| *b == 0).unwrap_or(16);
            let (next, inside) = (le64(&section, 16), at + DESCRIPTION);
            match &section[..end] {
                b"volume" | b"disk" => self.volume(segment, inside)?,
                b"table" => self.table(segment, inside, next)?,
                b"ltree" => {
                    return Err(unsupported("is logical evidence, files without a disk"));
                }
                b"next" | b"done" => {
                    self.len += segment.size();
                    return Ok(&section[..end] == b"done");
                }
                _ => {}
            }
            if next < inside {
                return Err(invalid(format!(
                    "the section at byte {at} of its segment {number} leads back"
                )));
            }
            at = next;
        }
    }

    fn volume(&mut self, segment: &dyn Backend, at: u64) -> io::Result<()> {
        let bytes = read_exactly(segment, at, 24)?;
        let (sectors, sector) = (u64::from(le32(&bytes, 8)), u64::from(le32(&bytes, 12)));
        let chunk = sectors * sector;
        let size = le64(&bytes, 16).checked_mul(sector);
        let size = size.filter(|size| *size < 1 << 62);
        match size {
            Some(size) if (1..=LONGEST).contains(&chunk) => {
                self.geometry.get_or_insert((size, chunk));
                Ok(())
            }
            _ => Err(invalid("claims to be of a disk that cannot be")),
        }
    }

    fn table(&mut self, segment: &dyn Backend, at: u64, end: u64) -> io::Result<()> {
        let head = read_exactly(segment, at, TABLE_HEAD as usize)?;
        let (count, base) = (le32(&head, 0), le64(&head, 8));
        let entries = at + TABLE_HEAD;
        let is_whole = adler2::adler32_slice(&head[..20]) == le32(&head, 20);
        let len = u64::from(count) * 4;
        if !is_whole || entries + len > end.min(segment.size()) || base > segment.size() {
            return Err(invalid(format!("the table at byte {at} is damaged")));
        }
        self.tables.push(Table {
            first: self.chunks,
            count,
            entries: self.len + entries,
            base: self.len + base,
            end: self.len + segment.size(),
        });
        self.chunks += u64::from(count);
        Ok(())
    }

    fn finish(self) -> io::Result<Ewf> {
        let geometry = self.geometry;
        let (size, chunk) = geometry.ok_or_else(|| invalid("does not tell the disk's size"))?;
        let chunks = size.div_ceil(chunk);
        if self.chunks < chunks {
            return Err(invalid(format!(
                "is cut short: {} of {chunks} chunks are there",
                self.chunks
            )));
        }
        Ok(Ewf {
            tables: self.tables,
            size,
            chunk,
            kept: Kept::new(KEPT),
        })
    }
}

struct Ewf {
    tables: Vec<Table>,
    size: u64,
    chunk: u64,
    kept: Kept,
}

impl Ewf {
    fn unpack(&self, pages: &Pages, index: u64, len: usize) -> io::Result<Vec<u8>> {
        let damaged = |why: String| invalid(format!("its chunk {index} is damaged: {why}"));
        let after = self.tables.partition_point(|table| table.first <= index);
        let table = &self.tables[after.saturating_sub(1)];
        let number = index - table.first;
        let entry = |number: u64| pages.get(table.entries + 4 * number, true);
        let entry = |number| Ok::<_, io::Error>(u32::from_le_bytes(entry(number)?));
        let place = |entry: u32| table.base + u64::from(entry & !COMPRESSED);
        let found = entry(number)?;
        let at = place(found);
        if found & COMPRESSED == 0 {
            let mut bytes = read_exactly(&*pages.file, at, len + 4)?;
            let sum = le32(&bytes, len);
            bytes.truncate(len);
            return match adler2::adler32_slice(&bytes) == sum {
                true => Ok(bytes),
                false => Err(damaged("its checksum is wrong".into())),
            };
        }
        // What does not shrink grows by a little.
        let mut end = at + self.chunk + self.chunk / 8 + 1024;
        if number + 1 < u64::from(table.count) {
            let next = place(entry(number + 1)?);
            end = if next > at { end.min(next) } else { end };
        }
        let packed = end.min(table.end).saturating_sub(at);
        let packed = read_exactly(&*pages.file, at, packed as usize)?;
        let mut bytes = vec![0; len];
        let mut stream = flate2::read::ZlibDecoder::new(&packed[..]);
        let done = stream.read_exact(&mut bytes);
        // On to the checksum behind the data.
        let rest = done.and_then(|()| stream.read(&mut [0]));
        rest.map_err(|e| damaged(e.to_string()))?;
        Ok(bytes)
    }
}

impl Map for Ewf {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.chunk
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.chunk, offset % self.chunk);
        let len = self.chunk.min(self.size - index * self.chunk);
        let unpack = || self.unpack(pages, index, len as usize);
        let bytes = self.kept.get(index, len as usize, wait, unpack)?;
        Ok((Source::Unpacked(bytes, within as usize), len - within))
    }

    read_only_map!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_as_encase_names_them() {
        let name = |first: &str, number| name_of(first, number);
        for (number, end) in [
            (2, "E02"),
            (99, "E99"),
            (100, "EAA"),
            (101, "EAB"),
            (126, "EBA"),
            (775, "EZZ"),
            (776, "FAA"),
        ] {
            assert_eq!(name("a.b.E01", number), Some(format!("a.b.{end}")));
        }
        assert_eq!(name("a.s01", 100).as_deref(), Some("a.saa"));
        for wrong in ["E01", "a.001", "a.E02", "a.Ex01"] {
            assert_eq!(name(wrong, 2), None, "{wrong}");
        }
        assert_eq!(name("a.E01", 99 + 26 * 26 * 22 + 1), None);
    }
}
