//! What became of a copy, for whoever asks when it is over: counts, what could not be
//! kept, what was not copied.

use crate::counts::Counts;
use crate::loss::Loss;
use crate::observer::Observer;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use tane_linux::{Errno, Kind};

/// Something about a file that its copy does not have.
#[derive(Clone, Debug)]
pub struct Lost {
    /// What it is.
    pub loss: Loss,
    /// Of the source or of its copy, whoever noticed.
    pub path: Vec<u8>,
    /// Which one, where a file can have several: the name of an attribute, letters.
    pub detail: Vec<u8>,
    /// Why.
    pub error: Errno,
}

impl Lost {
    /// "owner", "extended attribute user.a".
    pub fn what(&self) -> String {
        match &self.detail[..] {
            [] => self.loss.what().into(),
            detail => format!("{} {}", self.loss.what(), String::from_utf8_lossy(detail)),
        }
    }
}

/// Something that was not copied.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of the source or of its copy, whoever noticed.
    pub path: Vec<u8>,
    /// In words.
    pub why: String,
    /// None: it is none of Linux's.
    pub error: Option<Errno>,
    /// It came after the destination was full, or failed.
    pub untried: bool,
}

/// Keeps all that an [`Observer`] is told. `tell` is asked again and again whether to go
/// on, with the files and bytes that are done: false stops the copy after the file at
/// hand, and for good.
pub struct Tally<'t> {
    counters: [AtomicU64; Counts::FIELDS],
    /// The last file that came in pieces and was given up in this copy, by its number;
    /// 0: none was.
    given_up: AtomicU64,
    stopped: AtomicBool,
    cancelled: AtomicBool,
    /// Strict, and something was lost.
    lacks: AtomicBool,
    lists: Mutex<Lists>,
    tell: Option<Mutex<Tell<'t>>>,
    strict: bool,
}

type Tell<'t> = Box<dyn FnMut(u64, u64) -> bool + Send + 't>;

#[derive(Default)]
struct Lists {
    losses: Vec<Lost>,
    failures: Vec<Failure>,
    stop: Option<Errno>,
}

const FILES: usize = 0;
const DIRECTORIES: usize = 1;
const LINKS: usize = 2;
const OTHERS: usize = 3;
const BYTES: usize = 4;
const BY_HOST: usize = 5;
const SKIPPED: usize = 6;

impl Default for Tally<'_> {
    fn default() -> Self {
        Tally {
            counters: Default::default(),
            given_up: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            lacks: AtomicBool::new(false),
            lists: Mutex::default(),
            tell: None,
            strict: false,
        }
    }
}

impl<'t> Tally<'t> {
    /// With somebody who is told how far it is. Another thread than the caller's may
    /// tell.
    pub fn telling(tell: impl FnMut(u64, u64) -> bool + Send + 't) -> Self {
        Tally {
            tell: Some(Mutex::new(Box::new(tell))),
            ..Tally::default()
        }
    }

    /// The first loss ends the copy.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn add(&self, which: usize, count: u64) {
        self.counters[which].fetch_add(count, Relaxed);
    }

    /// Asks now, as a copy does again and again.
    pub fn tell(&self) {
        self.update_progress();
    }

    /// So far.
    pub fn counts(&self) -> Counts {
        Counts::of(std::array::from_fn(|at| self.counters[at].load(Relaxed)))
    }

    /// All losses so far.
    pub fn losses(&self) -> Vec<Lost> {
        self.lists().losses.clone()
    }

    /// Whether there are any.
    pub fn has_losses(&self) -> bool {
        !self.lists().losses.is_empty()
    }

    /// All failures so far.
    pub fn failures(&self) -> Vec<Failure> {
        self.lists().failures.clone()
    }

    /// Why nothing more was written, if that is so.
    pub fn stop_reason(&self) -> Option<Errno> {
        self.lists().stop
    }

    /// Somebody wanted it to end: who was told how far it is, or who waits for a call.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}

impl Observer for Tally<'_> {
    fn done(&self, kind: Kind, _: &[u8]) {
        let which = match kind {
            Kind::File => FILES,
            Kind::Directory => DIRECTORIES,
            _ => OTHERS,
        };
        self.add(which, 1);
    }

    fn linked(&self, _: &[u8]) {
        self.add(LINKS, 1);
    }

    fn skip(&self) {
        self.add(SKIPPED, 1);
    }

    fn wrote(&self, bytes: u64) {
        self.add(BYTES, bytes);
    }

    fn read_by_host(&self, bytes: u64) {
        self.add(BY_HOST, bytes);
    }

    fn count(&self, counts: &Counts) {
        for (which, count) in counts.each().into_iter().enumerate() {
            self.add(which, count);
        }
    }

    fn update_progress(&self) {
        let Some(tell) = &self.tell else { return };
        let mut tell = tell.lock().unwrap_or_else(|e| e.into_inner());
        // Nobody is told less than before: threads take turns here.
        let Counts { files, bytes, .. } = self.counts();
        if !self.is_cancelled() && !tell(files, bytes) {
            self.cancelled.store(true, Relaxed);
        }
    }

    fn finish(&self) {
        // The next copy counts its files from 1 again.
        self.given_up.store(0, Relaxed);
        self.update_progress();
    }

    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        self.lists().losses.push(Lost {
            loss,
            path: path.into(),
            detail: detail.into(),
            error,
        });
        if self.strict {
            self.lacks.store(true, Relaxed);
        }
    }

    fn error(&self, path: &[u8], error: Errno) {
        self.failed(path, error.to_string(), Some(error));
    }

    fn unreadable(&self, path: &[u8], error: Errno) {
        let why = format!("the image cannot be read: {error}");
        self.failed(path, why, Some(error));
    }

    fn failed(&self, path: &[u8], why: String, error: Option<Errno>) {
        self.lists().failures.push(Failure {
            path: path.into(),
            why,
            error,
            untried: false,
        });
    }

    fn stop(&self, why: Errno) {
        self.lists().stop = Some(why);
        self.stopped.store(true, Relaxed);
    }

    fn has_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    fn untried(&self, path: &[u8]) {
        let mut lists = self.lists();
        let error = lists.stop;
        let why = match error {
            Some(e) => format!("not tried: {e}"),
            None => "not tried".into(),
        };
        lists.failures.push(Failure {
            path: path.into(),
            why,
            error,
            untried: true,
        });
    }

    fn give_up(&self, number: NonZeroU64) {
        self.given_up.store(number.get(), Relaxed);
    }

    fn has_given_up(&self, number: NonZeroU64) -> bool {
        self.given_up.load(Relaxed) == number.get()
    }

    fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    fn interrupted(&self) -> bool {
        self.is_cancelled() || self.lacks.load(Relaxed)
    }
}
