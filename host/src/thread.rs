//! Host threads. The first call of a thread gives it a task inside; the end of
//! the thread takes the task away.

use crate::abi;
use crate::address::Virtual;
use crate::bias;
use crate::call::{Caller, Wait};
use crate::cpu;
use crate::fork;
use crate::inner::Inner;
use crate::thread_slot::{ThreadSlot, UNKNOWN};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A host thread: its number in the host, and above that the number of its process among
/// those that share the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tid(pub u64);

impl Tid {
    /// 0 in a kernel that is not shared.
    pub fn process(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// In the host.
    pub fn thread(self) -> i32 {
        self.0 as u32 as i32
    }
}

struct Attachment {
    kernel: Weak<Inner>,
    id: u64,
    /// `fork::count()` then: attachments of a parent's thread are not its copy's.
    forks: u64,
    caller: Caller,
}

/// The kernels that this thread is attached to.
#[derive(Default)]
struct Attachments(Vec<Attachment>);

impl Drop for Attachments {
    fn drop(&mut self) {
        LAST.try_with(|last| last.set(None)).ok();
        for attachment in self.0.drain(..) {
            match attachment.kernel.upgrade() {
                Some(kernel) if !kernel.is_foreign() && attachment.forks == fork::count() => {
                    kernel.detach(attachment.caller);
                }
                _ => {}
            }
        }
    }
}

/// This thread is the only one of a process that was just forked.
pub fn in_child() {
    LAST.try_with(|last| last.set(None)).ok();
}

thread_local! {
    static ATTACHMENTS: RefCell<Attachments> = RefCell::default();
    /// The kernel of this thread's last call, by id, and who it is there.
    static LAST: Cell<Option<(u64, Caller)>> = const { Cell::new(None) };
}

/// Who this thread is in `kernel`; attaches it when it calls for the first time.
#[inline]
pub fn caller(kernel: &Arc<Inner>, how: Wait) -> Result<Caller, i32> {
    match LAST.try_with(Cell::get) {
        Ok(Some((id, caller))) if id == kernel.id => Ok(caller),
        Ok(_) => find_or_attach(kernel, how),
        Err(_) => Err(libc::ESRCH),
    }
}

#[cold]
fn find_or_attach(kernel: &Arc<Inner>, how: Wait) -> Result<Caller, i32> {
    if kernel.is_foreign() {
        return Err(libc::ENOTSUP);
    }
    let caller = ATTACHMENTS
        .try_with(|list| {
            // Attaching goes through the kernel, which may call a device's callback.
            let mut list = list.try_borrow_mut().map_err(|_| libc::EDEADLK)?;
            // Slots of kernels that are gone are gone with them.
            let forks = fork::count();
            list.0
                .retain(|a| a.kernel.strong_count() > 0 && a.forks == forks);
            if let Some(known) = list.0.iter().find(|a| a.id == kernel.id) {
                return Ok(known.caller);
            }
            ensure_signal_stack();
            if cpu::is_inside() {
                return Err(libc::EDEADLK);
            }
            let caller = kernel.attach(how, None)?;
            list.0.push(Attachment {
                kernel: Arc::downgrade(kernel),
                id: kernel.id,
                forks,
                caller,
            });
            Ok(caller)
        })
        .unwrap_or(Err(libc::ESRCH))?;
    LAST.set(Some((kernel.id, caller)));
    Ok(caller)
}

/// Whether this thread is in a call to `kernel` on a CPU that it keeps.
pub fn is_in_a_call(kernel: &Inner) -> bool {
    let inside = |list: &RefCell<Attachments>| {
        // Borrowed: it is being attached, by a request.
        list.try_borrow().map_or(true, |list| {
            let theirs = list.0.iter().filter(|a| a.id == kernel.id);
            theirs
                .map(|a| a.caller.slot.inside().load(Ordering::Relaxed))
                .any(|inside| inside != 0)
        })
    };
    ATTACHMENTS.try_with(inside).unwrap_or(false)
}

/// Make this thread a process of its own, whose `struct tane_program` that is. Its
/// calls are the process's from now on, until [`forget`].
pub fn attach_process(kernel: &Arc<Inner>, program: u64) -> Result<(i32, Caller), i32> {
    let slot = kernel
        .area
        .take_slot(kernel.process())
        .ok_or(libc::EAGAIN)?;
    slot.program().store(program, Ordering::Relaxed);
    let pid = kernel.init_request(
        kernel.tid(),
        abi::NR_SPAWN,
        [slot.address(), 0],
        Wait::Inside,
    );
    if pid < 0 {
        kernel.area.give_slot(slot);
        return Err(-pid as i32);
    }
    Ok((pid as i32, adopt(kernel, slot)))
}

/// This thread's calls are those of the task that this slot is for.
pub fn adopt(kernel: &Arc<Inner>, slot: ThreadSlot) -> Caller {
    adopt_as(kernel, slot, kernel.tid())
}

/// The same, of a thread that knows its number.
pub fn adopt_as(kernel: &Arc<Inner>, slot: ThreadSlot, tid: Tid) -> Caller {
    slot.owner().store(bias::me(), Ordering::Relaxed);
    let caller = Caller::new(slot, tid);
    ATTACHMENTS.with(|list| {
        list.borrow_mut().0.push(Attachment {
            kernel: Arc::downgrade(kernel),
            id: kernel.id,
            forks: fork::count(),
            caller,
        });
    });
    LAST.set(Some((kernel.id, caller)));
    caller
}

/// This thread is no task's any more, which goes on elsewhere or has ended.
pub fn part(kernel: &Inner) {
    LAST.set(None);
    ATTACHMENTS.with(|list| list.borrow_mut().0.retain(|a| a.id != kernel.id));
}

/// The end of a thread that was attached as a program's: its task ends, if it has not.
pub fn forget(kernel: &Arc<Inner>) {
    LAST.set(None);
    let theirs = ATTACHMENTS.with(|list| {
        let mut list = list.borrow_mut();
        let at = list.0.iter().position(|a| a.id == kernel.id)?;
        Some(list.0.remove(at))
    });
    if let Some(attachment) = theirs {
        kernel.detach(attachment.caller);
    }
}

/// Ask kernel `id` to show a page of its user window. Attaches a thread that
/// never called: memory may be touched by any.
pub fn fault(id: u64, address: Virtual, error: u64) -> bool {
    let kernel = crate::inner::find(id);
    // Nothing is shown to processes that share a kernel.
    let Some(kernel) = kernel.filter(|kernel| kernel.member.is_none()) else {
        return false;
    };
    match caller(&kernel, Wait::Outside) {
        Ok(caller) => {
            let args = [address.0, error, 0, 0, 0, 0];
            kernel.request(caller, abi::NR_FAULT, &args, Wait::Outside) == 0
        }
        Err(_) => false,
    }
}

/// This thread, as the host numbers it.
pub fn tid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Service threads leave the program's signals to the program's threads; faults
/// and our own signal stay open.
pub fn block_signals() {
    // SAFETY: the set is ours.
    unsafe {
        let mut set: libc::sigset_t = MaybeUninit::zeroed().assume_init();
        libc::sigfillset(&raw mut set);
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGRTMAX() - 5,
        ] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

/// Whether this is a handler that runs on a signal stack.
pub fn is_on_signal_stack() -> bool {
    // SAFETY: queries this thread's signal stack.
    unsafe {
        let mut now: libc::stack_t = MaybeUninit::zeroed().assume_init();
        libc::sigaltstack(ptr::null(), &raw mut now) == 0 && now.ss_flags & libc::SS_ONSTACK != 0
    }
}

const SIGNAL_STACK: usize = 64 << 10;

/// A signal stack that is ours, taken away with the thread.
struct SignalStack(*mut libc::c_void);

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: ours since `ensure_signal_stack`.
        unsafe {
            let mut none: libc::stack_t = MaybeUninit::zeroed().assume_init();
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&raw const none, ptr::null_mut());
            libc::munmap(self.0, SIGNAL_STACK);
        }
    }
}

thread_local! {
    static SIGNAL_STACK_OF_OURS: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
}

/// Handlers must not run on a kernel stack, which is too small for the vector
/// registers that the host saves: a thread without a signal stack gets one.
pub fn ensure_signal_stack() {
    // SAFETY: queries and sets this thread's signal stack.
    unsafe {
        let mut now: libc::stack_t = MaybeUninit::zeroed().assume_init();
        libc::sigaltstack(ptr::null(), &raw mut now);
        if now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let stack = libc::mmap(
            ptr::null_mut(),
            SIGNAL_STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
            -1,
            0,
        );
        if stack == libc::MAP_FAILED {
            return;
        }
        let new = libc::stack_t {
            ss_sp: stack,
            ss_flags: 0,
            ss_size: SIGNAL_STACK,
        };
        libc::sigaltstack(&raw const new, ptr::null_mut());
        SIGNAL_STACK_OF_OURS
            .try_with(|own| *own.borrow_mut() = Some(SignalStack(stack)))
            .ok();
    }
}

impl Inner {
    /// A slot and a task for this host thread: process 1 clones it. With a window it is
    /// one whose calls reach nothing else. Errors are errno values.
    pub fn attach(&self, how: Wait, window: Option<Virtual>) -> Result<Caller, i32> {
        let tid = self.tid();
        let slot = self.area.take_slot(tid.process()).ok_or(libc::EAGAIN)?;
        let args = [slot.address(), window.map_or(0, u64::from)];
        let pid = self.init_request(tid, abi::NR_ATTACH, args, how);
        if pid < 0 {
            self.area.give_slot(slot);
            return Err(-pid as i32);
        }
        slot.owner().store(bias::me(), Ordering::Relaxed);
        Ok(Caller::new(slot, tid))
    }

    pub fn detach(&self, caller: Caller) {
        // What was the parent's before a fork stays the parent's.
        if caller.slot.process().load(Ordering::Relaxed) != self.process() {
            return;
        }
        // A program's may have ended by itself.
        let ended = [0, UNKNOWN].contains(&caller.slot.task().load(Ordering::Acquire));
        if !self.is_dead() && !ended {
            self.request(caller, abi::NR_DETACH, &[0; 6], Wait::Inside);
        }
        self.area.give_slot(caller.slot);
    }
}
