//! A backend for tests: it logs every change, so that a test can cut the power
//! after any of them, and fails when told to.

use crate::backend::Backend;
use crate::buffers::{buffer, gather, total, Buffers};
use crate::power::Event;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a driver asks for. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read { offset: u64, len: u64 },
    Write { offset: u64, len: u64 },
    Discard { offset: u64, len: u64 },
    WriteZeroes { offset: u64, len: u64 },
    Flush,
}

/// How an operation fails.
#[derive(Debug)]
pub enum Failure {
    /// Nothing happens.
    Error(io::Error),
    /// A write (for other operations as `Error`) of which the first bytes get
    /// through before the error.
    Torn { bytes: u64, error: io::Error },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    /// With this errno, such as `libc::EIO`.
    pub fn errno(errno: i32) -> Self {
        Self::Error(io::Error::from_raw_os_error(errno))
    }

    fn into_error(self) -> io::Error {
        match self {
            Self::Error(error) | Self::Torn { error, .. } => error,
        }
    }
}

type Plan = dyn FnMut(Operation) -> Option<Failure> + Send;

/// Another backend, with a log and a plan of failures.
///
/// One operation at a time, so that the log has them in the order in which they
/// took effect, and a flush stands behind exactly what it made durable. It never
/// answers at once, so that every operation meets the plan exactly once.
pub struct Fault {
    below: Arc<dyn Backend>,
    state: Mutex<State>,
}

struct State {
    log: Vec<Event>,
    plan: Box<Plan>,
}

impl State {
    fn ask(&mut self, operation: Operation) -> io::Result<()> {
        (self.plan)(operation).map_or(Ok(()), |failure| Err(failure.into_error()))
    }
}

impl Fault {
    /// `plan` sees each operation first; the failure it returns is the answer.
    pub fn new(
        below: Arc<dyn Backend>,
        plan: impl FnMut(Operation) -> Option<Failure> + Send + 'static,
    ) -> Self {
        let state = State {
            log: Vec::new(),
            plan: Box::new(plan),
        };
        Self {
            below,
            state: Mutex::new(state),
        }
    }

    /// Only a log: nothing fails.
    pub fn logging(below: Arc<dyn Backend>) -> Self {
        Self::new(below, |_| None)
    }

    /// The log so far: every change, in order.
    pub fn log(&self) -> Vec<Event> {
        self.state().log.clone()
    }

    /// Another plan from now on.
    pub fn plan(&self, plan: impl FnMut(Operation) -> Option<Failure> + Send + 'static) {
        self.state().plan = Box::new(plan);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Backend for Fault {
    fn size(&self) -> u64 {
        self.below.size()
    }

    fn read_only(&self) -> bool {
        self.below.read_only()
    }

    fn block_sizes(&self) -> (u32, u32) {
        self.below.block_sizes()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to) as u64;
        self.state().ask(Operation::Read { offset, len })?;
        self.below.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let mut state = self.state();
        let len = total(from) as u64;
        let failure = (state.plan)(Operation::Write { offset, len });
        let through = match &failure {
            None => len,
            Some(Failure::Error(_)) => 0,
            Some(Failure::Torn { bytes, .. }) => len.min(*bytes),
        };
        if through > 0 {
            // What is logged is what was written, whatever the guest does.
            let mut data = vec![0; through as usize];
            // SAFETY: guest memory, see `Buffers`.
            unsafe { gather(from, &mut data) };
            self.below.write(&[buffer(&data)], offset)?;
            state.log.push(Event::Write { offset, data });
        }
        failure.map_or(Ok(()), |failure| Err(failure.into_error()))
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Operation::Flush)?;
        self.below.flush()?;
        state.log.push(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Operation::Discard { offset, len })?;
        self.below.discard(offset, len)?;
        state.log.push(Event::Discard { offset, len });
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Operation::WriteZeroes { offset, len })?;
        self.below.write_zeroes(offset, len, may_unmap)?;
        state.log.push(Event::WriteZeroes { offset, len });
        Ok(())
    }

    /// Logged; the plan is not asked.
    fn grow(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        self.below.grow(size)?;
        state.log.push(Event::Grow { size });
        Ok(())
    }
}
