//! Requests that are under way, and their answers, which come in any order.
//!
//! Of those who wait one reads the answers, for all. A thread that sends is one that will
//! wait, and who waits has sent all it had: so whenever the server cannot go on because
//! nobody reads what it says, somebody does.
//!
//! An answer is there within [`Line::patience`] of its being waited for, and, once it has
//! begun, whole within that again: a server that sends a byte now and then is as silent as
//! one that sends none.

use super::line::Line;
use super::words;
use crate::buffers::{buffer, buffer_mut, Buffers};
use crate::limit::{expired, Limit};
use std::collections::HashMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// So many times as long may what a server takes to keep all that was written, and whatever
/// it is asked for meanwhile.
const OF_FLUSHES: u32 = 4;
const UNANSWERED: &str = "the server has not answered a request";

/// A request, and what it moves.
pub(super) struct Request<'a> {
    pub command: u16,
    pub flags: u16,
    pub offset: u64,
    pub len: u32,
    /// Of the length; nothing if the command moves nothing.
    pub data: Buffers<'a>,
}

impl Request<'_> {
    /// One that says nothing more.
    pub fn plain(command: u16) -> Self {
        Request {
            command,
            flags: 0,
            offset: 0,
            len: 0,
            data: &[],
        }
    }
}

/// Where an answer's bytes go. It is waited for by who has that memory.
struct Place(Vec<libc::iovec>);

// SAFETY: guest memory, which any thread may fill (see `Buffers`). Who asked for it does
// not go before it is answered or taken back.
unsafe impl Send for Place {}

enum Slot {
    Sent(Place),
    /// Somebody reads its bytes.
    Filling,
    Done(io::Result<()>),
}

#[derive(Default)]
struct State {
    last: u64,
    slots: HashMap<u64, Slot>,
    somebody_reads: bool,
    /// Flushes under way, and when the last one was over.
    flushes: usize,
    flushed: Option<Instant>,
    /// Why nothing comes any more.
    broken: Option<(io::ErrorKind, String)>,
}

pub(super) struct Requests {
    line: Line,
    writing: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl State {
    /// An error, if nothing comes any more.
    fn is_whole(&self) -> io::Result<()> {
        match &self.broken {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    fn break_off(&mut self, error: &io::Error) {
        if self.broken.is_none() {
            self.broken = Some((error.kind(), error.to_string()));
        }
    }
}

impl Requests {
    pub fn new(line: Line) -> Requests {
        Requests {
            line,
            writing: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Make all of these requests at once, and wait for their answers. The error of the
    /// first that fails.
    pub fn make(&self, requests: &[Request]) -> io::Result<()> {
        let first = self.announce(requests)?;
        if let Err(e) = self.send(requests, first) {
            lock(&self.state).break_off(&e);
            self.changed.notify_all();
        }
        let mut result = Ok(());
        for cookie in first..first + requests.len() as u64 {
            // To the last: until then its memory may be written.
            let answered = self.answer(cookie);
            result = result.and(answered);
        }
        if flushes(requests) > 0 {
            let mut state = lock(&self.state);
            state.flushes -= flushes(requests);
            state.flushed = Some(Instant::now());
        }
        result
    }

    /// Tell the server that nothing more comes, which it does not answer; and nothing does.
    /// It is not waited for.
    pub fn farewell(&self) {
        let mut state = lock(&self.state);
        if state.broken.is_some() {
            return;
        }
        let ended = io::Error::new(io::ErrorKind::NotConnected, "the connection has been ended");
        state.break_off(&ended);
        drop(state);
        self.changed.notify_all();
        // Within a request there is no place for it.
        let Ok(_writing) = self.writing.try_lock() else {
            return;
        };
        let bye = header((&Request::plain(words::DISCONNECT), 0));
        self.line.offer(&[buffer(&bye)]);
    }

    /// The cookie of the first; the others follow.
    fn announce(&self, requests: &[Request]) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.is_whole()?;
        let first = state.last + 1;
        for request in requests {
            state.last += 1;
            let place = match request.command {
                words::READ => request.data.to_vec(),
                _ => Vec::new(),
            };
            let cookie = state.last;
            state.slots.insert(cookie, Slot::Sent(Place(place)));
        }
        state.flushes += flushes(requests);
        Ok(first)
    }

    fn send(&self, requests: &[Request], first: u64) -> io::Result<()> {
        let headers: Vec<_> = requests.iter().zip(first..).map(header).collect();
        let mut all = Vec::new();
        for (request, header) in requests.iter().zip(&headers) {
            all.push(buffer(header));
            if request.command == words::WRITE {
                all.extend_from_slice(request.data);
            }
        }
        let _writing = lock(&self.writing);
        // What is sent in part leaves the connection of no use, whoever finds that; and behind
        // a farewell nothing may be sent.
        lock(&self.state).is_whole()?;
        // A flush may come before, and hold up each of them.
        let parts = requests.len() as u32 + OF_FLUSHES;
        let whole = Limit::new(self.line.patience * parts);
        let (mut since, mut before) = (Instant::now(), 0);
        self.line.write(&all, &mut |done| {
            if done > before {
                (since, before) = (Instant::now(), done);
            }
            let state = lock(&self.state);
            state.is_whole()?;
            whole.check(|after| expired("the server has not taken a request", after))?;
            self.is_in_time(&state, since, "the server has taken nothing")
        })
    }

    /// How long the server may still take for what is waited for since then.
    fn left(&self, state: &State, since: Instant) -> (Duration, Duration) {
        let beside = state.flushes > 0 || state.flushed.is_some_and(|at| at > since);
        let patience = match beside {
            true => self.line.patience * OF_FLUSHES,
            false => self.line.patience,
        };
        (patience.saturating_sub(since.elapsed()), patience)
    }

    /// An error if it has taken too long.
    fn is_in_time(&self, state: &State, since: Instant, late: &str) -> io::Result<()> {
        match self.left(state, since) {
            (left, patience) if left.is_zero() => Err(expired(late, patience)),
            _ => Ok(()),
        }
    }

    /// Wait for the answer to a request that was sent.
    fn answer(&self, cookie: u64) -> io::Result<()> {
        let since = Instant::now();
        let mut state = lock(&self.state);
        loop {
            match state.slots.get(&cookie) {
                Some(Slot::Done(_)) | None => {
                    let done = state.slots.remove(&cookie);
                    return match done {
                        Some(Slot::Done(result)) => result,
                        _ => Err(io::Error::other("an answer was lost")),
                    };
                }
                Some(Slot::Filling) => {}
                Some(Slot::Sent(_)) => {
                    if let Err(error) = state.is_whole() {
                        state.slots.remove(&cookie);
                        return Err(error);
                    }
                    if let Err(error) = self.is_in_time(&state, since, UNANSWERED) {
                        // Others may have been answered meanwhile.
                        state.break_off(&error);
                        self.changed.notify_all();
                        continue;
                    }
                }
            }
            if !state.somebody_reads {
                state.somebody_reads = true;
                drop(state);
                let read = self.read_one(since);
                state = lock(&self.state);
                state.somebody_reads = false;
                if let Err(e) = read {
                    state.break_off(&e);
                }
                self.changed.notify_all();
                continue;
            }
            // What is being filled has a limit that who reads keeps.
            let (left, _) = self.left(&state, since);
            let waited = match left.is_zero() {
                true => self.changed.wait(state),
                false => match self.changed.wait_timeout(state, left) {
                    Ok((state, _)) => Ok(state),
                    Err(e) => Ok(e.into_inner().0),
                },
            };
            state = waited.unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Read the next answer, whosever it is, for one that is waited for since then.
    fn read_one(&self, since: Instant) -> io::Result<()> {
        let mut bytes = [0; 16];
        self.line.read(&[buffer_mut(&mut bytes)], &mut |_| {
            let state = lock(&self.state);
            state.is_whole()?;
            self.is_in_time(&state, since, UNANSWERED)
        })?;
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        let (magic, number) = (word(0), word(4));
        let cookie = u64::from(word(8)) << 32 | u64::from(word(12));
        let mut state = lock(&self.state);
        let is_asked = matches!(state.slots.get(&cookie), Some(Slot::Sent(_)));
        if magic != words::REPLY || !is_asked {
            let text = match magic {
                words::REPLY => "the server answers what it was not asked",
                _ => "the server does not speak NBD as it should: what comes is no answer",
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let slot = state.slots.insert(cookie, Slot::Filling);
        drop(state);
        let Some(Slot::Sent(Place(place))) = slot else {
            unreachable!("just seen");
        };
        let limit = Limit::new(self.line.patience);
        let mut go_on = |_| {
            lock(&self.state).is_whole()?;
            limit.check(|after| expired("the server has not ended an answer", after))
        };
        let read = match number {
            0 => self.line.read(&place, &mut go_on),
            _ => Ok(()),
        };
        let done = match (&read, number) {
            (Ok(()), 0) => Ok(()),
            (Ok(()), number) => Err(words::error(number)),
            (Err(e), _) => Err(io::Error::new(e.kind(), e.to_string())),
        };
        lock(&self.state).slots.insert(cookie, Slot::Done(done));
        read
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.farewell();
    }
}

fn flushes(requests: &[Request]) -> usize {
    let is_one = |request: &&Request| request.command == words::FLUSH;
    requests.iter().filter(is_one).count()
}

fn header((request, cookie): (&Request, u64)) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&words::REQUEST.to_be_bytes());
    bytes[4..6].copy_from_slice(&request.flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&request.command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&request.offset.to_be_bytes());
    bytes[24..].copy_from_slice(&request.len.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_beside_a_flush_may_take_as_long_as_one() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let day = Duration::from_secs(86_400);
        let requests = Requests::new(Line::of(socket.into(), day));
        let since = Instant::now();
        let may_take = |flushes, flushed| {
            let state = State {
                flushes,
                flushed,
                ..State::default()
            };
            requests.left(&state, since).1
        };
        assert_eq!(may_take(0, None), day);
        assert_eq!(may_take(1, None), day * OF_FLUSHES);
        // It was under way for a part of the time.
        let later = since + Duration::from_secs(1);
        assert_eq!(may_take(0, Some(later)), day * OF_FLUSHES);
        assert_eq!(may_take(0, Some(since)), day);
    }
}
