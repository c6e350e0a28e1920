//! A gate that does the host's calls: what stands in for the kernel's, on the host.
//!
//! It keeps what the kernel's gate has to keep: registers as after a hardware
//! `syscall`, and nothing of the program's stack touched. The GS base is an [`Area`],
//! one for each task. Whoever delivers a signal to a program that is in here moves it
//! out first ([`leave`]), so that handlers can come in again.
//!
//! The flags that clone(2), fork(2) and vfork(2) return with are the gate's: the real one
//! does not make tasks this way.

#![allow(dead_code)]

use std::arch::global_asm;
use std::mem::offset_of;

/// What the GS base points at.
#[repr(C, align(128))]
#[derive(Default, Clone, Copy)]
pub struct Area {
    /// The gates for classes a, b, c, and for what was trapped.
    pub gates: [u64; 4],
    /// How often each was used.
    pub counts: [u64; 4],
    /// Where the call under way goes back to.
    pub back: u64,
    /// Of the task that made this one: where the child goes on, and its r9.
    pub made_back: u64,
    pub made_r9: u64,
    /// The first word of the pool: the number of areas in use.
    pub next: u64,
}

const BACK: usize = offset_of!(Area, back);
const MADE_BACK: usize = offset_of!(Area, made_back);
const MADE_R9: usize = offset_of!(Area, made_r9);
const NEXT: usize = offset_of!(Area, next);
const COUNTS: usize = offset_of!(Area, counts);

macro_rules! entry {
    ($name:literal, $n:literal) => {
        concat!(
            $name,
            ":\n",
            "mov %gs:{counts} + 8 * ",
            $n,
            ", %r11\n",
            "lea 1(%r11), %r11\n",
            "mov %r11, %gs:{counts} + 8 * ",
            $n,
            "\n",
            "jmp toy_common\n",
        )
    };
}

global_asm!(
    ".pushsection .text.toy_gate, \"ax\"",
    ".balign 64",
    ".globl toy_start, toy_a, toy_b, toy_c, toy_net, toy_saved, toy_after, toy_after_jump",
    ".globl toy_clone_moved, toy_clone_after, toy_clone_r9, toy_clone_jump, toy_remote, toy_end",
    "toy_start:",
    entry!("toy_a", "0"),
    entry!("toy_b", "1"),
    entry!("toy_c", "2"),
    entry!("toy_net", "3"),
    "toy_common:",
    "mov %rcx, %gs:{back}",
    "toy_saved:",
    // Without flags: they are to be as they were.
    "lea -56(%rax), %ecx", // clone, fork, vfork, clone3
    "jecxz toy_clone",
    "lea -57(%rax), %ecx",
    "jecxz toy_clone",
    "lea -58(%rax), %ecx",
    "jecxz toy_clone",
    "lea -435(%rax), %ecx",
    "jecxz toy_clone",
    "syscall",
    "toy_after:",
    "mov %gs:{back}, %rcx",
    "toy_after_jump:",
    "jmp *%rcx",
    // The new task, whatever it shares, gets an area of its own, by r9, which none of
    // these calls has.
    "toy_clone:",
    "mov $1, %ecx",
    "mov %gs:{next}, %r11",
    "lock xadd %rcx, (%r11)",
    "shl $7, %rcx",
    "add %r11, %rcx",
    "mov %r11, {next}(%rcx)",
    "mov %gs:0, %r11",
    "mov %r11, 0(%rcx)",
    "mov %gs:8, %r11",
    "mov %r11, 8(%rcx)",
    "mov %gs:16, %r11",
    "mov %r11, 16(%rcx)",
    "mov %gs:24, %r11",
    "mov %r11, 24(%rcx)",
    "mov %gs:{back}, %r11",
    "mov %r11, {made_back}(%rcx)",
    "mov %r9, {made_r9}(%rcx)",
    "mov %rcx, %r9",
    "toy_clone_moved:",
    "syscall",
    "toy_clone_after:",
    "mov %rax, %rcx",
    "jrcxz 1f",
    "2: mov {made_back}(%r9), %rcx",
    "toy_clone_r9:",
    "mov {made_r9}(%r9), %r9",
    "toy_clone_jump:",
    "jmp *%rcx",
    "1: wrgsbase %r9",
    "jmp 2b",
    "toy_remote:",
    "syscall",
    "int3",
    "toy_end:",
    ".popsection",
    counts = const COUNTS,
    back = const BACK,
    made_back = const MADE_BACK,
    made_r9 = const MADE_R9,
    next = const NEXT,
    options(att_syntax)
);

macro_rules! labels {
    ($($name:ident),*) => {
        extern "C" { $(static $name: u8;)* }
        /// Offsets in the gate's code.
        pub mod at {
            $(pub fn $name() -> u64 {
                &raw const super::$name as u64 - &raw const super::toy_start as u64
            })*
        }
    };
}
labels!(
    toy_start,
    toy_a,
    toy_b,
    toy_c,
    toy_net,
    toy_saved,
    toy_after,
    toy_after_jump,
    toy_clone_moved,
    toy_clone_after,
    toy_clone_r9,
    toy_clone_jump,
    toy_remote,
    toy_end
);

/// Its code, which runs anywhere.
pub fn code() -> &'static [u8] {
    // SAFETY: all between the labels is code of this program.
    unsafe { std::slice::from_raw_parts(&raw const toy_start, at::toy_end() as usize) }
}

/// Offsets of the gates in [`Area`], for a layout.
pub const GATES: [i32; 3] = [0, 8, 16];

/// An area whose gates are at `code`, in the pool at `pool`.
pub fn area(code: u64, pool: u64) -> Area {
    Area {
        gates: [at::toy_a(), at::toy_b(), at::toy_c(), at::toy_net()].map(|at| code + at),
        next: pool,
        ..Area::default()
    }
}

/// Where a task in the gate is, as its registers and area say.
#[derive(Debug, PartialEq)]
pub struct Inside {
    /// Where it would go back to.
    pub back: u64,
    /// The call is done (or was interrupted): it is not to be made again.
    pub done: bool,
    /// What r9 was.
    pub r9: u64,
    /// The GS base it is about to have.
    pub gs: u64,
}

/// Of a task at this offset in the gate's code.
pub fn inside(
    offset: u64,
    rax: u64,
    rcx: u64,
    r9: u64,
    gs: u64,
    area: impl Fn(u64) -> Area,
) -> Inside {
    let mut it = Inside {
        back: rcx,
        done: true,
        r9,
        gs,
    };
    if offset < at::toy_saved() {
        it.done = false;
    } else if offset < at::toy_after() {
        (it.back, it.done) = (area(gs).back, false);
    } else if offset < at::toy_after_jump() {
        it.back = area(gs).back;
    } else if offset == at::toy_after_jump() {
    } else if offset < at::toy_clone_moved() {
        (it.back, it.done) = (area(gs).back, false);
    } else if offset == at::toy_clone_moved() {
        (it.back, it.done, it.r9) = (area(gs).back, false, area(r9).made_r9);
    } else if offset != at::toy_clone_jump() {
        let made = area(r9);
        (it.back, it.r9) = (made.made_back, made.made_r9);
        if rax == 0 {
            it.gs = r9;
        }
    }
    it
}
