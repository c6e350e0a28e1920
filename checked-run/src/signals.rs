//! Faults of a module become traps; those of others stay theirs.

use crate::switch::{inside, number, tane_checked_left, Context};
use crate::Trap;
use std::io;
use std::sync::OnceLock;
use tane_checked::PAGE;

const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// From `getauxval(AT_HWCAP2)`: programs may set the GS base.
const FSGSBASE: u64 = 2;

static BEFORE: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

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
    BEFORE.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: structures of our own; the handler touches nothing that it interrupts
            // but a module.
            unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, &raw mut before);
                before
            }
        })
    });
    // Rust gives every thread of its own such a stack; others bring one.
    Ok(())
}

fn trap(signal: i32, at: usize, address: usize, context: &Context) -> Option<Trap> {
    if context.module_stack != 0 {
        return None;
    }
    let in_code = (context.code[0]..context.code[1]).contains(&at);
    let page = PAGE as usize;
    let guard = context.returns[0] - page..context.returns[0];
    match signal {
        // An empty slot leads to the window's first byte.
        libc::SIGSEGV if at == context.window => Some(Trap::Call),
        _ if !in_code => None,
        libc::SIGFPE => Some(Trap::Divide),
        libc::SIGILL => Some(Trap::Unreachable),
        _ if guard.contains(&address) => Some(Trap::Stack),
        _ => Some(Trap::Memory),
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, state: *mut libc::c_void) {
    let context = inside();
    // SAFETY: Linux gives both; a context is there as long as its thread is inside.
    unsafe {
        let state = &mut *state.cast::<libc::ucontext_t>();
        let registers = &mut state.uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as usize;
        if !context.is_null() {
            let address = (*info).si_addr() as usize;
            if let Some(trap) = trap(signal, at, address, &*context) {
                (*context).trap = number(trap);
                registers[libc::REG_RDI as usize] = context as i64;
                registers[libc::REG_RIP as usize] = tane_checked_left as *const () as i64;
                return;
            }
        }
        // Somebody else's: as it would have been without us, when it happens again.
        if let (Some(before), Some(i)) = (BEFORE.get(), SIGNALS.iter().position(|s| *s == signal)) {
            libc::sigaction(signal, &raw const before[i], std::ptr::null_mut());
        }
    }
}
