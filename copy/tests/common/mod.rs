//! What stands between a copy and the host: a kernel that answers oddly, and somebody who
//! has to be asked.

use std::num::NonZeroU64;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use tane_copy::{Counts, Loss, Observer, Tally};
use tane_linux::{Errno, Host, Kind, Linux};

/// How a call is answered without the kernel being asked; None: it is.
type Answer<'a> = dyn Fn(i64, [u64; 6]) -> Option<i64> + Send + Sync + 'a;

/// The host's kernel, as that of an image, but for some of its answers.
pub struct Odd<'a>(Box<Answer<'a>>);

impl<'a> Odd<'a> {
    pub fn new(answer: impl Fn(i64, [u64; 6]) -> Option<i64> + Send + Sync + 'a) -> Self {
        Odd(Box::new(answer))
    }

    /// A descriptor of a directory, for its root; it stays open.
    pub fn open(&self, path: &Path) -> i32 {
        std::fs::File::open(path).expect("open").into_raw_fd()
    }
}

impl Linux for Odd<'_> {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        match (self.0)(nr, args) {
            Some(answer) => answer,
            // SAFETY: the caller's word.
            None => unsafe { Host.call(nr, args) },
        }
    }

    fn is_ours(&self) -> bool {
        true
    }
}

/// Who writes waits until the thread that made this one is asked whether to go on.
pub struct Asked {
    tally: Tally<'static>,
    of: ThreadId,
    was_asked: Mutex<bool>,
    asked: Condvar,
}

impl Asked {
    pub fn new() -> Self {
        Asked {
            tally: Tally::default(),
            of: std::thread::current().id(),
            was_asked: Mutex::new(false),
            asked: Condvar::new(),
        }
    }

    pub fn was_asked(&self) -> bool {
        *self.was_asked.lock().expect("nobody panicked")
    }
}

impl Observer for Asked {
    fn wrote(&self, bytes: u64) {
        let was_asked = self.was_asked.lock().expect("nobody panicked");
        let much = Duration::from_secs(100);
        let waited = self
            .asked
            .wait_timeout_while(was_asked, much, |asked| !*asked);
        drop(waited.expect("nobody panicked"));
        self.tally.wrote(bytes);
    }

    fn update_progress(&self) {
        if std::thread::current().id() == self.of {
            *self.was_asked.lock().expect("nobody panicked") = true;
            self.asked.notify_all();
        }
    }

    fn done(&self, kind: Kind, path: &[u8]) {
        self.tally.done(kind, path);
    }

    fn linked(&self, path: &[u8]) {
        self.tally.linked(path);
    }

    fn skip(&self) {
        self.tally.skip();
    }

    fn read_by_host(&self, bytes: u64) {
        self.tally.read_by_host(bytes);
    }

    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        self.tally.lose(loss, path, detail, error);
    }

    fn error(&self, path: &[u8], error: Errno) {
        self.tally.error(path, error);
    }

    fn unreadable(&self, path: &[u8], error: Errno) {
        self.tally.unreadable(path, error);
    }

    fn failed(&self, path: &[u8], text: String, error: Option<Errno>) {
        self.tally.failed(path, text, error);
    }

    fn stop(&self, why: Errno) {
        self.tally.stop(why);
    }

    fn has_stopped(&self) -> bool {
        self.tally.has_stopped()
    }

    fn untried(&self, path: &[u8]) {
        self.tally.untried(path);
    }

    fn give_up(&self, number: NonZeroU64) {
        self.tally.give_up(number);
    }

    fn has_given_up(&self, number: NonZeroU64) -> bool {
        self.tally.has_given_up(number)
    }

    fn count(&self, counts: &Counts) {
        self.tally.count(counts);
    }
}
