//! Into a module, and out of it again.

use crate::window::Window;
use crate::{Import, Memory, Trap};
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the way in and out needs to know. The assembly below has the offsets.
#[repr(C)]
pub struct Context {
    /// The host's stack while the module runs.
    host_stack: usize,
    /// The module's stack of returns while an import runs; 0 outside of one.
    pub module_stack: usize,
    /// What ended the module, or `NO_TRAP`.
    pub trap: usize,
    pub code: [usize; 2],
    pub thunks: [usize; 2],
    pub window: usize,
    pub returns: [usize; 2],
    /// Its time is over.
    pub expired: AtomicBool,
    pub memory: Memory,
    imports: Vec<Import>,
    stack: u64,
}

pub const NO_TRAP: usize = 0;
const TRAPS: [Trap; 6] = [
    Trap::Memory,
    Trap::Stack,
    Trap::Divide,
    Trap::Unreachable,
    Trap::Call,
    Trap::Time,
];

/// The number that stands for a trap.
pub fn number(trap: Trap) -> usize {
    TRAPS.iter().position(|t| *t == trap).map_or(0, |i| i + 1)
}

thread_local! {
    static INSIDE: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) };
}

/// The module that this thread is in, or null.
pub fn inside() -> *mut Context {
    INSIDE.get()
}

// tane_checked_enter(context, function, six arguments, top of the stack of returns, r15).
// On that stack: the context, and below it the address that the module returns to. The
// module can take neither, since at height 0 it can only return.
global_asm!(
    "
    .globl tane_checked_enter, tane_checked_left, tane_checked_import
tane_checked_enter:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov [rcx - 16], rdi
    lea rax, [rip + 1f]
    mov [rcx - 24], rax
    lea rsp, [rcx - 24]
    mov r15, r8
    mov r11, rsi
    mov r10, rdx
    mov rdi, [r10]
    mov rsi, [r10 + 8]
    mov rdx, [r10 + 16]
    mov rcx, [r10 + 24]
    mov r8, [r10 + 32]
    mov r9, [r10 + 40]
    xor eax, eax
    xor ebx, ebx
    xor ebp, ebp
    xor r10d, r10d
    xor r12d, r12d
    xor r13d, r13d
    xor r14d, r14d
    jmp r11
1:
    pop rdi
tane_checked_left:
    mov rsp, [rdi]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    cld
    vzeroupper
    ret

tane_checked_import:
    mov [r10 + 8], rsp
    mov rsp, [r10]
    push r10
    push r10
    push r10
    push r9
    push r8
    push rcx
    push rdx
    push rsi
    push rdi
    mov rdi, r10
    mov esi, r11d
    mov rdx, rsp
    call {import}
    mov r10, [rsp + 48]
    mov rsp, [r10 + 8]
    mov qword ptr [r10 + 8], 0
    xor ecx, ecx
    xor edx, edx
    xor esi, esi
    xor edi, edi
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    vzeroall
    ret
    ",
    import = sym import,
);

// The assembly knows the first two words of a context and no more.
#[allow(improper_ctypes)]
extern "C" {
    fn tane_checked_enter(
        context: *mut Context,
        function: usize,
        arguments: *const [u64; 6],
        returns: usize,
        stack: u64,
    ) -> u64;
    pub fn tane_checked_left();
    fn tane_checked_import();
}

/// What an import's slot leads to: r10 the context, r11 the number.
fn thunk(context: *const Context, number: u32) -> Vec<u8> {
    let out = tane_checked_import as *const () as usize;
    let mut code = vec![0x49, 0xba];
    code.extend((context as usize).to_le_bytes());
    code.extend([0x41, 0xbb]);
    code.extend(number.to_le_bytes());
    code.extend([0x48, 0xb8]);
    code.extend(out.to_le_bytes());
    code.extend([0xff, 0xe0]);
    code
}

unsafe extern "C" fn import(context: *mut Context, number: u32, arguments: *const [u64; 6]) -> u64 {
    // SAFETY: the thunk was made for this context, which is in `enter`, further up.
    let (context, arguments) = unsafe { (&mut *context, *arguments) };
    let run = || context.imports[number as usize](arguments, &context.memory);
    // The module's frames cannot be unwound.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|_| std::process::abort());
    // It may have called a kernel.
    if gs_base() != context.window {
        set_gs_base(context.window);
    }
    result
}

fn gs_base() -> usize {
    let base: usize;
    // SAFETY: `Window` is only used where the processor and Linux have these.
    unsafe { asm!("rdgsbase {}", out(reg) base, options(nomem, nostack)) };
    base
}

fn set_gs_base(base: usize) {
    // SAFETY: as above; nothing of the host's is found by it.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nomem, nostack)) };
}

impl Context {
    pub fn new(window: &mut Window, memory: Memory) -> Box<Context> {
        Box::new(Context {
            host_stack: 0,
            module_stack: 0,
            trap: NO_TRAP,
            code: window.code,
            thunks: window.thunks(),
            window: window.start().as_ptr() as usize,
            returns: window.returns(),
            expired: AtomicBool::new(false),
            memory,
            imports: Vec::new(),
            stack: window.end(),
        })
    }

    /// Takes in one more function of the host's: the code that leads to it.
    pub fn add(self: &mut Box<Context>, import: Import) -> Vec<u8> {
        self.imports.push(import);
        thunk(&raw const **self, self.imports.len() as u32 - 1)
    }

    /// Calls the function at this address.
    pub fn enter(&mut self, function: usize, arguments: [u64; 6]) -> Result<u64, Trap> {
        let before = gs_base();
        let context: *mut Context = self;
        let outer = INSIDE.replace(context);
        (self.trap, self.module_stack) = (NO_TRAP, 0);
        self.expired.store(false, Ordering::Relaxed);
        set_gs_base(self.window);
        // SAFETY: the module was checked and mapped as the checker demands.
        let result = unsafe {
            tane_checked_enter(context, function, &arguments, self.returns[1], self.stack)
        };
        set_gs_base(before);
        INSIDE.set(outer);
        match self.trap {
            NO_TRAP => Ok(result),
            number => Err(TRAPS[number - 1]),
        }
    }
}
