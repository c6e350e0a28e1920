//! Faults of a module become traps, and so does the end of its time; faults of others
//! stay theirs.

use crate::switch::{inside, number, tane_checked_left, Context};
use crate::Trap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use tane_checked::PAGE;
use tane_host::{show_lent, Virtual};

/// From `getauxval(AT_HWCAP2)`: programs may set the GS base.
const FSGSBASE: u64 = 2;

/// How many forks lie between this process and the first one that had a module.
static FORKS: AtomicU64 = AtomicU64::new(0);

static INSTALLED: OnceLock<()> = OnceLock::new();

/// What modules need, and this machine lacks; none if they run here.
pub fn lacks() -> Option<&'static str> {
    // SAFETY: it only reads.
    let can = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    let can = can && std::is_x86_feature_detected!("avx");
    (!can).then_some("modules need AVX, and a Linux that lets programs set the GS base")
}

/// Installs the handler, once, and gives this thread a stack for it.
pub fn install() -> io::Result<()> {
    if let Some(what) = lacks() {
        return Err(io::Error::other(what));
    }
    INSTALLED.get_or_init(|| {
        // SAFETY: the function is safe to be called in a child.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        // SAFETY: a structure of our own; the handler touches nothing that it interrupts but
        // a module.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_time as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(time_signal(), &raw const action, std::ptr::null_mut());
        }
        tane_host::look_first(on_fault);
    });
    // Those of Rust and Go have one; those of C and Python have none.
    tane_host::ensure_signal_stack();
    Ok(())
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that a child of fork(2) does not share with its parent.
#[inline]
pub fn process() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

fn trap(signal: i32, at: usize, address: usize, context: &Context) -> Option<Trap> {
    if context.module_stack != 0 {
        return None;
    }
    let in_code = (context.code[0]..context.code[1]).contains(&at);
    let page = PAGE as usize;
    let guard = context.returns[0] - page..context.returns[0];
    let [low, high] = context.memory.guard();
    let below = context.window + low as usize..context.window + high as usize;
    match signal {
        // An empty slot leads to the window's first byte.
        libc::SIGSEGV if at == context.window => Some(Trap::Call),
        _ if !in_code => None,
        libc::SIGFPE => Some(Trap::Divide),
        libc::SIGILL => Some(Trap::Unreachable),
        _ if guard.contains(&address) => Some(Trap::Stack),
        _ if below.contains(&address) => Some(Trap::Stack),
        _ => Some(Trap::Memory),
    }
}

/// An address within the call that the top of the stack of returns is behind of.
fn return_address(context: &Context, top: i64) -> usize {
    let [low, high] = context.returns;
    let top = top as usize;
    match (low..high).contains(&top) {
        // SAFETY: a word of that stack, which is the module's thread's, and that waits.
        true => unsafe { (top as *const usize).read() }.wrapping_sub(1),
        false => 0,
    }
}

/// What is no fault of a module's is left to others.
unsafe fn on_fault(signal: i32, info: *mut libc::siginfo_t, state_of: *mut libc::c_void) -> bool {
    let context = inside();
    if context.is_null() {
        return false;
    }
    // SAFETY: Linux gives both; a context is there as long as its thread is inside.
    unsafe {
        let state = &mut *state_of.cast::<libc::ucontext_t>();
        let registers = &mut state.uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as usize;
        let address = (*info).si_addr() as usize;
        let own =
            (*context).module_stack == 0 && ((*context).code[0]..(*context).code[1]).contains(&at);
        let error = registers[libc::REG_ERR as usize] as u64;
        if signal == libc::SIGSEGV && own && show_lent(Virtual(address as u64), error) {
            return true;
        }
        let Some(trap) = trap(signal, at, address, &*context) else {
            return false;
        };
        (*context).trap = number(trap);
        (*context).at = match trap {
            // Where it was called from, if it was not jumped to.
            Trap::Call => return_address(&*context, registers[libc::REG_RSP as usize]),
            _ => at,
        };
        registers[libc::REG_RDI as usize] = context as i64;
        registers[libc::REG_RIP as usize] = tane_checked_left as *const () as i64;
    }
    true
}

/// What tells a thread that its module's time is over.
pub fn time_signal() -> i32 {
    libc::SIGRTMAX() - 6
}

/// A module that has used up its time ends where it runs code of its own. In a kernel, or
/// in a function of the host's, it goes on: whoever sent this sends another.
extern "C" fn on_time(_: i32, _: *mut libc::siginfo_t, state: *mut libc::c_void) {
    let context = inside();
    // SAFETY: as for on_fault.
    unsafe {
        let registers = &mut (*state.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as usize;
        if context.is_null() || !(*context).expired.load(Ordering::Relaxed) {
            return;
        }
        let its = [(*context).code, (*context).thunks];
        if (*context).module_stack == 0 && its.iter().any(|code| (code[0]..code[1]).contains(&at)) {
            (*context).trap = number(Trap::Time);
            (*context).at = at;
            registers[libc::REG_RDI as usize] = context as i64;
            registers[libc::REG_RIP as usize] = tane_checked_left as *const () as i64;
        }
    }
}

/// The same after a call of the kernel's that waited, where a signal finds no code of the
/// module's: where to go on, with the context.
pub fn after_call(context: usize) -> Option<usize> {
    let inside = inside();
    // SAFETY: a context is there as long as its thread is inside.
    let expired = inside as usize == context
        && unsafe { (*inside).expired.load(Ordering::Relaxed) && (*inside).module_stack == 0 };
    if !expired {
        return None;
    }
    // SAFETY: as above; the module does not run.
    unsafe { (*inside).trap = number(Trap::Time) };
    Some(tane_checked_left as *const () as usize)
}
