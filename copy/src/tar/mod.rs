//! tar archives, as one end of a copy: POSIX pax, with what GNU tar added.
//!
//! ```text
//! header.rs   blocks of 512 bytes, and numbers in them
//! records.rs  pax records: what does not fit into a block
//! create.rs   operations to an archive
//! extract.rs  an archive to operations
//! parse.rs    its entries, one by one
//! acl.rs      ACLs as text
//! ```
//!
//! Beyond POSIX: extended attributes (ACLs and capabilities are among them) as
//! `SCHILY.xattr.NAME`, ACLs as `SCHILY.acl` too, holes as GNU tar's sparse format 1.0, and chattr flags
//! with the project id as `TANE.flags`, which other programs pass over.

mod acl;
mod create;
mod extract;
pub mod header;
pub mod parse;
mod records;

use super::batch::{Sender, BATCHES};
use super::reader::Reader;
use super::{Destination, Observer, Settings, SparseMode, What};
use crate::patterns::Excludes;
use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::sync::mpsc::{channel, sync_channel};

/// The key of chattr's flags: bits and project id, in hexadecimal and decimal.
const FLAGS: &[u8] = b"TANE.flags";
/// ACLs: the key, and Linux's attribute.
const ACLS: [(&[u8], &CStr); 2] = [
    (b"SCHILY.acl.access", c"system.posix_acl_access"),
    (b"SCHILY.acl.default", c"system.posix_acl_default"),
];
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Writes the sources into an archive. Errors are those of the output; what
/// cannot be read or kept is reported.
pub fn create(what: What, out: &mut (dyn Write + Send), report: &dyn Observer) -> io::Result<()> {
    // The image's kernel was entered by this thread.
    let read = |sender| {
        let Some(sys) = what.sources.first().map(|s| s.dir().sys()) else {
            return;
        };
        let reader = Reader::new(sys, sender, report, SparseMode::Auto, None);
        let reader = reader.with_maps().without(what.excludes);
        reader.with_host_blocks(what.host_blocks).read(what.sources);
    };
    pack(read, out, report)
}

/// Writes what `read` sends, on this thread, into an archive. Errors are those of
/// the output.
pub fn pack(
    read: impl FnOnce(Sender),
    out: &mut (dyn Write + Send),
    report: &dyn Observer,
) -> io::Result<()> {
    let (full, batches) = sync_channel(BATCHES);
    let (back, empty) = channel();
    let result = std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let mut archive = create::Archive::new(out, report);
            for batch in batches {
                archive.perform(&batch)?;
                let _ = back.send(batch);
            }
            archive.end(report.interrupted())
        });
        read(Sender::new(full, empty));
        writing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    report.finish();
    result
}

/// Makes what an archive holds, but for what is left out, in a directory of an image. Errors are those of
/// the archive; what cannot be made or kept is reported.
pub fn extract(
    input: &mut (dyn Read + Send),
    excludes: &Excludes,
    to: Destination,
    settings: Settings,
    report: &dyn Observer,
) -> io::Result<()> {
    let read = move |sender| {
        let mut extract = extract::Extract::new(sender, excludes, report);
        let done = extract.all(input);
        extract.end();
        done
    };
    super::receive(read, to, settings, report)
}
