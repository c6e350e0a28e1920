//! Into a module, and out of it again.

use crate::window::Window;
use crate::{Import, Memory, Trap};
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// What the way in and out needs to know. The assembly below has the offsets.
#[repr(C)]
pub struct Context {
    /// The host's stack while the module runs.
    host_stack: usize,
    /// The module's stack of returns while an import runs; 0 outside of one.
    pub module_stack: usize,
    /// What ended the module, or `NO_TRAP`.
    pub trap: usize,
    /// What it said when it ended itself.
    exit: usize,
    /// Where on the stack of returns the innermost `tane_try` is; 0 outside of one.
    catch: usize,
    /// Masks an index of the table, whose address follows.
    mask: usize,
    table: usize,
    /// Below this `tane_try` has no room on the stack of returns.
    room: usize,
    /// Where in the code the module was when it was ended, or 0.
    pub at: usize,
    pub code: [usize; 2],
    pub thunks: [usize; 2],
    pub window: usize,
    pub returns: [usize; 2],
    /// Its time is over.
    pub expired: AtomicBool,
    pub memory: Memory,
    imports: Vec<Import>,
    stack: u64,
    /// [`INSIDE`] of its thread.
    inside: *const Cell<*mut Context>,
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
/// Those that the assembly knows.
const STACK: usize = 2;
const UNREACHABLE: usize = 4;
const EXIT: usize = TRAPS.len() + 1;

/// The number that stands for a trap.
pub fn number(trap: Trap) -> usize {
    TRAPS.iter().position(|t| *t == trap).map_or(0, |i| i + 1)
}

/// What a module may import of the loader itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// `void tane_exit(int)`: the module's end.
    Exit,
    /// `int tane_try(void (*)(void *, void *), void *, void *)`: calls the function; 1 if
    /// that, or what it called, threw.
    Try,
    /// `void tane_throw(void)`: ends what the innermost `tane_try` has called.
    Throw,
}

impl Own {
    pub fn find(name: &str) -> Option<Own> {
        match name {
            "tane_exit" => Some(Own::Exit),
            "tane_try" => Some(Own::Try),
            "tane_throw" => Some(Own::Throw),
            _ => None,
        }
    }
}

thread_local! {
    static INSIDE: Cell<*mut Context> = const { Cell::new(std::ptr::null_mut()) };
}

/// The module that this thread is in, or null.
pub fn inside() -> *mut Context {
    INSIDE.get()
}

// tane_checked_enter(context, function, six arguments, top of the stack of returns, r15).
// On that stack: the host's rsp, and below it the address that the module returns to, by a call
// so that the processor knows where each return goes. The
// module can take neither, since at height 0 it can only return. The same holds of what
// tane_try puts there: its frame is left by the return of what it calls, or by a throw while
// that has not returned, and the module goes on behind its call of tane_try either way.
//
// Vector registers are cleared one by one, which takes less time than vzeroall, and then said to
// be clean. On the way back the host's rsp is read once, as all that follows waits for it.
global_asm!(
    "
    .macro tane_checked_clear_vectors
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vpxor xmm\\n, xmm\\n, xmm\\n
    .endr
    vzeroupper
    .endm
    .globl tane_checked_enter, tane_checked_left, tane_checked_import
    .globl tane_checked_exit, tane_checked_try, tane_checked_throw
tane_checked_enter:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov [rcx - 16], rsp
    lea rsp, [rcx - 16]
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
    tane_checked_clear_vectors
    call r11
    mov rsp, [rsp]
4:
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    vzeroupper
    ret

tane_checked_left:
    cld
    mov rsp, [rdi]
    jmp 4b

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
    cmp qword ptr [r10 + 16], {no_trap}
    jne 5f
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
    tane_checked_clear_vectors
    ret
5:
    mov qword ptr [r10 + 8], 0
    mov rdi, r10
    jmp tane_checked_left

tane_checked_exit:
    mov [r10 + 24], rdi
    mov eax, {exit}
2:
    mov [r10 + 16], rax
    mov rdi, r10
    jmp tane_checked_left

tane_checked_try:
    mov eax, {stack}
    cmp rsp, [r10 + 56]
    jb 2b
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    push qword ptr [r10 + 32]
    push r10
    mov [r10 + 32], rsp
    mov eax, edi
    and rax, [r10 + 40]
    mov r11, [r10 + 48]
    mov rdi, rsi
    mov rsi, rdx
    xor r10d, r10d
    call [r11 + rax*8]
    xor eax, eax
3:
    pop r10
    pop qword ptr [r10 + 32]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    xor r10d, r10d
    ret

tane_checked_throw:
    mov eax, {unreachable}
    cmp qword ptr [r10 + 32], 0
    je 2b
    mov rsp, [r10 + 32]
    mov eax, 1
    jmp 3b
    ",
    import = sym import,
    no_trap = const NO_TRAP,
    exit = const EXIT,
    stack = const STACK,
    unreachable = const UNREACHABLE,
);

/// What `tane_try` and its callee's return address take on the stack of returns.
const ROOM: usize = 128;

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
    fn tane_checked_exit();
    fn tane_checked_try();
    fn tane_checked_throw();
}

/// What an import's slot leads to: r10 the context, r11 the number.
fn thunk(context: *const Context, number: u32, out: unsafe extern "C" fn()) -> Vec<u8> {
    let out = out as *const () as usize;
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
    if let Some(code) = context.memory.ended.take() {
        (context.trap, context.exit) = (EXIT, code as usize);
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
            exit: 0,
            catch: 0,
            mask: window.table().1 - 1,
            table: window.table().0,
            room: window.returns()[0] + ROOM,
            at: 0,
            code: window.code,
            thunks: window.thunks(),
            window: window.start().as_ptr() as usize,
            returns: window.returns(),
            expired: AtomicBool::new(false),
            memory,
            imports: Vec::new(),
            stack: window.end(),
            inside: INSIDE.with(|cell| &raw const *cell),
        })
    }

    /// Takes in one more function of the host's: the code that leads to it.
    pub fn add(self: &mut Box<Context>, import: Import) -> Vec<u8> {
        self.imports.push(import);
        let number = self.imports.len() as u32 - 1;
        thunk(&raw const **self, number, tane_checked_import)
    }

    /// The code that leads to a function of the loader's.
    pub fn own(&self, own: Own) -> Vec<u8> {
        let out = match own {
            Own::Exit => tane_checked_exit,
            Own::Try => tane_checked_try,
            Own::Throw => tane_checked_throw,
        };
        thunk(&raw const *self, 0, out)
    }

    /// Copies bytes to the upper end of the module's stack, which begins below them.
    pub fn give(&mut self, bytes: &[u8]) -> Option<u64> {
        let at = self.stack.checked_sub(bytes.len() as u64)? & !15;
        let fits = at >= self.memory.stack && self.memory.write(at, bytes);
        fits.then(|| {
            self.stack = at;
            at
        })
    }

    /// Calls the function at this address: what it gave, and what ended it, in registers.
    #[inline]
    pub fn enter(&mut self, function: usize, arguments: &[u64; 6]) -> (u64, usize) {
        let before = gs_base();
        let context: *mut Context = self;
        // SAFETY: an instance is called on the thread that made it, which is there.
        let inside = unsafe { &*self.inside };
        let outer = inside.replace(context);
        (self.trap, self.module_stack) = (NO_TRAP, 0);
        (self.catch, self.at) = (0, 0);
        self.memory.ended.set(None);
        if before != self.window {
            set_gs_base(self.window);
        }
        // SAFETY: the module was checked and mapped as the checker demands.
        let result = unsafe {
            tane_checked_enter(context, function, arguments, self.returns[1], self.stack)
        };
        // Writing it takes longer than all the rest. A thread that had none finds nothing by it,
        // and its next call the one that it needs.
        if before != 0 && before != self.window {
            set_gs_base(before);
        }
        inside.set(outer);
        (result, self.trap)
    }

    /// What ended the last call, by that number.
    #[cold]
    pub fn trap(&self, number: usize) -> Trap {
        match number {
            EXIT => Trap::Exit(self.exit as i32),
            number => TRAPS[number - 1],
        }
    }
}
