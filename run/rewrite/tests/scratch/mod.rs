//! Runs code in this process, from any of its instructions and with any registers, with
//! the toy gate behind its trampolines.

#![allow(dead_code)]

use crate::gate::{self, Area};
use std::arch::global_asm;
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};
use tane_rewrite::{trap, Plan};

/// rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15, flags.
pub type Values = [u64; 16];

/// What the GS base points at: a gate's area, and what running takes.
#[repr(C)]
pub struct Ground {
    pub area: Area,
    pub values: Values,
    /// The program's stack pointer, ours, and where it begins.
    pub rsp: u64,
    pub host: u64,
    pub entry: u64,
    /// Where its last jump leads (`jmp *%gs:leave`).
    pub leave: u64,
}

const VALUES: usize = offset_of!(Ground, values);
const RSP: usize = offset_of!(Ground, rsp);
const HOST: usize = offset_of!(Ground, host);
const ENTRY: usize = offset_of!(Ground, entry);
/// For code that is to be run.
pub const LEAVE: usize = offset_of!(Ground, leave);

global_asm!(
    ".pushsection .text.scratch, \"ax\"",
    ".globl scratch_enter, scratch_leave",
    "scratch_enter:",
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15",
    "mov %rsp, %gs:{host}",
    "push %gs:{values} + 8 * 15",
    "popfq",
    "mov %gs:{values}, %rax",
    "mov %gs:{values} + 8, %rbx",
    "mov %gs:{values} + 16, %rcx",
    "mov %gs:{values} + 24, %rdx",
    "mov %gs:{values} + 32, %rsi",
    "mov %gs:{values} + 40, %rdi",
    "mov %gs:{values} + 48, %rbp",
    "mov %gs:{values} + 56, %r8",
    "mov %gs:{values} + 64, %r9",
    "mov %gs:{values} + 72, %r10",
    "mov %gs:{values} + 80, %r11",
    "mov %gs:{values} + 88, %r12",
    "mov %gs:{values} + 96, %r13",
    "mov %gs:{values} + 104, %r14",
    "mov %gs:{values} + 112, %r15",
    "mov %gs:{rsp}, %rsp",
    "jmp *%gs:{entry}",
    "scratch_leave:",
    "mov %rsp, %gs:{rsp}",
    "mov %gs:{host}, %rsp",
    "mov %rax, %gs:{values}",
    "mov %rbx, %gs:{values} + 8",
    "mov %rcx, %gs:{values} + 16",
    "mov %rdx, %gs:{values} + 24",
    "mov %rsi, %gs:{values} + 32",
    "mov %rdi, %gs:{values} + 40",
    "mov %rbp, %gs:{values} + 48",
    "mov %r8, %gs:{values} + 56",
    "mov %r9, %gs:{values} + 64",
    "mov %r10, %gs:{values} + 72",
    "mov %r11, %gs:{values} + 80",
    "mov %r12, %gs:{values} + 88",
    "mov %r13, %gs:{values} + 96",
    "mov %r14, %gs:{values} + 104",
    "mov %r15, %gs:{values} + 112",
    "pushfq",
    "pop %gs:{values} + 8 * 15",
    "cld",
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx",
    "ret",
    ".popsection",
    values = const VALUES,
    rsp = const RSP,
    host = const HOST,
    entry = const ENTRY,
    options(att_syntax)
);

extern "C" {
    fn scratch_enter();
    static scratch_leave: u8;
}

pub const PAGES: usize = 16;
pub const TEXT: usize = PAGES * 4096;
pub const ROOM: usize = 256 << 10;

/// A text with trampolines behind it, twice in memory: to be run, and to be written.
pub struct Scratch {
    pub run: *mut u8,
    pub write: *mut u8,
    pub stack: Vec<u8>,
}

// SAFETY: plain addresses.
unsafe impl Send for Scratch {}
// SAFETY: who writes there says how.
unsafe impl Sync for Scratch {}

fn checked(result: i64) -> i64 {
    assert!(result != -1, "{}", std::io::Error::last_os_error());
    result
}

impl Scratch {
    pub fn new() -> Scratch {
        let size = TEXT + ROOM;
        let map = |fd, protection| {
            // SAFETY: a new mapping.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    size,
                    protection,
                    libc::MAP_SHARED,
                    fd,
                    0,
                )
            };
            checked(at as i64) as *mut u8
        };
        // SAFETY: a descriptor of ours.
        unsafe {
            let fd = checked(libc::memfd_create(c"scratch".as_ptr(), 0).into()) as i32;
            checked(libc::ftruncate(fd, size as i64).into());
            let scratch = Scratch {
                run: map(fd, libc::PROT_READ | libc::PROT_EXEC),
                write: map(fd, libc::PROT_READ | libc::PROT_WRITE),
                stack: vec![0; 64 << 10],
            };
            libc::close(fd);
            scratch
        }
    }

    /// Gives the memory back.
    pub fn free(self) {
        for at in [self.run, self.write] {
            // SAFETY: nobody runs or writes it any more.
            unsafe { libc::munmap(at.cast(), TEXT + ROOM) };
        }
    }

    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= TEXT + ROOM);
        // SAFETY: within the mapping; nobody runs it meanwhile.
        unsafe {
            self.write
                .add(at)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }
}

/// Has this thread a ground of its own; it stays for the thread's life.
pub fn ground() -> &'static mut Ground {
    let code = gate::code().as_ptr() as u64;
    let ground = Box::leak(Box::new(Ground {
        area: gate::area(code, 0),
        values: [0; 16],
        rsp: 0,
        host: 0,
        entry: 0,
        leave: &raw const scratch_leave as u64,
    }));
    const ARCH_SET_GS: u64 = 0x1001;
    // SAFETY: nothing else here has a use for the GS base.
    checked(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, &raw mut *ground) });
    ground
}

/// Runs code that ends with a jump through `LEAVE`, from `entry` on; all registers after.
///
/// # Safety
///
/// The code does no harm with these registers, on a stack of its own at `rsp`.
pub unsafe fn run(ground: &mut Ground, entry: u64, rsp: u64, values: Values) -> (Values, u64) {
    (ground.values, ground.entry, ground.rsp) = (values, entry, rsp);
    let at = &raw mut *ground;
    // SAFETY: as the caller promises; it keeps what functions keep.
    unsafe { scratch_enter() };
    // SAFETY: the code has written there.
    unsafe {
        (
            (&raw const (*at).values).read_volatile(),
            (&raw const (*at).rsp).read_volatile(),
        )
    }
}

/// The text whose traps [`traps`] resumes, and where it is.
static PLAN: AtomicPtr<(Plan, u64, u64)> = AtomicPtr::new(std::ptr::null_mut());

pub fn resume_by(plan: Plan, text: u64, trampolines: u64) {
    let new = Box::leak(Box::new((plan, text, trampolines)));
    PLAN.store(new, Ordering::Release);
}

/// Has SIGTRAP go on in trampolines, as the runtime will.
pub fn traps() {
    unsafe extern "C" fn trapped(
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) {
        // SAFETY: the kernel gave them, and what PLAN points at stays.
        unsafe {
            let (plan, text, trampolines) = &*PLAN.load(Ordering::Acquire);
            let to = match trap::cause(signal, info, context) {
                Some(trap::Cause::Breakpoint(at)) => plan.resume(at.wrapping_sub(*text) as u32),
                _ => None,
            };
            match to {
                Some(to) => trap::set(context, libc::REG_RIP, trampolines + u64::from(to)),
                None => libc::abort(),
            }
        }
    }
    // SAFETY: it makes no call unless it ends the process.
    unsafe { trap::install(libc::SIGTRAP, trapped, trap::return_code().as_ptr() as u64) }
        .expect("a handler");
}
