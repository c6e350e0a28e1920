//! What a host thread that runs programs keeps beside its stack: what the way into the
//! program and back needs (`run_enter.rs`), and signal handlers (`run_handlers.rs`). While
//! the program runs, the FS base is the program's: no thread-local storage, no libc.
//!
//! The thread runs the program as a hypervisor runs a guest: [`Owned::enter`] returns
//! when the program wants something. A system call is a signal of the host's kernel
//! (syscall user dispatch: prctl(2)) or a jump (`run_gate.rs`), a fault is a signal anyway.
//! Their handler writes the registers to where the kernel keeps them, and returns to the
//! end of `enter`.
//!
//! ```text
//! signal stack | block | struct tane_caller | a mapping of the virtual CPU | GS base
//! ```

use crate::abi;
use crate::address::Virtual;
use crate::cpu::{self, Cpu, CpuNumber};
use crate::inner::Inner;
use crate::run_enter::tane_run_enter;
use crate::run_gate;
use crate::run_guest::{Guest, GuestState};
use crate::thread_slot::ThreadSlot;
use std::io;
use std::mem::{offset_of, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

pub const MAGIC: u64 = 0x6d61_7267_6f72_7074;
/// Room for the block, whole pages.
const BLOCK_SIZE: usize = 8192;
/// The signal stack before it, of a size that nobody else's has.
pub const STACK_SIZE: usize = (128 << 10) - 0x140;
/// From the signal stack's beginning to the block.
pub const BLOCK_AT: usize = 128 << 10;
/// From the block to the thread's `struct tane_caller`, behind which its CPU is mapped.
pub const CALLER_AT: usize = BLOCK_SIZE;
/// From the block to the GS base.
pub const FROM_BASE: usize = BLOCK_SIZE + 2 * abi::VCPU_SIZE;
const MAPPED: usize = BLOCK_AT + FROM_BASE;

const _: () = assert!(size_of::<abi::Caller>() <= abi::VCPU_SIZE);

/// Selector values of syscall user dispatch.
pub const ALLOW: u8 = 0;
pub const BLOCK: u8 = 1;

/// The attack in cli/tests/prisoner/escape.c finds the selector in it.
#[repr(C, align(64))]
pub struct Block {
    pub magic: u64,
    /// Whose program this thread is in; may be null otherwise.
    pub guest: *mut GuestState,
    pub host_sp: u64,
    pub host_fs: u64,
    /// 1: system calls of this thread are the program's.
    pub selector: AtomicU8,
    pub reason: AtomicU8,
    /// 1: no call goes the short way through the gate.
    pub slow: AtomicU8,
    pub trap: Trap,
    /// Where rewritten system calls jump to: at [`GATE`] from the GS base.
    pub gate: u64,
    pub self_: *mut Block,
    /// Its request slot.
    pub slot: u64,
    /// The kernel's: `tane_image.call`.
    pub call: u64,
    /// Where the call under way by the gate goes on.
    pub resume: u64,
    /// What the kernel gave back, if that was not the end of it.
    pub exit: [u64; 2],
}

/// Where programs find the address of the gate, from the GS base.
pub const GATE: i32 = offset_of!(Block, gate) as i32 - FROM_BASE as i32;

const _: () = assert!(size_of::<Block>() <= BLOCK_SIZE);

/// An exception, as the host's kernel told it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Trap {
    pub address: u64,
    /// x86's.
    pub error: u64,
    pub vector: u64,
    pub signal: i32,
    pub code: i32,
}

/// Why a program's thread came in.
pub enum Reason {
    /// Its registers say for which; by the signal.
    Call,
    /// The same, by the gate.
    CallAtGate,
    /// A call by the gate has not ended with this.
    Disturbed(abi::Exit),
    /// A call by the gate has ended, and signals wait.
    Ended,
    Trap(Trap),
    /// Signals wait for it.
    Called,
}

pub const CALL: u8 = 0;
pub const TRAP: u8 = 1;
pub const CALLED: u8 = 2;
pub const CALL_AT_GATE: u8 = 3;
pub const DISTURBED: u8 = 4;
pub const ENDED: u8 = 5;

/// This thread's block. Unmapped when dropped.
pub struct Owned(*mut Block);

impl Owned {
    pub fn new(kernel: &Inner) -> io::Result<Self> {
        // SAFETY: a fresh mapping, all zeros.
        unsafe {
            let at = libc::mmap(
                ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let block = at.byte_add(BLOCK_AT).cast::<Block>();
            (*block).magic = MAGIC;
            (*block).self_ = block;
            (*block).gate = run_gate::address();
            (*block).call = kernel.gate.call_address();
            let owned = Self(block);
            owned.show(kernel, kernel.cpu(CpuNumber::FIRST))?;
            Ok(owned)
        }
    }

    fn base(&self) -> u64 {
        self.0 as u64 + FROM_BASE as u64
    }

    /// Have this CPU where the gate looks for it.
    fn show(&self, kernel: &Inner, cpu: Cpu) -> io::Result<()> {
        let at = Virtual(self.base() - abi::VCPU_SIZE as u64);
        kernel.memory.show_area(at, cpu.ptr().cast())
    }

    /// The CPU there: of a call that was [`Reason::Disturbed`] the one that it came out of.
    pub fn shown(&self) -> Cpu {
        // SAFETY: one is mapped there as long as the block exists.
        unsafe { Cpu::new(Cpu::here_at(self.base())) }
    }

    /// Where the call that has just come by the gate goes on.
    pub fn resume(&self) -> u64 {
        self.block().resume
    }

    /// The CPU that the task was last inside of is the one to try first.
    pub fn follow(&self, kernel: &Inner, slot: ThreadSlot) {
        let number = slot.vcpu().load(Ordering::Relaxed);
        if self.shown().number().0 != number {
            // Without it every call goes the long way: slower, and no less right.
            self.show(kernel, kernel.cpu(CpuNumber(number))).ok();
        }
    }

    /// Make it this thread's: its signal stack, and whose system calls are the
    /// program's.
    pub fn install(&self) -> io::Result<()> {
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        const PR_SYS_DISPATCH_ON: u64 = 1;
        let stack = libc::stack_t {
            ss_sp: (self.0 as usize - BLOCK_AT) as *mut libc::c_void,
            ss_flags: 0,
            ss_size: STACK_SIZE,
        };
        // SAFETY: the block lives as long as the thread; the selector is in it.
        unsafe {
            (*self.0).host_fs = rdfsbase();
            if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The way back from handlers is never the program's.
            let restorer = restorer();
            let selector = &raw const (*self.0).selector;
            if libc::prctl(
                PR_SET_SYSCALL_USER_DISPATCH,
                PR_SYS_DISPATCH_ON,
                restorer,
                16u64,
                selector,
            ) != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    fn block(&self) -> &Block {
        // SAFETY: ours; the kernel and handlers write to it only while this thread is
        // in `enter` or inside.
        unsafe { &*self.0 }
    }

    /// Go out with the guest's registers, until its program comes in. `slow`: its calls
    /// shall all end this, also those by the gate.
    ///
    /// # Safety
    /// The block is this thread's, and so is the guest, whose slot that is and whose task
    /// exists and is not inside the kernel.
    pub unsafe fn enter(&self, guest: Guest, slot: ThreadSlot, slow: bool) -> Reason {
        self.block().reason.store(CALLED, Ordering::Relaxed);
        self.block().slow.store(slow.into(), Ordering::Relaxed);
        // SAFETY: comes back as from any function, with all registers it must keep. What
        // the kernel has spared since were registers of the host's code.
        unsafe {
            (*self.0).guest = guest.state();
            (*self.0).slot = slot.address();
            let caller = self.0.byte_add(CALLER_AT).cast::<abi::Caller>();
            (&raw mut (*caller).saved).write(0);
            cpu::set_gs(self.base());
            tane_run_enter(self.0);
        }
        match self.block().reason.load(Ordering::Relaxed) {
            CALL => Reason::Call,
            CALL_AT_GATE => Reason::CallAtGate,
            ENDED => Reason::Ended,
            DISTURBED => {
                let [ret, reason] = self.block().exit;
                Reason::Disturbed(abi::Exit {
                    ret: ret as i64,
                    reason,
                })
            }
            // SAFETY: written by a handler of this thread.
            TRAP => Reason::Trap(unsafe { (*self.0).trap }),
            _ => {
                guest.was_called_in();
                Reason::Called
            }
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        // SAFETY: the thread's own state, if it is this one's; nobody uses the block
        // any more.
        unsafe {
            libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
            let mut none: libc::stack_t = MaybeUninit::zeroed().assume_init();
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&raw const none, ptr::null_mut());
            libc::munmap(self.0.byte_sub(BLOCK_AT).cast(), MAPPED);
        }
    }
}

/// Whether the processor and the host's kernel can do it at all.
pub fn possible() -> bool {
    cpu::has_fsgsbase() && std::is_x86_feature_detected!("xsave")
}

fn rdfsbase() -> u64 {
    let fs;
    // SAFETY: reads a register; `possible` has looked for the instruction.
    unsafe {
        std::arch::asm!("rdfsbase {}", out(reg) fs, options(nomem, nostack, preserves_flags));
    }
    fs
}

/// Where the host's kernel returns to from a handler: libc's.
fn restorer() -> u64 {
    /// The host kernel's own structure.
    #[repr(C)]
    struct Action {
        handler: u64,
        flags: u64,
        restorer: u64,
        mask: u64,
    }
    let mut now = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    // SAFETY: fills a structure of ours.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGSYS, 0, &raw mut now, 8) };
    now.restorer
}
