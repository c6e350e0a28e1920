//! QED: QEMU's enhanced disk, for a while the fast one. After docs/interop/qed_spec
//! of QEMU. Two levels of tables; only read, as QEMU has given it up.

use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::format::Format;
use crate::neighbours::Neighbours;
use crate::pages::{invalid, le32, le64, read_exactly, unsupported, Pages};
use std::io;
use std::sync::Arc;

// What the header has of features.
const BACKED: u64 = 1;
const NEEDS_CHECK: u64 = 2;
const BACKED_BY_RAW: u64 = 4;
/// The longest name of a backing file, in bytes, as QEMU has it.
const LONGEST_NAME: u32 = 1023;

/// Open a QED that is in `file`; `others` opens the file that it names.
pub(crate) fn open(file: Arc<dyn Backend>, others: &Neighbours) -> io::Result<Arc<dyn Backend>> {
    let (map, backing) = Qed::open(&*file)?;
    let below = backing.map(|(name, format)| others.open_parent(&name, format));
    let below = below.transpose()?;
    Ok(Arc::new(Blocks::new(map, file, below, false)))
}

struct Qed {
    size: u64,
    cluster: u64,
    /// In a table of either level.
    entries: u64,
    top: u64,
}

/// What is below: its name, and its format where that is told.
type Backing = (String, Option<Format>);

impl Qed {
    fn open(file: &dyn Backend) -> io::Result<(Self, Option<Backing>)> {
        let header = read_exactly(file, 0, 64)?;
        if !header.starts_with(b"QED\0") {
            return Err(invalid("its header is damaged: it lacks the mark of a QED"));
        }
        let features = le64(&header, 16);
        if features & !(BACKED | NEEDS_CHECK | BACKED_BY_RAW) != 0 {
            return Err(unsupported("has features that nobody knows"));
        }
        if features & NEEDS_CHECK != 0 {
            return Err(unsupported(
                "was not closed cleanly; repair it with qemu-img check -r all",
            ));
        }
        let (cluster, table) = (u64::from(le32(&header, 4)), u64::from(le32(&header, 8)));
        let is_cluster = cluster.is_power_of_two() && (4096..=64 << 20).contains(&cluster);
        if !is_cluster || !table.is_power_of_two() || table > 16 {
            return Err(invalid("has clusters or tables of an impossible size"));
        }
        let entries = cluster * table / 8;
        let (top, size) = (le64(&header, 40), le64(&header, 48));
        if u128::from(size) > u128::from(entries * entries) * u128::from(cluster) {
            return Err(invalid("claims to be larger than its tables"));
        }
        if size >= 1 << 62 || top.saturating_add(entries * 8) > file.size() {
            return Err(invalid("is cut short: its table is missing"));
        }
        let backing = match features & BACKED != 0 {
            true => Some(backing(file, &header, features)?),
            false => None,
        };
        let map = Self {
            size,
            cluster,
            entries,
            top,
        };
        Ok((map, backing))
    }
}

fn backing(file: &dyn Backend, header: &[u8], features: u64) -> io::Result<Backing> {
    let (at, len) = (le32(header, 56), le32(header, 60));
    if len > LONGEST_NAME {
        return Err(invalid("names a backing file by too long a name"));
    }
    let name = String::from_utf8(read_exactly(file, at.into(), len as usize)?);
    let name = name.map_err(|_| invalid("names a backing file that is not UTF-8"))?;
    let raw = features & BACKED_BY_RAW != 0;
    Ok((name, raw.then_some(Format::Raw)))
}

impl Map for Qed {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.cluster
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.cluster, offset % self.cluster);
        let rest = self.cluster - within;
        let entry = |table: u64, index: u64| -> io::Result<u64> {
            let at = table.saturating_add(8 * index);
            Ok(u64::from_le_bytes(pages.get(at, wait)?))
        };
        let place = match entry(self.top, index / self.entries)? {
            0 => Source::Absent,
            table => match entry(table, index % self.entries)? {
                0 => Source::Absent,
                1 => Source::Zero,
                at => Source::At(at.saturating_add(within)),
            },
        };
        Ok((place, rest))
    }

    read_only_map!();
}
