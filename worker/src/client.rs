//! A worker as its caller sees it.

use crate::area::{Area, ANSWERED, SLOTS};
use crate::call::{Asked, Call, Wants};
use crate::ended::Ended;
use crate::failure::{Failure, Result};
use crate::fork::Owner;
use crate::operations::special;
use crate::servers::{Named, Servers};
use crate::spawn;
use crate::wait::Patience;
use crate::wire::{Wire, Writer};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tane::jail::{Hidden, Leash};

/// How long the end of a worker can go unnoticed, and that nobody wants its answer.
pub(crate) const REST: Duration = Duration::from_millis(20);
/// Between two looks for answers that nobody waits for, and how long they are looked for.
const AGAIN: Duration = Duration::from_millis(1);
const SETTLE: Duration = Duration::from_secs(10);
/// What a worker that did not come from this build says when it ends.
pub(crate) const OTHER_VERSION: i32 = 3;
/// The worker's code when Linux went round in circles.
pub(crate) const STUCK: i32 = 4;
/// No list of handles to end is longer.
const MANY: usize = 256;

/// Says whether calls are to be given up; asked by threads that wait.
pub(crate) type Interrupted = Arc<dyn Fn() -> bool + Send + Sync>;

/// How a worker is started, beside what it is asked first.
#[derive(Clone, Default)]
pub(crate) struct Start {
    pub program: Option<PathBuf>,
    pub limit: Option<Duration>,
    pub interrupted: Option<Interrupted>,
    /// It writes to its image.
    pub writes: bool,
    /// Addresses on servers, with names and passwords.
    pub addresses: Vec<Named>,
}

/// Which slots can be taken.
#[derive(Default)]
struct Slots {
    /// A bit each.
    free: u32,
    /// What was given up before it was answered.
    left: [Option<Asked>; SLOTS],
}

pub(crate) struct Worker {
    pub(crate) area: Area,
    slots: Mutex<Slots>,
    freed: Condvar,
    patience: [Patience; SLOTS],
    /// What is done with: told with the next call.
    ended: Mutex<Vec<Ended>>,
    child: Mutex<Child>,
    /// How it ended.
    death: OnceLock<String>,
    _line: Hidden,
    _leash: Leash,
    _servers: Option<Servers>,
    owner: Owner,
    limit: Option<Duration>,
    interrupted: Option<Interrupted>,
    writes: bool,
    began: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Worker {
    /// Start a worker, and have it do what `request` writes, as its first.
    pub fn start<T: for<'a> Wire<'a>>(
        how: &Start,
        request: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<(Arc<Worker>, T)> {
        let owner = Owner::of_this();
        let program = spawn::program(how.program.as_deref())?;
        let area = Area::new()?;
        let servers = match how.addresses.is_empty() {
            true => None,
            false => Some(Servers::start(&program, &how.addresses)?),
        };
        let (servers, link) = servers.unzip();
        let (mut child, line) = spawn::start(&program, &area, link)?;
        // Before it is asked for anything: nothing of an image is in it yet.
        let leash = spawn::tie(&mut child)?;
        let worker = Arc::new(Worker {
            area,
            slots: Mutex::new(Slots {
                free: (1 << SLOTS) - 1,
                ..Slots::default()
            }),
            freed: Condvar::new(),
            patience: [const { Patience::new() }; SLOTS],
            ended: Mutex::default(),
            child: Mutex::new(child),
            death: OnceLock::new(),
            _line: line,
            _leash: leash,
            _servers: servers,
            owner,
            limit: how.limit,
            interrupted: how.interrupted.clone(),
            writes: how.writes,
            began: Instant::now(),
        });
        let call = worker.call(special::OPEN, 0);
        let answer = call.and_then(|mut call| {
            request(&mut call.arguments())?;
            call.answer()
        });
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
        self.call_of(operation, handle, Wants::Until)
    }

    pub fn call_of(&self, operation: u32, handle: u32, wants: Wants) -> Result<Call<'_>> {
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
        let slot = self.slot(wants)?;
        let asked = Asked {
            operation,
            makes_descriptor: false,
            wants,
        };
        let mut call = Call::new(self, slot, asked);
        let control = call.control();
        control.operation.store(operation, Relaxed);
        control.handle.store(handle, Relaxed);
        let mut ended = lock(&self.ended);
        let count = ended.len().min(MANY);
        let mut to = call.arguments();
        to.int(count as u64)?;
        for ended in ended.drain(..count) {
            to.int(ended.to_wire())?;
        }
        drop(to);
        drop(ended);
        Ok(call)
    }

    /// Wait for a slot, and take it.
    fn slot(&self, wants: Wants) -> Result<usize> {
        self.reclaim();
        let mut slots = lock(&self.slots);
        while slots.free == 0 {
            let waited = self.freed.wait_timeout(slots, REST);
            let (now, time) = waited.unwrap_or_else(|e| e.into_inner());
            slots = now;
            if slots.free == 0 && time.timed_out() {
                drop(slots);
                self.still_waits(wants)?;
                self.reclaim();
                slots = lock(&self.slots);
            }
        }
        // The lowest: its memory is likely to be in the caches.
        let slot = slots.free.trailing_zeros() as usize;
        slots.free &= !(1 << slot);
        Ok(slot)
    }

    /// Take back slots of calls that were given up and have been answered since, and
    /// end what they have made.
    fn reclaim(&self) {
        let mut slots = lock(&self.slots);
        let left = &mut slots.left;
        let answered = |slot: usize| self.area.control(slot).state.load(SeqCst) == ANSWERED;
        let back: [_; SLOTS] = std::array::from_fn(|slot| {
            let take = left[slot].is_some() && answered(slot);
            left[slot].take_if(|_| take)
        });
        drop(slots);
        for (slot, asked) in back.into_iter().enumerate() {
            let Some(asked) = asked else { continue };
            let answer = Call::new(self, slot, asked).take();
            if let Ok(Some(made)) = answer.and_then(|answer| answer.made()) {
                self.push_ended(made);
            }
        }
    }

    /// Wait for the answers that nobody waits for any more: until then those calls use
    /// files and mounts, which are busy. Some may never end, like a read of a pipe.
    pub(crate) fn settle(&self) -> Result<()> {
        let until = Instant::now() + SETTLE;
        loop {
            self.reclaim();
            let settled = lock(&self.slots).left.iter().all(Option::is_none);
            if settled || Instant::now() >= until {
                return Ok(());
            }
            self.still_waits(Wants::Until)?;
            // What they wait for may be that a file is closed.
            if !lock(&self.ended).is_empty() {
                self.send_ended(Wants::Until);
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// A call has been answered.
    pub(crate) fn release(&self, slot: usize) {
        lock(&self.slots).free |= 1 << slot;
        self.freed.notify_one();
    }

    /// Nobody waits for this call any more.
    pub(crate) fn leave(&self, slot: usize, asked: Asked) {
        lock(&self.slots).left[slot] = Some(asked);
    }

    pub(crate) fn patience(&self, slot: usize) -> &Patience {
        &self.patience[slot]
    }

    /// Whether an answer may still come, and is wanted.
    pub(crate) fn still_waits(&self, wants: Wants) -> Result<()> {
        if self.has_ended() {
            let death = self.death.get().cloned().unwrap_or_default();
            return Err(Failure::new(libc::ESHUTDOWN, death));
        }
        let interrupted = self.interrupted.as_ref();
        match wants == Wants::Until && interrupted.is_some_and(|interrupted| interrupted()) {
            true => Err(Failure::new(
                libc::EINTR,
                "the call was given up; the worker may still carry it out",
            )),
            false => Ok(()),
        }
    }

    fn push_ended(&self, what: Ended) -> bool {
        let mut ended = lock(&self.ended);
        ended.push(what);
        ended.len() >= MANY
    }

    /// A handle is done with.
    pub fn end(&self, handle: u32) {
        if handle == 0 || !self.owner.is_this() {
            return;
        }
        if self.push_ended(Ended::Handle(handle)) {
            self.send_ended(Wants::Until);
        }
    }

    /// A descriptor inside the kernel is to be closed with the next call.
    pub fn end_descriptor(&self, fd: u32) {
        self.push_ended(Ended::Descriptor(fd));
    }

    /// The same, and soon if there are many.
    pub fn close_later(&self, fd: u32, wants: Wants) {
        if self.owner.is_this() && self.push_ended(Ended::Descriptor(fd)) {
            self.send_ended(wants);
        }
    }

    /// Any call takes along what was ended; this one does nothing else.
    fn send_ended(&self, wants: Wants) {
        let _ = self
            .call_of(0, 0, wants)
            .and_then(|call| call.wait().map(drop));
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
            (_, Some(STUCK)) => {
                "it mounted, unmounted or looked for volumes and asked the image for nothing \
                 any more: it is damaged or hostile"
                    .into()
            }
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
        self.reclaim();
        let hangs = lock(&self.slots).left.iter().any(Option::is_some);
        if self.writes && self.death.get().is_none() && !hangs {
            // Mounts that were only dropped are written back.
            let _ = self
                .call(special::END, 0)
                .and_then(|call| call.wait().map(drop));
        }
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}
