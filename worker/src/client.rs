//! A worker as its caller sees it.

use crate::area::{Area, Control, ANSWERED, ASKED, BESIDE, BULK, SLOTS};
use crate::failure::{Failure, Result};
use crate::fork::{self, Owner};
use crate::operations::special;
use crate::spawn;
use crate::wait::{self, Patience};
use crate::wire::{Reader, Wire, Writer};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// How long the end of a worker can go unnoticed.
const REST: Duration = Duration::from_millis(20);
/// What a worker that did not come from this build says when it ends.
pub(crate) const OTHER_VERSION: i32 = 3;
/// No list of handles to end is longer.
const MANY: usize = 256;

pub(crate) struct Worker {
    area: Area,
    /// Slots that are free, a bit each.
    free: Mutex<u32>,
    freed: Condvar,
    patience: [Patience; SLOTS],
    /// Handles that are done with: told with the next call.
    ended: Mutex<Vec<u32>>,
    child: Mutex<Child>,
    /// How it ended.
    death: OnceLock<String>,
    line: UnixStream,
    owner: Owner,
    limit: Option<Duration>,
    began: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Of what people read: no control characters, and an end.
pub(crate) fn readable(text: &[u8]) -> String {
    const LONGEST: usize = 4096;
    let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
    let shown = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(shown).collect()
}

impl Worker {
    /// Start a worker, and have it do what `request` writes, as its first.
    pub fn start<T: for<'a> Wire<'a>>(
        program: Option<&Path>,
        limit: Option<Duration>,
        request: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<(Arc<Worker>, T)> {
        let owner = Owner::of_this();
        let program = spawn::program(program)?;
        let area = Area::new()?;
        // It finds its first call there when it starts.
        // SAFETY: nobody else has it yet.
        let mut to = Writer::new(unsafe { area.request(0).to_write() });
        to.int(0)?;
        request(&mut to)?;
        let control = area.control(0);
        control.operation.store(special::OPEN, Relaxed);
        control.request.store(to.len() as u32, Relaxed);
        wait::set(&control.state, ASKED, &control.worker_sleeps);
        let (child, line) = spawn::start(&program, &area)?;
        fork::remember(&line);
        let worker = Arc::new(Worker {
            area,
            free: Mutex::new((1 << SLOTS) - 1 - 1),
            freed: Condvar::new(),
            patience: [const { Patience::new() }; SLOTS],
            ended: Mutex::default(),
            child: Mutex::new(child),
            death: OnceLock::new(),
            line,
            owner,
            limit,
            began: Instant::now(),
        });
        let call = Call {
            worker: &worker,
            slot: 0,
            at: 0,
        };
        let answer = call.wait().and_then(|call| call.decode());
        answer
            .map(|answer| (worker.clone(), answer))
            .map_err(|mut failure| {
                // It takes no more calls.
                let _ = worker.death.set("it could not open its image".into());
                if worker.is_other_version() {
                    failure.text = format!(
                        "{}: is of another version than this library: install both from one build",
                        program.display()
                    );
                    failure.errno = libc::ENOEXEC;
                }
                failure
            })
    }

    fn is_other_version(&self) -> bool {
        let status = lock(&self.child).try_wait();
        matches!(status, Ok(Some(status)) if status.code() == Some(OTHER_VERSION))
    }

    /// Take a slot for a call; waits while all are in use.
    pub fn call(&self, operation: u32, handle: u32) -> Result<Call<'_>> {
        if !self.owner.is_this() {
            return Err(Failure::new(
                libc::ENOTSUP,
                "opened by the parent of this process, and a fork cannot use its parent's \
                 workers: open it here",
            ));
        }
        if let Some(death) = self.death.get() {
            return Err(Failure::new(libc::ESHUTDOWN, death));
        }
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(|e| e.into_inner());
        }
        // The lowest: its memory is likely to be in the caches.
        let slot = free.trailing_zeros() as usize;
        *free &= !(1 << slot);
        drop(free);
        let mut call = Call {
            worker: self,
            slot,
            at: 0,
        };
        let control = call.control();
        control.operation.store(operation, Relaxed);
        control.handle.store(handle, Relaxed);
        let mut ended = lock(&self.ended);
        let count = ended.len().min(MANY);
        let mut to = call.arguments();
        to.int(count as u64)?;
        for handle in ended.drain(..count) {
            to.int(u64::from(handle))?;
        }
        drop(to);
        drop(ended);
        Ok(call)
    }

    /// A handle is done with.
    pub fn end(&self, handle: u32) {
        if handle == 0 || !self.owner.is_this() {
            return;
        }
        let mut ended = lock(&self.ended);
        ended.push(handle);
        let many = ended.len() >= MANY;
        drop(ended);
        if many {
            // Any call takes them along.
            let _ = self.call(0, 0).and_then(|call| call.wait().map(drop));
        }
    }

    /// The worker's process.
    pub fn pid(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Whether it has ended; then later calls say so.
    fn has_ended(&self) -> bool {
        if self.death.get().is_some() {
            return true;
        }
        let ended = match lock(&self.child).try_wait() {
            Ok(None) => return false,
            Ok(Some(status)) => self.obituary(status),
            // Somebody else waited for it: a program may wait for any child.
            Err(_) => "it is not known how".into(),
        };
        let _ = self
            .death
            .set(format!("the jailed kernel has ended: {ended}"));
        true
    }

    fn obituary(&self, status: ExitStatus) -> String {
        match (status.signal(), status.code()) {
            (Some(libc::SIGSYS), _) => {
                "killed for a system call that its jail forbids (SIGSYS); the image is hostile"
                    .into()
            }
            (Some(libc::SIGKILL), _) if self.limit.is_some_and(|l| self.began.elapsed() >= l) => {
                let limit = self.limit.unwrap_or_default();
                format!("ran past its time limit of {limit:?}")
            }
            (Some(libc::SIGKILL), _) => {
                "killed by SIGKILL, by somebody or for want of memory".into()
            }
            (Some(signal), _) => format!("killed by signal {signal}"),
            (_, Some(code)) => format!("its process ended with code {code}"),
            _ => "it is not known how".into(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.owner.is_this() {
            // The parent's; children do not hold its lifeline.
            return;
        }
        if self.death.get().is_none() {
            // Mounts that were only dropped are written back, and locks given up.
            let _ = self
                .call(special::END, 0)
                .and_then(|call| call.wait().map(drop));
        }
        fork::forget(self.line.as_raw_fd());
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A call that is being made: it has a slot.
pub(crate) struct Call<'a> {
    worker: &'a Worker,
    slot: usize,
    /// Bytes of arguments; 0: it was made already.
    at: usize,
}

/// Its arguments, as they are written.
pub(crate) struct Arguments<'c, 'w> {
    call: &'c mut Call<'w>,
    to: Writer<'w>,
}

impl<'w> std::ops::Deref for Arguments<'_, 'w> {
    type Target = Writer<'w>;

    fn deref(&self) -> &Writer<'w> {
        &self.to
    }
}

impl std::ops::DerefMut for Arguments<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.to
    }
}

impl Drop for Arguments<'_, '_> {
    fn drop(&mut self) {
        self.call.at += self.to.len();
    }
}

impl<'w> Call<'w> {
    fn control(&self) -> &'w Control {
        self.worker.area.control(self.slot)
    }

    /// Room for more arguments.
    pub fn arguments<'c>(&'c mut self) -> Arguments<'c, 'w> {
        // SAFETY: the slot is this call's, and nothing of it is read.
        let room: &'w mut [u8] = unsafe { self.worker.area.request(self.slot).to_write() };
        let to = Writer::new(&mut room[self.at..]);
        Arguments { call: self, to }
    }

    /// Make the call.
    pub fn wait(self) -> Result<Answer<'w>> {
        let control = self.control();
        let worker = self.worker;
        if self.at > 0 {
            control.request.store(self.at as u32, Relaxed);
            wait::set(&control.state, ASKED, &control.worker_sleeps);
        }
        let answered = wait::until(
            &control.state,
            ANSWERED,
            &control.caller_sleeps,
            &worker.patience[self.slot],
            Some(REST),
            || worker.has_ended(),
        );
        if !answered {
            let death = worker.death.get().cloned().unwrap_or_default();
            return Err(Failure::new(libc::ESHUTDOWN, death));
        }
        let answer = Answer {
            errno: control.errno.load(Relaxed),
            len: control.answer.load(Relaxed) as usize,
            result: control.result.load(Relaxed),
            call: self,
        };
        answer.check()
    }

    /// Make the call, and take its answer.
    pub fn answer<T: for<'a> Wire<'a>>(self) -> Result<T> {
        self.wait()?.decode()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // Nobody gives up a call before the worker has ended, so that none is
        // answered later, to somebody else.
        *lock(&self.worker.free) |= 1 << self.slot;
        self.worker.freed.notify_one();
    }
}

/// What the worker says it did. The slot is kept until it is dropped.
pub(crate) struct Answer<'w> {
    call: Call<'w>,
    errno: u32,
    len: usize,
    result: i64,
}

fn malformed() -> Failure {
    Failure::new(
        libc::EIO,
        "the worker's answer is malformed: its kernel may have been taken over",
    )
}

impl<'w> Answer<'w> {
    fn check(self) -> Result<Answer<'w>> {
        if self.errno == 0 {
            return Ok(self);
        }
        let text = readable(&self.copy()?);
        match self.errno {
            errno @ 1..4096 => Err(Failure::new(errno as i32, text)),
            _ => Err(malformed()),
        }
    }

    /// What it wrote beside data.
    pub fn copy(&self) -> Result<Vec<u8>> {
        if self.len > BESIDE + BULK {
            return Err(malformed());
        }
        let mut bytes = vec![0; self.len];
        self.data(0, &mut bytes)?;
        Ok(bytes)
    }

    pub fn decode<T: for<'a> Wire<'a>>(&self) -> Result<T> {
        let bytes = self.copy()?;
        let mut from = Reader::new(&bytes);
        let value = T::get(&mut from)?;
        match from.is_empty() {
            true => Ok(value),
            false => Err(malformed()),
        }
    }

    /// A number from 0 to `most`.
    pub fn count(&self, most: usize) -> Result<usize> {
        let count = usize::try_from(self.result).ok().filter(|n| *n <= most);
        count.ok_or_else(malformed)
    }

    /// Copy from its room.
    pub fn data(&self, from: usize, to: &mut [u8]) -> Result<()> {
        let room = self.call.worker.area.answer(self.call.slot);
        match room.copy_to(from, to) {
            true => Ok(()),
            false => Err(malformed()),
        }
    }
}
