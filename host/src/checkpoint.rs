//! Checkpoints: a running kernel goes back, in place, to what it was.
//!
//! What it was is its memory (mirror.rs), what its CPUs, threads and devices have in the
//! area, and what devices keep on the host's side. Time goes on, unless it stands still.

use crate::abi;
use crate::call::{Caller, Wait};
use crate::cpu;
use crate::inner::Inner;
use crate::kernel::Kernel;
use crate::levels::{has_same_devices, Checkpoints, CpuState, Level, SlotState};
use crate::mirror::{Mirror, Pages};
use crate::thread;
use crate::thread_slot::ThreadSlot;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

/// Why there is no checkpoint, or no way back to it. Nothing has changed then, unless the
/// kernel has ended.
#[derive(Debug)]
pub struct CheckpointError {
    /// `EBUSY` something is under way; `ENOTSUP` not with this kernel; `ESTALE` the
    /// checkpoint is none any more; `EDEADLK` the kernel waits for this very thread;
    /// `ESHUTDOWN` it has ended; else an error of the host's.
    pub errno: i32,
    text: String,
}

impl CheckpointError {
    pub(crate) fn new(errno: i32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { errno, text }
    }

    pub(crate) fn ended() -> Self {
        Self::new(libc::ESHUTDOWN, "the kernel has ended")
    }

    pub(crate) fn host(what: &str, error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(match error.kind() {
            io::ErrorKind::Unsupported => libc::ENOTSUP,
            io::ErrorKind::StorageFull => libc::ENOSPC,
            _ => libc::EIO,
        });
        Self::new(errno, format!("{what}: {error}"))
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CheckpointError {}

/// A state that a kernel can go back to, any number of times, until this is dropped or the
/// kernel has gone back to an older one.
#[derive(Debug)]
pub struct Checkpoint {
    kernel: Weak<Inner>,
    id: u64,
    moment: u64,
}

impl Checkpoint {
    /// The moment ([`Kernel::moment`]) that ended with it.
    pub fn moment(&self) -> u64 {
        self.moment
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel.upgrade().filter(|k| !k.is_foreign()) {
            kernel.checkpoints().release(self.id);
            kernel.keep_slots(&kernel.checkpoints());
        }
    }
}

impl Kernel {
    /// Remember what the kernel is now, with all that is mounted and open. Waits until no
    /// call of another thread is under way and every disk has answered, and keeps new
    /// calls waiting meanwhile.
    ///
    /// The first one copies the kernel's memory. From then on the kernel's first write to
    /// each page costs a fault of the host's, and a checkpoint what was written since the
    /// one before.
    ///
    /// Errors: those of [`CheckpointError`]. Calls that wait for something inside; disks
    /// whose content cannot go back, network cards; programs, modules, processes that
    /// share the kernel.
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        self.checkpoint_and(|_| {})
    }

    /// The same. `note` is called when there is one, and before any thread can call the kernel,
    /// with the number of the moment that ends with it; it makes no call itself.
    pub fn checkpoint_and(&self, note: impl FnOnce(u64)) -> Result<Checkpoint, CheckpointError> {
        let kernel = self.inner();
        let caller = kernel.may_checkpoint()?;
        let mut all = kernel.checkpoints();
        let quiet = kernel.quieten(caller.tid)?;
        kernel.has_no_programs()?;
        let devices = kernel.save_devices()?;
        let memory = &kernel.memory;
        let cannot = |e: io::Error| CheckpointError::host("the memory cannot be looked at", &e);
        let Checkpoints { mirror, levels, .. } = &mut *all;
        match mirror {
            None => {
                let new = Mirror::new(memory, kernel.header.text_end, kernel.compare);
                let cannot = |e| CheckpointError::host("no memory for a checkpoint", &e);
                *mirror = Some(new.map_err(cannot)?);
                memory.hide_all().map_err(cannot)?;
                memory.frames.remember(memory.ram_size);
            }
            Some(mirror) => {
                let changed = mirror.changed(memory).map_err(cannot)?;
                if memory.frames.any() {
                    memory.hide_all().map_err(cannot)?;
                    memory.frames.forget();
                }
                let older = levels.last_mut().map(|level| &mut level.pages);
                mirror.advance(&changed, older).map_err(cannot)?;
            }
        }
        if all.levels.last().is_some_and(|level| level.released) {
            let at = all.levels.len() - 1;
            all.merge(at);
        }
        all.last_id += 1;
        let id = all.last_id;
        all.levels.push(Level {
            id,
            released: false,
            pages: Pages::new(),
            cpus: kernel.cpus().iter().map(|cpu| CpuState::of(*cpu)).collect(),
            slots: kernel.area.used_slots().filter_map(SlotState::of).collect(),
            devices,
            clock: kernel.clock.reading(),
            code: memory.frames.code(),
        });
        kernel.keep_slots(&all);
        let moment = kernel.moments.now();
        note(moment);
        kernel.next_moment();
        drop(quiet);
        Ok(Checkpoint {
            kernel: Arc::downgrade(kernel),
            id,
            moment,
        })
    }

    /// Be again what the kernel was at this checkpoint. Newer ones are none any more; this
    /// one stays.
    ///
    /// Threads that called for the first time since then get a task anew with their next
    /// call. What was opened or mapped since is no more; what was closed since is open
    /// again. Numbers that the kernel draws by chance may come a second time.
    ///
    /// Errors: those of [`CheckpointError`]: the same as for [`Self::checkpoint`], and
    /// devices that were added or removed since.
    pub fn rollback(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.rollback_and(checkpoint, |_| {})
    }

    /// The same. `note` is called when the kernel has gone back, and before any thread can
    /// call it, with the number of the moment that ends; it makes no call itself.
    pub fn rollback_and(
        &self,
        checkpoint: &Checkpoint,
        note: impl FnOnce(u64),
    ) -> Result<(), CheckpointError> {
        let kernel = self.inner();
        if checkpoint.kernel.as_ptr() != Arc::as_ptr(kernel) {
            let text = "the checkpoint is of another kernel";
            return Err(CheckpointError::new(libc::EINVAL, text));
        }
        let caller = kernel.may_checkpoint()?;
        let mut all = kernel.checkpoints();
        let known = |level: &Level| level.id == checkpoint.id;
        let Some(at) = all.levels.iter().position(known) else {
            let text = "the kernel has gone back to an older checkpoint since";
            return Err(CheckpointError::new(libc::ESTALE, text));
        };
        let quiet = kernel.quieten(caller.tid)?;
        kernel.has_no_programs()?;
        let level = &all.levels[at];
        // None is added or taken away meanwhile.
        let devices = kernel.hold_doorbells();
        has_same_devices(&devices, level)?;
        let memory = &kernel.memory;
        if memory.frames.code() != level.code {
            let text = "the kernel's code was changed since, by a probe or tracer, which \
                        cannot be undone";
            return Err(CheckpointError::new(libc::ENOTSUP, text));
        }
        let cannot = |e: io::Error| CheckpointError::host("the memory cannot be looked at", &e);
        let mirror = all.mirror.as_ref().expect("with the first level");
        let changed = mirror.changed(memory).map_err(cannot)?;
        // From here on there is no way but this one.
        let mut gone = Ok(());
        if memory.frames.any() {
            gone = memory.hide_all();
            memory.frames.forget();
        }
        for device in level.devices.iter().flatten() {
            gone = gone.and_then(|()| device.saved.roll_back());
        }
        if gone.is_ok() {
            gone = all.go_back(at, &changed);
        }
        if let Err(error) = gone {
            drop((devices, quiet, all));
            let text = format!("a rollback failed half-way: {error}");
            kernel.stop(&text);
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            return Err(CheckpointError::new(errno, text + "; the kernel was ended"));
        }
        let level = &all.levels[at];
        let ended = kernel.put_back(level);
        kernel.keep_slots(&all);
        note(kernel.moments.now());
        kernel.next_moment();
        drop((devices, quiet));
        for cpu in kernel.cpus() {
            cpu.kick();
        }
        // Their threads are not there to end them. Nobody else does: the lock is held.
        for slot in ended {
            let tid = caller.tid;
            let caller = Caller::new(slot, tid);
            kernel.request(caller, abi::NR_DETACH, &[0; 6], Wait::Inside);
        }
        drop(all);
        Ok(())
    }
}

impl Inner {
    pub(crate) fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        self.checkpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Who this thread is, if it may ask for such a thing.
    fn may_checkpoint(self: &Arc<Self>) -> Result<Caller, CheckpointError> {
        let refused = |text: &str| Err(CheckpointError::new(libc::ENOTSUP, text));
        if self.is_dead() {
            return Err(CheckpointError::ended());
        }
        if self.member.is_some() {
            return refused("processes share this kernel, and each has state of its own");
        }
        if self.is_foreign() {
            return refused("the kernel is that of this process's parent");
        }
        if cpu::is_inside() || thread::is_in_a_call(self) {
            let text = "within what the kernel calls, the kernel waits for this very thread";
            return Err(CheckpointError::new(libc::EDEADLK, text));
        }
        thread::caller(self, Wait::Inside)
            .map_err(io::Error::from_raw_os_error)
            .map_err(|error| CheckpointError::host("this thread cannot call", &error))
    }

    fn has_no_programs(&self) -> Result<(), CheckpointError> {
        let runs = |slot: ThreadSlot| slot.program().load(Ordering::SeqCst) != 0;
        if self.area.used_slots().any(runs) || self.modules.load(Ordering::SeqCst) != 0 {
            let text = "programs or modules run on this kernel: their own memory cannot go back";
            return Err(CheckpointError::new(libc::EBUSY, text));
        }
        Ok(())
    }

    /// A thread that was attached after the checkpoint to which the kernel went back.
    pub(crate) fn attach_again(&self, caller: Caller, how: Wait) -> Result<(), i64> {
        let args = [caller.slot.address(), 0];
        match self.init_request(caller.tid, abi::NR_ATTACH, args, how) {
            errno @ ..0 => Err(errno),
            _ => Ok(()),
        }
    }
}
