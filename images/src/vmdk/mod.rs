//! VMDK: VMware's disk image, in one file or in several that a text names.
//!
//! ```text
//! descriptor.rs  the text
//! sparse.rs      a file of grains
//! ```

mod descriptor;
mod sparse;

use crate::backend::Backend;
use crate::blocks::Blocks;
use crate::concat::{Concat, Part};
use crate::neighbours::Neighbours;
use crate::pages::{invalid, read_exactly};
use descriptor::{Descriptor, Kind};
use sparse::Sparse;
use std::io;
use std::sync::Arc;

/// Longest text that is read, in bytes.
const MOST: u64 = 1 << 20;

/// Open a VMDK that is in `file`; `others` opens the files that it names.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    write: bool,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let mark = read_exactly(&*file, 0, 4)?;
    if mark == b"KDMV" {
        let extent = Sparse::open(&*file)?;
        let text = match extent.descriptor {
            Some((at, len)) => read_exactly(&*file, at, len)?,
            None => Vec::new(),
        };
        let parent = Descriptor::parse(&text)?.parent;
        let below = parent.map(|name| others.open_parent(&name, None));
        let below = below.transpose()?;
        return sparse_file(file, write, below);
    }
    let text = read_exactly(&*file, 0, file.size().min(MOST) as usize)?;
    let found = Descriptor::parse(&text)?;
    if found.extents.is_empty() {
        return Err(invalid("names no file that holds its data"));
    }
    let below = found.parent.as_ref();
    let below = below
        .map(|name| others.open_parent(name, None))
        .transpose()?;
    let mut parts = Vec::new();
    let mut start = 0u64;
    for extent in &found.extents {
        let len = extent.sectors.checked_mul(512).filter(|n| *n < 1 << 62);
        let len = len.ok_or_else(|| invalid("has an extent larger than any disk"))?;
        let write = write && extent.writable;
        let from = match extent.kind {
            Kind::Zero => None,
            Kind::Flat => {
                let at = extent.start.checked_mul(512).filter(|n| *n < 1 << 62);
                let at = at.ok_or_else(|| invalid("has an extent behind any file's end"))?;
                Some((others.open_raw(&extent.file, write)?, at))
            }
            Kind::Sparse => {
                let file = others.open_raw(&extent.file, write)?;
                let below = below.clone().map(|b| slice_of(b, start, len)).transpose()?;
                Some((sparse_file(file, write, below)?, 0))
            }
        };
        parts.push(Part { len, from });
        start = start.saturating_add(len);
    }
    Ok(Arc::new(Concat::new(parts, write)?))
}

fn slice_of(whole: Arc<dyn Backend>, start: u64, len: u64) -> io::Result<Arc<dyn Backend>> {
    let part = Part {
        len,
        from: Some((whole, start)),
    };
    Ok(Arc::new(Concat::new(vec![part], false)?))
}

fn sparse_file(
    file: Arc<dyn Backend>,
    write: bool,
    below: Option<Arc<dyn Backend>>,
) -> io::Result<Arc<dyn Backend>> {
    let map = Sparse::open(&*file)?;
    if write && map.is_compressed() {
        return Err(io::Error::new(
            io::ErrorKind::ReadOnlyFilesystem,
            "is a stream-optimised VMDK, which can only be read; put an overlay above it, \
             or convert it with qemu-img convert",
        ));
    }
    Ok(Arc::new(Blocks::new(map, file, below, write)))
}
