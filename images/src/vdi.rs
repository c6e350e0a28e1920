//! VDI: the disk image of VirtualBox, dynamic or of a fixed size. After its
//! description in VirtualBox's own VDICore.h. Only read: the header counts the
//! blocks in use, and a block and its count cannot become durable at once.

use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::pages::{invalid, le32, le64, read_exactly, unsupported, Pages};
use crate::parents::guid_text;
use std::io;
use std::sync::Arc;

/// Where the mark is, behind a text.
pub(crate) const MARK: (usize, &[u8]) = (64, b"\x7f\x10\xda\xbe");
const UNUSED: u32 = u32::MAX;
const DISCARDED: u32 = u32::MAX - 1;

/// Open a VDI that is in `file`.
pub(crate) fn open(file: Arc<dyn Backend>) -> io::Result<Arc<dyn Backend>> {
    let map = Vdi::open(&*file)?;
    Ok(Arc::new(Blocks::new(map, file, None, false)))
}

struct Vdi {
    size: u64,
    block: u64,
    /// Of what each block has in front of its data, in bytes.
    extra: u64,
    table: u64,
    data: u64,
}

impl Vdi {
    fn open(file: &dyn Backend) -> io::Result<Self> {
        let header = read_exactly(file, 0, 512)?;
        if !header[MARK.0..].starts_with(MARK.1) {
            return Err(invalid("its header is damaged: it lacks the mark of a VDI"));
        }
        let version = le32(&header, 0x44);
        if version >> 16 != 1 {
            let (major, minor) = (version >> 16, version & 0xffff);
            return Err(unsupported(format!("has the version {major}.{minor}")));
        }
        match le32(&header, 0x4c) {
            1 | 2 => {}
            3 | 4 => {
                return Err(unsupported(format!(
                    "is a differencing VDI, above the image whose UUID is {}: \
                     merge them first (VBoxManage clonemedium)",
                    guid_text(&header[0x1a8..0x1b8])
                )))
            }
            other => return Err(invalid(format!("has the unknown type {other}"))),
        }
        let word = |at: usize| u64::from(le32(&header, at));
        let (table, data, entries) = (word(0x154), word(0x158), word(0x180));
        let (size, block, extra) = (le64(&header, 0x170), word(0x178), word(0x17c));
        if !block.is_power_of_two() || !(512..=1 << 30).contains(&block) {
            return Err(invalid(format!("has blocks of {block} bytes")));
        }
        if size.div_ceil(block) > entries {
            return Err(invalid("has a table too short for its size"));
        }
        if table + 4 * entries > file.size() {
            return Err(invalid("is cut short: its table is missing"));
        }
        Ok(Self {
            size,
            block,
            extra,
            table,
            data,
        })
    }
}

impl Map for Vdi {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.block
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.block, offset % self.block);
        let entry = u32::from_le_bytes(pages.get::<4>(self.table + 4 * index, wait)?);
        let place = match entry {
            UNUSED => Source::Absent,
            DISCARDED => Source::Zero,
            entry => {
                let start = u64::from(entry).saturating_mul(self.block + self.extra);
                Source::At(start.saturating_add(self.data + self.extra + within))
            }
        };
        Ok((place, self.block - within))
    }

    read_only_map!();
}
