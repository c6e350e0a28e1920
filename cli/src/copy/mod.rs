//! The copy engine: one thread reads, another writes, batches in between.
//!
//! Both sides are Linux, so the engine neither knows nor cares which of them is
//! the image. The caller's thread works on the image, whose kernel it has
//! entered already; the other thread works on the host meanwhile.

mod batch;
mod counts;
mod finish;
pub mod gofer;
mod loss;
mod observer;
mod owner;
mod plan;
mod progress;
mod reader;
mod report;
mod room;
mod scan;
mod sharing;
pub mod stream;
pub mod tar;
mod writer;

use batch::SenderBy;
pub use batch::{Head, Op, Part, Sender, Stopped, DATA};
pub use loss::Loss;
pub use observer::Observer;
pub use owner::Owner;
pub use plan::{plan, plan_file, source, Destination, Place, To};
pub use progress::{Mode as ProgressMode, Progress};
pub use report::Report;
pub use scan::totals;
pub use sharing::Sharing;

use crate::interrupt;
use crate::patterns::Excludes;
use crate::sys::{has_links, Fd};
use reader::Reader;
use std::ffi::CString;
use std::sync::mpsc::{channel, sync_channel};
use writer::Writer;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum SparseMode {
    /// Keep the holes a file has
    #[default]
    Auto,
    /// Also make a hole of every block of zeroes
    Always,
    /// Write holes out as zeroes
    Never,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub owner: Owner,
    pub sparse: SparseMode,
    pub no_clobber: bool,
    /// Make device nodes, too.
    pub devices: bool,
    /// A name may come several times; the last counts.
    pub duplicates: bool,
    /// The destination is a new file system: nothing there is replaced, so nothing
    /// needs a temporary name.
    pub empty: bool,
}

/// Something to copy.
pub enum Source<'a> {
    /// An entry of a directory; its copy is called `to`.
    Entry {
        dir: Fd<'a>,
        name: CString,
        to: CString,
        shown: Vec<u8>,
    },
    /// What is inside a directory, with the directory's own attributes.
    Contents { dir: Fd<'a>, shown: Vec<u8> },
}

/// Copies the sources, all of one kernel, into a directory, but for what is left out.
/// `write_here`: the destination is the image, so the caller's thread writes.
pub fn copy<'a: 's, 's>(
    sources: Vec<Source<'a>>,
    excludes: &Excludes,
    to: To<'s, '_>,
    settings: Settings,
    report: &Report,
    write_here: bool,
) {
    match to {
        To::Here(to) => by_threads(sources, excludes, to, settings, report, write_here),
        To::Gofer(to) => {
            let without_links = !to.has_links;
            let sender = SenderBy::carrier(to.carrier(report));
            read(
                sources,
                sender,
                excludes,
                None,
                without_links,
                settings,
                report,
            );
        }
    }
    report.finish_progress();
    report.summarize();
}

/// Reads all of the sources.
fn read<'a>(
    sources: Vec<Source<'a>>,
    sender: SenderBy,
    excludes: &Excludes,
    avoid: Option<(u64, u64)>,
    without_links: bool,
    settings: Settings,
    report: &Report,
) {
    let Some(sys) = sources.first().map(|s| s.dir().sys()) else {
        return;
    };
    let reader = Reader::new(sys, sender, report, settings.sparse, avoid);
    let reader = reader.without_links(without_links).without(excludes);
    reader.read(sources);
}

fn by_threads<'a: 's, 's>(
    sources: Vec<Source<'a>>,
    excludes: &Excludes,
    to: Destination<'s>,
    settings: Settings,
    report: &Report,
    write_here: bool,
) {
    let (full, batches) = sync_channel(batch::BATCHES);
    let (back, empty) = channel();
    let avoid = to.avoid;
    let without_links = !has_links(&to.dir);

    let read = move || {
        let sender = Sender::new(full, empty);
        read(
            sources,
            sender,
            excludes,
            avoid,
            without_links,
            settings,
            report,
        );
    };
    let write = move || {
        let mut writer = Writer::new(to.dir, &to.shown, report, settings);
        for batch in batches {
            writer.perform(&batch, interrupt::requested);
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
            scope.spawn(read);
            write();
        } else {
            scope.spawn(write);
            read();
        }
    });
}

/// Writes what `read` sends, which runs on another thread meanwhile. The caller's
/// thread works in the image's kernel.
pub fn receive<T: Send>(
    read: impl FnOnce(Sender) -> T + Send,
    to: Destination,
    settings: Settings,
    report: &Report,
) -> T {
    let (full, batches) = sync_channel(batch::BATCHES);
    let (back, empty) = channel();
    let result = std::thread::scope(|scope| {
        let reading = scope.spawn(move || read(Sender::new(full, empty)));
        let mut writer = Writer::new(to.dir, &to.shown, report, settings);
        for batch in batches {
            writer.perform(&batch, interrupt::requested);
            if writer.fatal {
                break;
            }
            let _ = back.send(batch);
        }
        // The other thread may be waiting for one.
        drop(back);
        writer.end();
        reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    report.finish_progress();
    report.summarize();
    result
}

impl<'a> Source<'a> {
    fn dir(&self) -> &Fd<'a> {
        match self {
            Source::Entry { dir, .. } | Source::Contents { dir, .. } => dir,
        }
    }
}
