//! What became of a copy: counts, what could not be kept, what failed.

mod failed;

use super::counts::Counts;
use super::loss::Loss;
use super::observer::Observer;
use super::progress::Progress;
use crate::failure::{remedy, Failure, SOME_FAILED};
use crate::names;
use crate::sys::{Errno, Kind};
use crate::tell;
use failed::Failed;
use serde_json::{json, Map, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

struct Lost {
    loss: Loss,
    path: Vec<u8>,
    detail: Vec<u8>,
    error: Errno,
}

#[derive(Default)]
struct Lists {
    losses: Vec<Lost>,
    counts: [u64; Loss::ALL.len()],
    failed: Failed,
}

pub struct Report {
    progress: Progress,
    verbose: bool,
    quiet: bool,
    lists: Mutex<Lists>,
    files: AtomicU64,
    directories: AtomicU64,
    links: AtomicU64,
    others: AtomicU64,
    bytes: AtomicU64,
    by_host: AtomicU64,
    skipped: AtomicU64,
    /// The last file that came in pieces and was given up, by its number.
    given_up: AtomicU64,
    stopped: AtomicBool,
}

impl Report {
    pub fn new(progress: Progress, verbose: bool, quiet: bool) -> Self {
        Report {
            progress,
            verbose,
            quiet,
            lists: Mutex::default(),
            files: AtomicU64::new(0),
            directories: AtomicU64::new(0),
            links: AtomicU64::new(0),
            others: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            by_host: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, Lists> {
        self.lists
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// So much was copied by somebody who counts it himself.
    pub fn count(&self, counts: &Counts) {
        let each = [
            (&self.files, counts.files),
            (&self.directories, counts.directories),
            (&self.links, counts.links),
            (&self.others, counts.others),
            (&self.bytes, counts.bytes),
            (&self.by_host, counts.by_host),
            (&self.skipped, counts.skipped),
        ];
        for (counter, count) in each {
            counter.fetch_add(count, Relaxed);
        }
    }

    pub fn finish_progress(&self) {
        self.progress
            .finish(self.files.load(Relaxed), self.bytes.load(Relaxed));
    }

    fn tell(&self, path: &[u8]) {
        if self.verbose {
            self.progress.print(&tell::line_of_file("", path));
        }
    }

    /// A program that makes images left something out, and says so.
    pub fn lose_as_told(&self, program: &str, line: &str) {
        let text = format!("{program}: {}", names::plain(line.as_bytes()));
        let error = Errno(libc::EOPNOTSUPP);
        self.lost(Loss::Told, b"/", line.as_bytes(), error, &text);
    }

    fn lost(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno, text: &str) {
        let mut lists = self.lists();
        let count = &mut lists.counts[loss as usize];
        *count += 1;
        if !self.quiet && (self.verbose || *count <= loss.shown()) {
            self.progress.print(&tell::line_of_warning(text));
        }
        lists.losses.push(Lost {
            loss,
            path: path.into(),
            detail: detail.into(),
            error,
        });
    }

    pub fn has_given_up(&self, number: u64) -> bool {
        self.given_up.load(Relaxed) == number
    }

    pub fn has_errors(&self) -> bool {
        !self.lists().failed.is_empty()
    }

    pub fn has_losses(&self) -> bool {
        !self.lists().losses.is_empty()
    }

    /// The errors and warnings that were only counted.
    pub fn summarize(&self) {
        let lists = self.lists();
        for line in lists.failed.summary(self.verbose) {
            tell::failure(&Failure::new(SOME_FAILED, line));
        }
        if self.quiet || self.verbose {
            return;
        }
        for loss in Loss::ALL {
            let count = lists.counts[loss as usize];
            if count > loss.shown() {
                let more = count - loss.shown();
                let what = loss.what();
                tell::warning(&format!("{what}: {more} more not kept (-v shows each)"));
            }
        }
        let owner = |l: &Lost| l.loss == Loss::Owner && l.error == Errno(libc::EPERM);
        if lists.losses.iter().any(owner) {
            tell::note("only root can keep owners; see --owner");
        }
    }

    pub fn json(&self, interrupted: bool) -> Value {
        let lists = self.lists();
        let losses = lists.losses.iter().map(|l| {
            let mut object = Map::new();
            names::put(&mut object, "path", &l.path);
            object.insert("what".into(), l.loss.what().into());
            if !l.detail.is_empty() {
                names::put(&mut object, "detail", &l.detail);
            }
            object.insert("errno".into(), l.error.0.into());
            object.insert("why".into(), l.error.to_string().into());
            Value::from(object)
        });
        json!({
            "files": self.files.load(Relaxed),
            "directories": self.directories.load(Relaxed),
            "hard_links": self.links.load(Relaxed),
            "others": self.others.load(Relaxed),
            "bytes": self.bytes.load(Relaxed),
            "bytes_by_host": self.by_host.load(Relaxed),
            "skipped": self.skipped.load(Relaxed),
            "interrupted": interrupted,
            "losses": losses.collect::<Vec<_>>(),
            "errors": lists.failed.json(),
            "stopped": lists.failed.stopped().map(|why| why.to_string()),
        })
    }
}

impl Observer for Report {
    fn done(&self, kind: Kind, path: &[u8]) {
        let counter = match kind {
            Kind::File => &self.files,
            Kind::Directory => &self.directories,
            _ => &self.others,
        };
        counter.fetch_add(1, Relaxed);
        self.tell(path);
    }

    fn linked(&self, path: &[u8]) {
        self.links.fetch_add(1, Relaxed);
        self.tell(path);
    }

    fn skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn read_by_host(&self, bytes: u64) {
        self.by_host.fetch_add(bytes, Relaxed);
    }

    fn update_progress(&self) {
        self.progress
            .update(self.files.load(Relaxed), self.bytes.load(Relaxed));
    }

    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        let what = loss.what();
        let what = match detail {
            [] => what.into(),
            detail => format!("{what} {}", names::plain(detail)),
        };
        let text = format!("{}: {what} not kept: {error}", names::plain(path));
        self.lost(loss, path, detail, error, &text);
    }

    fn error(&self, path: &[u8], error: Errno) {
        self.failed(path, remedy(path, error), Some(error));
    }

    fn unreadable(&self, path: &[u8], error: Errno) {
        let text = format!("the image cannot be read: {}", remedy(path, error));
        self.failed(path, text, Some(error));
    }

    fn failed(&self, path: &[u8], text: String, error: Option<Errno>) {
        let what = format!("{}: {text}", names::plain(path));
        let failure = Failure::new(SOME_FAILED, what).about(path);
        let line = tell::line_of_failure(&failure.errno(error));
        let shown = self.lists().failed.add(path, text, error);
        if shown || self.verbose {
            self.progress.print(&line);
        }
    }

    fn stop(&self, why: Errno) {
        self.lists().failed.stop(why);
        self.stopped.store(true, Relaxed);
    }

    fn has_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    fn untried(&self, path: &[u8]) {
        self.lists().failed.add_untried(path);
        if self.verbose {
            let failure = Failure::new(SOME_FAILED, format!("{}: not tried", names::plain(path)));
            self.progress
                .print(&tell::line_of_failure(&failure.about(path)));
        }
    }

    fn give_up(&self, number: u64) {
        self.given_up.store(number, Relaxed);
    }
}
