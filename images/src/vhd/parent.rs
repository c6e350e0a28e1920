//! How a differencing VHD names its parent.

use crate::backend::Backend;
use crate::pages::{be32, be64, invalid, read_exactly};
use crate::parents::utf16;
use std::io;

/// Where the header has the name of the parent, and its locators, each of which leads
/// to a path.
const NAME: std::ops::Range<usize> = 64..576;
const LOCATORS: std::ops::Range<usize> = 576..768;
/// Longest path that is read, in bytes.
const LONGEST: u32 = 64 << 10;

/// The paths in a dynamic header, that relative to the child first.
pub(super) fn paths(file: &dyn Backend, header: &[u8]) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for wanted in [b"W2ru", b"W2ku"] {
        for locator in header[LOCATORS].chunks_exact(24) {
            if !locator.starts_with(wanted) {
                continue;
            }
            let (len, at) = (be32(locator, 8), be64(locator, 16));
            if len > LONGEST {
                return Err(invalid("names its parent by too long a path"));
            }
            let path = read_exactly(file, at, len as usize)?;
            paths.push(utf16(&path, u16::from_le_bytes));
        }
    }
    paths.push(utf16(&header[NAME], u16::from_be_bytes));
    Ok(paths)
}
