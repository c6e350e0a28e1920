//! What the gofer says of what becomes of a copy, and who is told it there.

use super::super::counts::Counts;
use super::super::loss::Loss;
use super::super::observer::Observer;
use super::wire::{self, Malformed, Put, Result, Take};
use super::{FromGofer, Guard};
use std::fs::File;
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tane_linux::{Errno, Kind};

/// Bytes that are worth a message in the middle of a batch.
const MUCH: usize = 32 << 10;
/// How old progress may be when it is told.
const INTERVAL: Duration = Duration::from_millis(50);

mod tag {
    pub const COUNTS: u8 = 1;
    pub const DONE: u8 = 2;
    pub const LINKED: u8 = 3;
    pub const LOST: u8 = 4;
    pub const ERROR: u8 = 5;
    pub const UNREADABLE: u8 = 6;
    pub const FAILED: u8 = 7;
    pub const STOP: u8 = 8;
    pub const UNTRIED: u8 = 9;
    pub const GIVE_UP: u8 = 10;
}

/// Passes on what it is told: much at once, and names only if somebody wants them.
pub struct Relay<'s> {
    socket: &'s File,
    verbose: bool,
    guard: &'s dyn Guard,
    stopped: AtomicBool,
    state: Mutex<State>,
}

struct State {
    message: Vec<u8>,
    counts: Counts,
    sent: Instant,
}

impl<'s> Relay<'s> {
    pub fn new(socket: &'s File, verbose: bool, guard: &'s dyn Guard) -> Self {
        let mut message = Vec::new();
        wire::begin(&mut message, FromGofer::Said as u32);
        Relay {
            socket,
            verbose,
            guard,
            stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                message,
                counts: Counts::default(),
                sent: Instant::now(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sends what there is.
    pub fn flush(&self) {
        self.send(&mut self.state());
    }

    fn send(&self, state: &mut State) {
        let counts = std::mem::take(&mut state.counts);
        if counts != Counts::default() {
            state.message.byte(tag::COUNTS);
            for count in counts.each() {
                state.message.long(count);
            }
        }
        if state.message.len() > wire::HEADER {
            wire::seal(&mut state.message);
            // Whoever does not hear has gone, which shows where he is heard.
            let _ = (&*self.socket).write_all(&state.message);
            wire::begin(&mut state.message, FromGofer::Said as u32);
        }
        state.sent = Instant::now();
    }

    fn add(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    fn say(&self, tag: u8, path: &[u8], rest: impl FnOnce(&mut Vec<u8>)) {
        let state = &mut *self.state();
        state.message.byte(tag);
        state.message.string(path);
        rest(&mut state.message);
        if state.message.len() > MUCH {
            self.send(state);
        }
    }
}

impl Observer for Relay<'_> {
    fn count(&self, counts: &Counts) {
        self.add(|all| {
            let (sum, more) = (all.each(), counts.each());
            *all = Counts::of(std::array::from_fn(|at| sum[at] + more[at]));
        });
    }

    /// The reader counts.
    fn has_given_up(&self, _: NonZeroU64) -> bool {
        false
    }

    fn refusal(&self, below: &[u8]) -> Option<String> {
        self.guard.refusal(below)
    }

    fn done(&self, kind: Kind, path: &[u8]) {
        if self.verbose {
            let number = KINDS.iter().position(|k| *k == kind).unwrap_or(0);
            return self.say(tag::DONE, path, |m| m.byte(number as u8));
        }
        self.add(|counts| counts.add(kind));
    }

    fn linked(&self, path: &[u8]) {
        if self.verbose {
            return self.say(tag::LINKED, path, |_| {});
        }
        self.add(|counts| counts.links += 1);
    }

    fn skip(&self) {
        self.add(|counts| counts.skipped += 1);
    }

    fn wrote(&self, bytes: u64) {
        self.add(|counts| counts.bytes = counts.bytes.saturating_add(bytes));
    }

    fn read_by_host(&self, bytes: u64) {
        self.add(|counts| counts.by_host = counts.by_host.saturating_add(bytes));
    }

    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        self.say(tag::LOST, path, |m| {
            m.byte(loss as u8);
            m.string(detail);
            m.number(error.0 as u32);
        });
    }

    fn error(&self, path: &[u8], error: Errno) {
        self.say(tag::ERROR, path, |m| m.number(error.0 as u32));
    }

    fn unreadable(&self, path: &[u8], error: Errno) {
        self.say(tag::UNREADABLE, path, |m| m.number(error.0 as u32));
    }

    fn failed(&self, path: &[u8], text: String, error: Option<Errno>) {
        self.say(tag::FAILED, path, |m| {
            m.string(text.as_bytes());
            m.number(error.map_or(0, |e| e.0 as u32));
        });
    }

    fn stop(&self, why: Errno) {
        self.stopped.store(true, Relaxed);
        self.say(tag::STOP, b"", |m| m.number(why.0 as u32));
    }

    fn has_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    fn untried(&self, path: &[u8]) {
        self.say(tag::UNTRIED, path, |_| {});
    }

    fn give_up(&self, number: NonZeroU64) {
        self.say(tag::GIVE_UP, b"", |m| m.long(number.get()));
    }

    fn update_progress(&self) {
        let state = &mut *self.state();
        if state.sent.elapsed() >= INTERVAL {
            self.send(state);
        }
    }
}

pub const KINDS: [Kind; 7] = [
    Kind::File,
    Kind::Directory,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::CharDevice,
    Kind::BlockDevice,
];

/// Tells the report what a message says.
pub fn tell(message: &[u8], report: &dyn Observer) -> Result<()> {
    let mut take = Take::new(message);
    while !take.is_done() {
        let tag = take.byte()?;
        if tag == tag::COUNTS {
            let mut counts = [0; Counts::FIELDS];
            for count in &mut counts {
                *count = take.long()?;
            }
            report.count(&Counts::of(counts));
            continue;
        }
        let path = take.string()?;
        match tag {
            tag::DONE => {
                let kind = KINDS.get(usize::from(take.byte()?)).ok_or(Malformed)?;
                report.done(*kind, path);
            }
            tag::LINKED => report.linked(path),
            tag::LOST => {
                let loss = Loss::ALL.get(usize::from(take.byte()?)).ok_or(Malformed)?;
                report.lose(*loss, path, take.string()?, errno(&mut take)?);
            }
            tag::ERROR => report.error(path, errno(&mut take)?),
            tag::UNREADABLE => report.unreadable(path, errno(&mut take)?),
            tag::FAILED => {
                let text = String::from_utf8_lossy(take.string()?).into_owned();
                let error = errno(&mut take)?;
                report.failed(path, text, Some(error).filter(|e| e.0 != 0));
            }
            tag::STOP => report.stop(errno(&mut take)?),
            tag::UNTRIED => report.untried(path),
            tag::GIVE_UP => report.give_up(NonZeroU64::new(take.long()?).ok_or(Malformed)?),
            _ => return Err(Malformed),
        }
    }
    report.update_progress();
    Ok(())
}

fn errno(take: &mut Take) -> Result<Errno> {
    take.number().map(|n| Errno(n as i32))
}
