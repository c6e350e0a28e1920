//! The copy engine: one thread reads, another writes, batches in between.
//!
//! Both sides are Linux, so the engine neither knows nor cares which of them is
//! the image. The caller's thread works on the image, whose kernel it has
//! entered already; the other thread works on the host meanwhile. It knows no
//! command line and no terminal, and keeps nothing of one copy for the next:
//! whoever wants to know what becomes of a copy, and says when it is to stop, is its
//! [`Observer`]; [`Tally`] is one that remembers.
//!
//! ```text
//! reader   a tree to operations          batch    operations, and their data
//!   scan, sharing, patterns                room   where the data is
//! writer   operations to a tree          observer, loss, counts, tally
//!   finish   owners, modes, times        gofer    the end on the host in a process of its own
//! tar, stream   other ends               site, source   what paths mean
//! tree     one file or tree, from a path to a path
//! names    file names in messages
//! ```
//!
//! Imports of ours: `tane`, `tane-linux`.

mod batch;
mod counts;
mod finish;
pub mod gofer;
mod loss;
pub mod names;
mod observer;
mod owner;
pub mod patterns;
mod reader;
mod room;
mod scan;
mod sharing;
mod site;
mod source;
pub mod stream;
mod tally;
pub mod tar;
mod tree;
mod writer;

pub use batch::{Head, Op, Part, Sender, SenderBy, Stopped, DATA};
pub use counts::Counts;
pub use loss::Loss;
pub use observer::Observer;
pub use owner::Owner;
pub use scan::totals;
pub use sharing::Sharing;
pub use site::{resolve, Site};
pub use source::{is_directory, source};
pub use tally::{Failure, Lost, Tally};
pub use tree::{tree, End};

use patterns::Excludes;
use reader::Reader;
use std::ffi::CString;
use std::sync::mpsc::{channel, sync_channel};
use tane_linux::{has_links, Fd};
use writer::Writer;

/// Directories inside one another: a process has so many descriptors, and less room on its
/// stack. Linux takes paths of 2,048 at most, other trees are made step by step.
const DEEPEST: usize = 4096;

/// What becomes of holes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SparseMode {
    /// Keep the holes a file has
    #[default]
    Auto,
    /// Also make a hole of every block of zeroes
    Always,
    /// Write holes out as zeroes
    Never,
}

/// The directory that copies go into.
pub struct Destination<'a> {
    /// It itself.
    pub dir: Fd<'a>,
    /// The directory as the user knows it.
    pub shown: Vec<u8>,
    /// Its identity, if the sources are files of the same kernel.
    pub avoid: Option<(u64, u64)>,
}

/// Who writes.
pub enum To<'b, 'g> {
    /// This process.
    Here(Destination<'b>),
    /// Another one.
    Gofer(gofer::Opened<'g>),
}

/// How to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whose the copies are.
    pub owner: Owner,
    /// What becomes of blocks of zeroes.
    pub sparse: SparseMode,
    /// What is there stays.
    pub no_clobber: bool,
    /// Make device nodes, too.
    pub devices: bool,
    /// A name may come several times; the last counts.
    pub duplicates: bool,
    /// The destination is a new file system: nothing there is replaced, so nothing
    /// needs a temporary name.
    pub empty: bool,
    /// This process has no umask where it writes, so that what is made has the mode that
    /// was asked for. A kernel of ours gives us none.
    pub no_umask: bool,
}

/// Something to copy.
pub enum Source<'a> {
    /// An entry of a directory; its copy is called `to`.
    Entry {
        /// Where the entry is.
        dir: Fd<'a>,
        /// Its name there.
        name: CString,
        /// The copy's name.
        to: CString,
        /// What messages call it.
        shown: Vec<u8>,
    },
    /// What is inside a directory, with the directory's own attributes.
    Contents {
        /// The directory.
        dir: Fd<'a>,
        /// What messages call it.
        shown: Vec<u8>,
    },
}

/// What is copied.
pub struct What<'a, 'e> {
    /// All of one kernel.
    pub sources: Vec<Source<'a>>,
    /// What is left out of them.
    pub excludes: &'e Excludes,
    /// Where the host has the bytes of files of a device of that kernel.
    pub host_blocks: Option<&'a tane::HostBlocks>,
}

/// Copies the sources into a directory. `write_here`: the destination is the image, so
/// the caller's thread writes.
pub fn copy<'a: 's, 's>(
    what: What<'a, '_>,
    to: To<'s, '_>,
    settings: Settings,
    report: &dyn Observer,
    write_here: bool,
) {
    match to {
        To::Here(to) => by_threads(what, to, settings, report, write_here),
        To::Gofer(to) => {
            let without_links = !to.has_links;
            let sender = SenderBy::carrier(to.carrier(report));
            read(what, sender, None, without_links, settings.sparse, report);
        }
    }
    report.finish();
}

/// Copies what another process reads on the host into a directory of an image, whose kernel
/// the caller's thread works in.
pub fn copy_lent(
    from: gofer::lender::Chosen,
    to: Destination,
    settings: Settings,
    report: &dyn Observer,
) {
    from.write(to, settings, report);
    report.finish();
}

/// Reads all of the sources.
fn read<'a>(
    what: What<'a, '_>,
    sender: SenderBy,
    avoid: Option<(u64, u64)>,
    without_links: bool,
    sparse: SparseMode,
    report: &dyn Observer,
) {
    let Some(sys) = what.sources.first().map(|s| s.dir().sys()) else {
        return;
    };
    let reader = Reader::new(sys, sender, report, sparse, avoid);
    let reader = reader.without_links(without_links).without(what.excludes);
    reader.with_host_blocks(what.host_blocks).read(what.sources);
}

fn by_threads<'a: 's, 's>(
    what: What<'a, '_>,
    to: Destination<'s>,
    settings: Settings,
    report: &dyn Observer,
    write_here: bool,
) {
    let (full, batches) = sync_channel(batch::BATCHES);
    let (back, empty) = channel();
    let avoid = to.avoid;
    let without_links = !has_links(&to.dir);

    let sparse = settings.sparse;
    let read = move |sender| read(what, sender, avoid, without_links, sparse, report);
    let write = move |look: &dyn Fn()| {
        let mut writer = Writer::new(to.dir, &to.shown, report, settings);
        while let Some(batch) = batch::next(&batches, look) {
            writer.perform(&batch, || report.interrupted());
            if writer.fatal {
                break;
            }
            // The reader may have finished and no longer want it.
            let _ = back.send(batch);
        }
        writer.end();
    };
    std::thread::scope(|scope| {
        if write_here {
            scope.spawn(move || read(Sender::new(full, empty)));
            write(&|| report.update_progress());
        } else {
            let (writing, written) = channel::<()>();
            scope.spawn(move || {
                let _until_the_end = writing;
                write(&|| {});
            });
            read(SenderBy::of_caller(full, empty, report));
            // Much may be on its way: of what the host copies batches are large.
            batch::next(&written, || report.update_progress());
        }
    });
}

/// Writes what `read` sends, which runs on another thread meanwhile. The caller's
/// thread works in the image's kernel.
pub fn receive<T: Send>(
    read: impl FnOnce(Sender) -> T + Send,
    to: Destination,
    settings: Settings,
    report: &dyn Observer,
) -> T {
    let (full, batches) = sync_channel(batch::BATCHES);
    let (back, empty) = channel();
    let result = std::thread::scope(|scope| {
        let reading = scope.spawn(move || read(Sender::new(full, empty)));
        let mut writer = Writer::new(to.dir, &to.shown, report, settings);
        while let Some(batch) = batch::next(&batches, || report.update_progress()) {
            writer.perform(&batch, || report.interrupted());
            if writer.fatal {
                break;
            }
            let _ = back.send(batch);
        }
        drop(batches);
        // The other thread may be waiting for one.
        drop(back);
        writer.end();
        reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    report.finish();
    result
}

impl<'a> Source<'a> {
    fn dir(&self) -> &Fd<'a> {
        match self {
            Source::Entry { dir, .. } | Source::Contents { dir, .. } => dir,
        }
    }
}
