//! A call of a worker, from its arguments to its answer.

use crate::area::{Control, ANSWERED, ASKED, BESIDE, BULK};
use crate::client::{Worker, REST};
use crate::ended::Ended;
use crate::failure::{readable, Failure, Result};
use crate::operations::special;
use crate::syscalls::NEVER;
use crate::wait;
use crate::wire::{Reader, Wire, Writer};
use std::sync::atomic::Ordering::Relaxed;

/// How long an answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Until the caller says that it is not, when asked.
    Until,
    /// As long as the worker lives; nobody is asked.
    Always,
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub operation: u32,
    /// Of a system call: its result is a descriptor, which somebody has to close.
    pub makes_descriptor: bool,
    pub wants: Wants,
}

/// A call that is being made: it has a slot.
pub(crate) struct Call<'a> {
    worker: &'a Worker,
    slot: usize,
    asked: Asked,
    /// Bytes of arguments; 0: it was made already.
    at: usize,
    /// It is under way, and nobody waits for it any more.
    given_up: bool,
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
    pub fn new(worker: &'w Worker, slot: usize, asked: Asked) -> Self {
        Call {
            worker,
            slot,
            asked,
            at: 0,
            given_up: false,
        }
    }

    pub fn control(&self) -> &'w Control {
        self.worker.area.control(self.slot)
    }

    /// What answers it is a descriptor inside the kernel.
    pub fn make_descriptor(&mut self, makes: bool) {
        self.asked.makes_descriptor = makes;
    }

    /// Room for more arguments.
    pub fn arguments<'c>(&'c mut self) -> Arguments<'c, 'w> {
        // SAFETY: the slot is this call's, and nothing of it is read.
        let room: &'w mut [u8] = unsafe { self.worker.area.request(self.slot).to_write() };
        let to = Writer::new(&mut room[self.at..]);
        Arguments { call: self, to }
    }

    /// Make the call.
    pub fn wait(mut self) -> Result<Answer<'w>> {
        let control = self.control();
        let worker = self.worker;
        if self.at > 0 {
            control.request.store(self.at as u32, Relaxed);
            wait::set(&control.state, ASKED, &control.worker_sleeps);
        }
        let mut outcome = Ok(());
        let answered = wait::until(
            &control.state,
            ANSWERED,
            &control.caller_sleeps,
            worker.patience(self.slot),
            Some(REST),
            || {
                outcome = worker.still_waits(self.asked.wants);
                outcome.is_err()
            },
        );
        if !answered {
            self.given_up = true;
            outcome?;
        }
        self.take()
    }

    /// The answer, which is there.
    pub fn take(self) -> Result<Answer<'w>> {
        let control = self.control();
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
        // A slot whose call is still to be answered is nobody else's.
        match self.given_up {
            true => self.worker.leave(self.slot, self.asked),
            false => self.worker.release(self.slot),
        }
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
    Failure::malformed()
}

impl<'w> Answer<'w> {
    fn check(self) -> Result<Answer<'w>> {
        if self.errno == 0 {
            return Ok(self);
        }
        let text = readable(&self.copy()?);
        // Beside the result of a system call: only who waits gives one up.
        let is_call = self.call.asked.operation == special::SYSCALL;
        match self.errno {
            errno if is_call && NEVER.contains(&(errno as i32)) => Err(malformed()),
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

    /// Whatever it says.
    pub fn result(&self) -> i64 {
        self.result
    }

    /// A number from 0 to `most`.
    pub fn count(&self, most: usize) -> Result<usize> {
        let count = usize::try_from(self.result).ok().filter(|n| *n <= most);
        count.ok_or_else(malformed)
    }

    /// What an operation has made, if anything, for what nobody waits for any more.
    pub fn made(&self) -> Result<Option<Ended>> {
        let handle = match self.call.asked.operation {
            special::MOUNT | special::OPEN_FILE => u32::get(&mut Reader::new(&self.copy()?))?,
            special::LIST => self.count(u32::MAX as usize)? as u32,
            special::SYSCALL if self.call.asked.makes_descriptor => {
                // Else it is an error of Linux's, and nothing was made.
                let fd = u32::try_from(self.result).ok();
                return Ok(fd.map(Ended::Descriptor));
            }
            _ => 0,
        };
        Ok((handle != 0).then_some(Ended::Handle(handle)))
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
