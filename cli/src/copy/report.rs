//! What became of a copy: counts, what could not be kept, what failed.

mod failed;

use super::progress::Progress;
use crate::failure::{remedy, Failure, SOME_FAILED};
use crate::interrupt;
use crate::names;
use crate::session::guard;
use crate::tell;
use failed::Failed;
use serde_json::{json, Map, Value};
use std::num::NonZeroU64;
use std::sync::Mutex;
use tane_copy::{Counts, Loss, Lost, Observer, Tally};
use tane_linux::{Errno, Kind};

#[derive(Default)]
struct Lists {
    counts: [u64; Loss::ALL.len()],
    failed: Failed,
}

pub struct Report {
    progress: Progress,
    verbose: bool,
    quiet: bool,
    lists: Mutex<Lists>,
    tally: Tally<'static>,
}

impl Report {
    pub fn new(progress: Progress, verbose: bool, quiet: bool) -> Self {
        Report {
            progress,
            verbose,
            quiet,
            lists: Mutex::default(),
            tally: Tally::default(),
        }
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, Lists> {
        self.lists
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn finish_progress(&self) {
        let counts = self.tally.counts();
        self.progress.finish(counts.files, counts.bytes);
    }

    fn tell(&self, path: &[u8]) {
        if self.verbose {
            self.progress.print(&tell::line_of_file("", path));
        }
    }

    fn lost(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno, text: &str) {
        let mut lists = self.lists();
        let count = &mut lists.counts[loss as usize];
        *count += 1;
        if !self.quiet && (self.verbose || *count <= loss.shown()) {
            self.progress.print(&tell::line_of_warning(text));
        }
        drop(lists);
        self.tally.lose(loss, path, detail, error);
    }

    pub fn has_errors(&self) -> bool {
        !self.lists().failed.is_empty()
    }

    pub fn has_losses(&self) -> bool {
        self.tally.has_losses()
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
        if self.tally.losses().iter().any(owner) {
            tell::note("only root can keep owners; see --owner");
        }
    }

    pub fn json(&self, interrupted: bool) -> Value {
        let lists = self.lists();
        let (counts, losses) = (self.tally.counts(), self.tally.losses());
        let losses = losses.iter().map(|l| {
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
            "files": counts.files,
            "directories": counts.directories,
            "hard_links": counts.links,
            "others": counts.others,
            "bytes": counts.bytes,
            "bytes_by_host": counts.by_host,
            "skipped": counts.skipped,
            "interrupted": interrupted,
            "losses": losses.collect::<Vec<_>>(),
            "errors": lists.failed.json(),
            "stopped": lists.failed.stopped().map(|why| why.to_string()),
        })
    }
}

impl Observer for Report {
    fn done(&self, kind: Kind, path: &[u8]) {
        self.tally.done(kind, path);
        self.tell(path);
    }

    fn linked(&self, path: &[u8]) {
        self.tally.linked(path);
        self.tell(path);
    }

    fn skip(&self) {
        self.tally.skip();
    }

    fn wrote(&self, bytes: u64) {
        self.tally.wrote(bytes);
    }

    fn read_by_host(&self, bytes: u64) {
        self.tally.read_by_host(bytes);
    }

    fn count(&self, counts: &Counts) {
        self.tally.count(counts);
    }

    fn told(&self, program: &str, line: &str) {
        let text = format!("{program}: {}", names::plain(line.as_bytes()));
        let error = Errno(libc::EOPNOTSUPP);
        self.lost(Loss::Told, b"/", line.as_bytes(), error, &text);
    }

    fn update_progress(&self) {
        let counts = self.tally.counts();
        self.progress.update(counts.files, counts.bytes);
    }

    fn finish(&self) {
        self.tally.finish();
        self.finish_progress();
        self.summarize();
    }

    fn interrupted(&self) -> bool {
        interrupt::requested()
    }

    fn refusal(&self, below: &[u8]) -> Option<String> {
        guard::refusal(below)
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
        self.tally.stop(why);
    }

    fn has_stopped(&self) -> bool {
        self.tally.has_stopped()
    }

    fn untried(&self, path: &[u8]) {
        self.lists().failed.add_untried(path);
        if self.verbose {
            let failure = Failure::new(SOME_FAILED, format!("{}: not tried", names::plain(path)));
            self.progress
                .print(&tell::line_of_failure(&failure.about(path)));
        }
    }

    fn give_up(&self, number: NonZeroU64) {
        self.tally.give_up(number);
    }

    fn has_given_up(&self, number: NonZeroU64) -> bool {
        self.tally.has_given_up(number)
    }
}
