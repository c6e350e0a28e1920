//! How a differencing VHDX names its parent: a list of keys and values.

use super::header::{Header, Region};
use super::{guid, item, LONGEST};
use crate::backend::Backend;
use crate::format::Format;
use crate::neighbours::Neighbours;
use crate::pages::{invalid, le32};
use crate::parents::{self, guid_text, utf16};
use std::io;
use std::sync::Arc;

const LOCATOR: [u8; 16] = guid(0xa8d35f2d, 0xb30b, 0x454d, 0xabf7d3d84834ab0c);
/// The only kind of list there is.
const KIND: [u8; 16] = guid(0xb04aefb7, 0xd19e, 0x4a81, 0xb78925b8e9445913);

pub(super) fn open(
    file: &dyn Backend,
    metadata: Region,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let pairs = pairs(&item(file, metadata, &LOCATOR, LONGEST)?)?;
    let value = |wanted: &str| {
        let found = pairs.iter().find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.clone())
    };
    let paths = ["relative_path", "absolute_win32_path", "volume_path"];
    let paths: Vec<String> = paths.iter().filter_map(|key| value(key)).collect();
    let identities = ["parent_linkage", "parent_linkage2"];
    let identities: Vec<String> = identities.iter().filter_map(|key| value(key)).collect();
    let known = |parent: &dyn Backend| {
        let header = Header::read(parent)?;
        let is = guid_text(header.data_write());
        let mut known = identities.iter().map(|id| id.trim_matches(['{', '}']));
        Ok(known.any(|id| id.eq_ignore_ascii_case(&is)))
    };
    parents::open(others, &paths, Format::Vhdx, &known)
}

/// More pairs than any list has; each may be of 200 KiB, whatever the list's own size.
const MOST: u16 = 64;

fn pairs(locator: &[u8]) -> io::Result<Vec<(String, String)>> {
    let damaged = || invalid("does not tell its parent: that metadata is damaged");
    let head = locator.get(..20).filter(|head| head.starts_with(&KIND));
    let head = head.ok_or_else(damaged)?;
    let count = u16::from_le_bytes([head[18], head[19]]);
    if count > MOST {
        return Err(damaged());
    }
    let text = |entry: &[u8], at: usize, len: usize| {
        let start = le32(entry, at) as usize;
        let len = usize::from(u16::from_le_bytes([entry[len], entry[len + 1]]));
        let bytes = locator.get(start..start.checked_add(len)?)?;
        Some(utf16(bytes, u16::from_le_bytes))
    };
    let entries = locator[20..].chunks_exact(12).take(count.into());
    let pairs = entries.map(|entry| Some((text(entry, 0, 8)?, text(entry, 4, 10)?)));
    pairs.collect::<Option<_>>().ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many entries, all of them the same long text.
    fn locator(count: u16) -> Vec<u8> {
        let mut bytes = KIND.to_vec();
        bytes.resize(18, 0);
        bytes.extend(count.to_le_bytes());
        for _ in 0..count {
            bytes.extend(20u32.to_le_bytes());
            bytes.extend(20u32.to_le_bytes());
            bytes.extend([12, 0, 12, 0]);
        }
        bytes
    }

    #[test]
    fn a_list_of_more_than_there_can_be_is_not_read() {
        assert_eq!(pairs(&locator(5)).unwrap().len(), 5);
        assert!(pairs(&locator(MOST + 1)).is_err());
    }
}
