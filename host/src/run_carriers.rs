//! Host threads that run programs, as many as have something to run. A program's thread
//! whose call waits in the kernel is parked, and its host thread, its carrier, goes on with
//! one that has its answer: so two processes that talk to each other take turns on one
//! host thread, and a child runs on that of the parent which waits for it. Nobody has to
//! be woken for that. Another carrier is woken, or made, when there is something to run
//! and this one stays with its own.
//!
//! A parked guest is listed once its answer is there (`run_parked.rs`), and one carrier takes
//! it out of the list.

use crate::abi;
use crate::call::{Begun, Caller, Wait, GONE};
use crate::cpu::Cpu;
use crate::futex;
use crate::inner::Inner;
use crate::run;
use crate::run_block::Owned;
use crate::run_guest::{After, Guest};
use crate::run_parked::{self, Parkings};
use crate::spin::Spin;
use crate::thread::{self, Tid};
use crate::thread_slot::ThreadSlot;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Carriers without anything to run; more of them end.
const MOST_IDLE: usize = 4;

#[derive(Default)]
pub struct Carriers {
    lists: Mutex<Lists>,
    /// Guests in the list.
    ready: AtomicUsize,
    /// Guests, wherever they are.
    guests: AtomicUsize,
    parkings: Parkings,
}

#[derive(Default)]
struct Lists {
    ready: VecDeque<ThreadSlot>,
    idle: Vec<Arc<AtomicU32>>,
    /// Carriers that are on their way to the list.
    coming: usize,
}

// SAFETY: slots are plain places of the area.
unsafe impl Send for Lists {}

impl Lists {
    /// One that was on its way, or that was roused with all others at the end and counts
    /// as one: then those that come later were counted already.
    fn is_there(&mut self) {
        self.coming = self.coming.saturating_sub(1);
    }
}

thread_local! {
    /// Whether this thread is a carrier, which looks for ready guests by itself.
    static CARRIES: Cell<bool> = const { Cell::new(false) };
}

/// A guest with the answer it waited for, or a new one.
pub struct Turn {
    pub caller: Caller,
    pub guest: Guest,
    pub answer: Option<(After, i64)>,
}

impl Carriers {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn has_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst) != 0
    }

    /// One more guest.
    pub fn add_guest(&self) {
        self.guests.fetch_add(1, Ordering::SeqCst);
    }

    /// One less; after the last no carrier stays.
    pub fn drop_guest(&self) {
        if self.guests.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.wake_all();
        }
    }

    /// The kernel has ended, or its guests have.
    pub fn wake_all(&self) {
        self.lists().idle.drain(..).for_each(|word| rouse(&word));
    }
}

fn rouse(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
    futex::wake(word);
}

/// The host operation `wake`, for a slot whose `sleeping` is this. Inside a CPU.
pub fn answered(kernel: &Inner, slot: ThreadSlot) {
    if run_parked::is_to_be_listed(slot) {
        let carriers = &kernel.carriers;
        carriers.lists().ready.push_back(slot);
        carriers.ready.fetch_add(1, Ordering::SeqCst);
        kernel.put_off_guests();
    } else if slot.sleeping().load(Ordering::SeqCst) == 1 {
        futex::wake(slot.state());
    }
}

/// A new guest, which goes on when the kernel has answered what is posted in its slot.
pub fn park_new(kernel: &Inner, slot: ThreadSlot) {
    kernel.carriers.add_guest();
    kernel.carriers.parkings.park(slot);
}

impl Inner {
    /// See that somebody runs the guests that are ready. Outside of every CPU.
    pub fn provide_carriers(&self) {
        let mut missing = 0;
        {
            let mut lists = self.carriers.lists();
            while lists.ready.len() > lists.coming {
                lists.coming += 1;
                match lists.idle.pop() {
                    Some(word) => rouse(&word),
                    None => missing += 1,
                }
            }
        }
        for _ in 0..missing {
            let kernel = crate::inner::find(self.id);
            let made = kernel.is_some_and(|kernel| run::start_carrier(kernel).is_ok());
            if !made {
                // Whoever is done with its own guest takes it.
                self.carriers.lists().is_there();
            }
        }
    }

    /// The same, of a thread that has come out of a CPU.
    pub fn see_to_guests(&self) {
        if self.carriers.has_ready() && !CARRIES.with(Cell::get) {
            self.provide_carriers();
        }
    }
}

/// A carrier: runs guests until there are none for it.
pub fn carry(kernel: &Arc<Inner>, block: &Owned, first: Option<Turn>) {
    CARRIES.with(|carries| carries.set(true));
    let tid = kernel.tid();
    let mut turn = first;
    while let Some(now) = turn.take().or_else(|| next(kernel, tid)) {
        run::go_on(kernel, block, now);
    }
    CARRIES.with(|carries| carries.set(false));
    kernel.see_to_guests();
}

/// A carrier has been roused or made: what it was for is its own to look for now.
pub fn has_come(kernel: &Inner) {
    kernel.carriers.lists().is_there();
}

/// Wait for a guest that is ready. None: this carrier is not needed.
fn next(kernel: &Arc<Inner>, tid: Tid) -> Option<Turn> {
    let carriers = &kernel.carriers;
    loop {
        let word = Arc::new(AtomicU32::new(0));
        {
            let mut lists = carriers.lists();
            if let Some(slot) = lists.ready.pop_front() {
                carriers.ready.fetch_sub(1, Ordering::SeqCst);
                drop(lists);
                if let Some(turn) = take(kernel, slot, tid) {
                    return Some(turn);
                }
                continue;
            }
            if kernel.is_dead() {
                drop(lists);
                end_parked(kernel);
                return None;
            }
            if carriers.guests.load(Ordering::SeqCst) == 0 || lists.idle.len() >= MOST_IDLE {
                return None;
            }
            lists.idle.push(Arc::clone(&word));
        }
        // The end of all does not look into the list a second time.
        while word.load(Ordering::SeqCst) == 0
            && !kernel.is_dead()
            && carriers.guests.load(Ordering::SeqCst) != 0
        {
            futex::wait(&word, 0, None);
        }
        let mut lists = carriers.lists();
        let was_listed = lists.idle.iter().position(|idle| Arc::ptr_eq(idle, &word));
        match was_listed {
            Some(at) => drop(lists.idle.swap_remove(at)),
            None => lists.is_there(),
        }
    }
}

/// A guest out of the list is this thread's.
fn take(kernel: &Arc<Inner>, slot: ThreadSlot, tid: Tid) -> Option<Turn> {
    let guest = Guest::of(slot)?;
    slot.sleeping().store(0, Ordering::SeqCst);
    slot.state().store(abi::THREAD_IDLE, Ordering::Relaxed);
    // SAFETY: its state was seen to be DONE by who listed it, and the list's lock has
    // passed that on.
    let answer = unsafe { slot.answer() };
    // SAFETY: the guest is this thread's now.
    let (after, counted) = unsafe {
        let state = guest.state();
        ((*state).after, std::mem::take(&mut (*state).counted))
    };
    if counted {
        kernel.waiting.fetch_sub(1, Ordering::SeqCst);
    }
    let caller = thread::adopt_as(kernel, slot, tid);
    guest.carrier().store(caller.tid.0 as u32, Ordering::SeqCst);
    Some(Turn {
        caller,
        guest,
        answer: Some((after, answer)),
    })
}

/// The kernel has ended, and nobody will go on with these.
fn end_parked(kernel: &Arc<Inner>) {
    let mut parked = Vec::new();
    kernel.area.with_programs(|slot| {
        if run_parked::unpark(slot) {
            parked.push(slot);
        }
    });
    for slot in parked {
        end(kernel, slot);
    }
}

/// The end of a guest that nobody runs.
pub fn end(kernel: &Inner, slot: ThreadSlot) {
    let guest = Guest::of(slot);
    kernel.area.give_slot(slot);
    if let Some(guest) = guest {
        // SAFETY: its slot, by which others find it, is nobody's.
        unsafe { guest.free() };
    }
    kernel.carriers.drop_guest();
}

/// What a guest asks for, and its answer, unless it has to be waited for: then the guest
/// is parked, and no longer this thread's.
pub struct Asking<'a> {
    pub kernel: &'a Arc<Inner>,
    pub caller: Caller,
    pub guest: Guest,
    pub after: After,
}

impl Asking<'_> {
    /// By message: for what is no system call too.
    pub fn request(&self, nr: i64, args: &[u64; 6]) -> Option<i64> {
        match self.kernel.post(self.caller, nr, args, Wait::Inside) {
            Ok(cpu) => self.wait(cpu, false),
            Err(answer) => Some(answer),
        }
    }

    pub fn call(&self, nr: i64, args: &[u64; 6]) -> Option<i64> {
        if self.is_to_account(nr) {
            return self.request(nr, args);
        }
        match self.kernel.begin(self.caller, nr, args) {
            Begun::Done(answer) => Some(answer),
            Begun::Switched(cpu, reason) => self.finish(cpu, reason),
            Begun::Not => self.request(nr, args),
        }
    }

    /// Whether the kernel is to know how long the program's code has run: it takes that
    /// from what is posted.
    fn is_to_account(&self, nr: i64) -> bool {
        const MUCH: u64 = 1_000_000;
        let asks = [
            libc::SYS_times,
            libc::SYS_getrusage,
            libc::SYS_exit,
            libc::SYS_exit_group,
        ];
        match self.guest.ran() {
            0 => false,
            ran => ran >= MUCH || asks.contains(&nr),
        }
    }

    /// As [`Inner::finish`].
    pub fn finish(&self, cpu: Cpu, reason: u64) -> Option<i64> {
        self.kernel.waiting.fetch_add(1, Ordering::SeqCst);
        self.kernel.run(cpu, self.caller, reason);
        let answer = self.wait(cpu, true);
        if answer.is_some() {
            self.kernel.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        answer
    }

    fn wait(&self, cpu: Cpu, counted: bool) -> Option<i64> {
        let (kernel, slot) = (self.kernel, self.caller.slot);
        let mut spin = Spin::new(slot, cpu, kernel.spin);
        loop {
            if slot.state().load(Ordering::Acquire) == abi::THREAD_DONE {
                slot.state().store(abi::THREAD_IDLE, Ordering::Relaxed);
                // SAFETY: the kernel is done with the slot.
                return Some(unsafe { slot.answer() });
            }
            if kernel.is_dead() {
                return Some(GONE);
            }
            if cpu.pending().load(Ordering::Relaxed) != 0 && cpu.try_lock_online() {
                if kernel.is_dead() {
                    cpu.unlock();
                    continue;
                }
                kernel.occupy(cpu, self.caller.tid);
                let reason = (kernel.gate.enter)(cpu.ptr()).reason;
                kernel.run(cpu, self.caller, reason);
                continue;
            }
            if !kernel.carriers.has_ready() && spin.goes_on() {
                continue;
            }
            spin.stop();
            if self.park(counted) {
                return None;
            }
        }
    }

    /// False: its answer has come, and it is this thread's still.
    fn park(&self, counted: bool) -> bool {
        let (kernel, slot) = (self.kernel, self.caller.slot);
        // A CPU that is kept is kept by a thread.
        for cpu in kernel.cpus() {
            if let Some(kept) = cpu.enter_biased() {
                cpu.unbias(kept);
                kernel.leave(*cpu, abi::EXIT_USER);
            }
        }
        // SAFETY: the guest is this thread's yet.
        unsafe {
            let state = self.guest.state();
            (*state).after = self.after;
            (*state).counted = counted;
        }
        self.guest.carrier().store(0, Ordering::SeqCst);
        thread::part(kernel);
        let parking = kernel.carriers.parkings.park(slot);
        let came = slot.state().load(Ordering::SeqCst) == abi::THREAD_DONE || kernel.is_dead();
        let taken_back = came && parking.take_back(slot);
        if taken_back {
            thread::adopt_as(kernel, slot, self.caller.tid);
            let tid = self.caller.tid.0 as u32;
            self.guest.carrier().store(tid, Ordering::SeqCst);
        }
        !taken_back
    }
}
