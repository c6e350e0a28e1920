//! Host threads. The first call of a thread gives it a task inside; the end of
//! the thread takes the task away.

use crate::abi;
use crate::address::Virtual;
use crate::bias;
use crate::call::{Caller, Wait};
use crate::cpu;
use crate::inner::Inner;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, Weak};

/// A host thread, as the host numbers it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tid(pub u32);

struct Attachment {
    kernel: Weak<Inner>,
    id: u64,
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
                Some(kernel) if !kernel.is_foreign() => kernel.detach(attachment.caller),
                _ => {}
            }
        }
    }
}

/// How many forks lie between this process and its first kernel. A child has a
/// copy of every handle, and the kernel's memory is shared; but the threads that
/// serve it are the parent's.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    LAST.try_with(|last| last.set(None)).ok();
    // Not the owner of a CPU that this thread's original keeps.
    cpu::set_gs(0);
}

/// To be called before the first kernel exists.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    // SAFETY: the handler only touches an atomic and a cell of its thread.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

/// Kernels of another value belong to a parent process.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
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
            if let Some(known) = list.0.iter().find(|a| a.id == kernel.id) {
                return Ok(known.caller);
            }
            // Slots of kernels that are gone are gone with them.
            list.0.retain(|a| a.kernel.strong_count() > 0);
            ensure_signal_stack();
            if cpu::is_inside() {
                return Err(libc::EDEADLK);
            }
            let caller = kernel.attach(tid(), how)?;
            list.0.push(Attachment {
                kernel: Arc::downgrade(kernel),
                id: kernel.id,
                caller,
            });
            Ok(caller)
        })
        .unwrap_or(Err(libc::ESRCH))?;
    LAST.set(Some((kernel.id, caller)));
    Ok(caller)
}

/// Ask kernel `id` to show a page of its user window. Attaches a thread that
/// never called: memory may be touched by any.
pub fn fault(id: u64, address: Virtual, error: u64) -> bool {
    let kernel = crate::inner::find(id);
    let Some(kernel) = kernel else {
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

pub fn tid() -> Tid {
    // SAFETY: no arguments.
    unsafe { Tid(libc::syscall(libc::SYS_gettid) as u32) }
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
            libc::SIGRTMAX() - 5,
        ] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
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
    /// A slot and a task for this host thread: process 1 clones it. Errors are
    /// errno values.
    fn attach(&self, tid: Tid, how: Wait) -> Result<Caller, i32> {
        let slot = self.area.take_slot().ok_or(libc::EAGAIN)?;
        let pid = self.init_request(tid, abi::NR_ATTACH, slot.address(), how);
        if pid < 0 {
            self.area.give_slot(slot);
            return Err(-pid as i32);
        }
        slot.owner().store(bias::me(), Ordering::Relaxed);
        Ok(Caller { slot, tid })
    }

    fn detach(&self, caller: Caller) {
        if !self.is_dead() {
            self.request(caller, abi::NR_DETACH, &[0; 6], Wait::Inside);
        }
        self.area.give_slot(caller.slot);
    }
}
