//! The contract with the kernel image: a mirror of `asm/host.h`, field by field.
//! `tests/abi.rs` compiles the header and compares every size and offset.

// What each name means stands beside it in the header.
#![allow(missing_docs)]

use std::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u64 = 0x6c65_6e72_656e_6174;
pub const VERSION: u32 = 14;

pub const MAX_VCPUS: usize = 64;
pub const VCPU_SIZE: usize = 4096;
pub const MAX_DEVICES: usize = 48;
pub const MAX_QUEUES: usize = 8;
pub const CMDLINE_SIZE: usize = 2048;

pub const IRQ_TIMER: u32 = 0;
pub const IRQ_REQUEST: u32 = 1;
pub const IRQ_RESCHEDULE: u32 = 2;
pub const IRQ_CALL: u32 = 3;
pub const IRQ_HOTPLUG: u32 = 4;
pub const IRQ_STOP: u32 = 5;
pub const IRQ_DEVICE0: u32 = 16;

/// `struct tane_vcpu`
#[repr(C)]
pub struct Vcpu {
    pub self_: u64,
    pub pending: AtomicU64,
    pub bias: AtomicU64,
    pub kicks: AtomicU32,
    pub irq_enabled: AtomicU32,
    pub kernel_sp: u64,
    pub host_sp: u64,
    pub switches: u64,
    pub current_task: AtomicU64,
    pub lock: AtomicU32,
    pub cpu: u32,
    pub holder: AtomicU64,
    pub online: AtomicU32,
    pub taken: AtomicU32,
    pub percpu_offset: u64,
    pub requests: AtomicU64,
    pub deadline: AtomicU64,
    pub sleep_until: AtomicU64,
    pub in_user: u64,
    pub kick: AtomicU32,
    pub streak: AtomicU32,
    pub regular: AtomicU64,
    pub biased_at: AtomicU64,
    pub patience: AtomicU32,
    pub relaxed: u32,
    pub spinners: AtomicU32,
    pub waiters: AtomicU32,
    pub program: u64,
    pub caller: AtomicU64,
    pub window: u64,
    pub reserved: [u64; 488],
}

pub const THREAD_IDLE: u32 = 0;
pub const THREAD_POSTED: u32 = 1;
pub const THREAD_DONE: u32 = 2;
pub const THREAD_LINKED: u32 = 3;
pub const THREAD_WANTED: u32 = 4;

pub const NR_ATTACH: i64 = 0x7461_0001;
pub const NR_DETACH: i64 = 0x7461_0002;
pub const NR_BOOT: i64 = 0x7461_0003;
pub const NR_FAULT: i64 = 0x7461_0004;
pub const NR_SPAWN: i64 = 0x7461_0005;
pub const NR_SIGNALS: i64 = 0x7461_0006;
pub const NR_TRAP: i64 = 0x7461_0007;
pub const NR_FORK: i64 = 0x7461_0008;
pub const NR_REAP: i64 = 0x7461_0009;
pub const NR_TEXT: i64 = 0x7461_000a;
pub const NR_PEEK: i64 = 0x7461_000b;
pub const NR_POKE: i64 = 0x7461_000c;

pub const WINDOW_SIZE: u64 = 1 << 32;

/// `struct tane_thread`
#[repr(C)]
pub struct Thread {
    pub state: AtomicU32,
    pub vcpu: AtomicU32,
    pub task: AtomicU64,
    pub next: AtomicU64,
    pub nr: i64,
    pub args: [u64; 6],
    pub ret: i64,
    pub sleeping: AtomicU32,
    pub spin: AtomicU32,
    pub owner: AtomicU64,
    pub inside: AtomicU32,
    pub process: AtomicU32,
    pub program: AtomicU64,
    pub spinning: AtomicU32,
    pub gone: AtomicU32,
}

/// `struct tane_program`
#[repr(C)]
pub struct Program {
    pub regs: u64,
    pub fs_base: u64,
    pub xstate: u64,
    pub xfeatures: u64,
    pub xstate_size: u32,
    pub tid: u32,
    pub ran: u64,
    pub traced: u32,
    pub pad: u32,
}

/// `struct tane_caller`
#[repr(C)]
pub struct Caller {
    pub self_: u64,
    pub slot: u64,
    pub stack: u64,
    pub serve: u64,
    pub saved: u64,
    pub regs: PtRegs,
    pub reserved: [u64; 6],
    pub xsave: [u8; 2752],
}

// What two host threads use at the same time shares no cache line; a processor
// likes to fetch these in pairs.
const _: () = assert!(size_of::<Vcpu>() == VCPU_SIZE);
const _: () = assert!(size_of::<Thread>().is_multiple_of(64));

pub const PROT_READ: u32 = 1;
pub const PROT_WRITE: u32 = 2;
pub const PROT_EXEC: u32 = 4;

pub const NOTIFY_STATUS: u32 = 0xffff;
pub const NOTIFY_STATE: u32 = 0xfffe;

type Host = *const std::ffi::c_void;

/// `struct tane_ops`
#[repr(C)]
pub struct Ops {
    pub magic: u64,
    pub version: u32,
    pub size: u32,
    pub host: Host,
    pub monotonic: extern "sysv64" fn(Host) -> u64,
    pub realtime: extern "sysv64" fn(Host) -> u64,
    pub random: extern "sysv64" fn(Host, *mut u8, u64) -> i32,
    pub map: extern "sysv64" fn(Host, u64, u64, u64, u32) -> i32,
    pub unmap: extern "sysv64" fn(Host, u64, u64) -> i32,
    pub discard: extern "sysv64" fn(Host, u64, u64) -> i32,
    pub kick: extern "sysv64" fn(Host, u32),
    pub yield_: extern "sysv64" fn(Host),
    pub wake: extern "sysv64" fn(Host, *const Thread),
    pub log: extern "sysv64" fn(Host, *const u8, u64),
    pub die: extern "sysv64" fn(Host, u32, *const u8, u64),
    pub notify: extern "sysv64" fn(Host, u32, u32),
    pub call_in: extern "sysv64" fn(Host, *const Thread),
    pub new_thread: extern "sysv64" fn(Host, *const Thread) -> *mut Thread,
    pub stop: extern "sysv64" fn(Host, *const Thread, u32),
}

/// `struct tane_boot`
#[repr(C)]
pub struct Boot {
    pub magic: u64,
    pub version: u32,
    pub size: u32,
    pub base: u64,
    pub ram_size: u64,
    pub vmalloc_start: u64,
    pub vmalloc_end: u64,
    pub user_start: u64,
    pub user_end: u64,
    pub shown_start: u64,
    pub shown_end: u64,
    pub program_start: u64,
    pub program_end: u64,
    pub clock_gettime: u64,
    pub program_gate: u64,
    pub nr_vcpus: u32,
    pub randomised: u32,
    pub shared: u32,
    pub pad: u32,
    pub vcpus: *mut Vcpu,
    pub init_thread: *mut Thread,
    pub virtio: *mut Virtio,
    pub ops: *const Ops,
    pub cmdline: [u8; CMDLINE_SIZE],
}

/// `struct tane_exit`, returned in rax and rdx.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Exit {
    pub ret: i64,
    pub reason: u64,
}

pub const EXIT_RETURNED: u64 = 0;
pub const EXIT_USER: u64 = 1;
pub const EXIT_RUNNABLE: u64 = 2;
pub const EXIT_IDLE: u64 = 3;
pub const EXIT_DEAD: u64 = 4;
pub const EXIT_OUTSIDE: u64 = 5;
pub const EXIT_ELSEWHERE: u64 = 6;

/// `struct tane_image`: offsets from the image's start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageHeader {
    pub magic: u64,
    pub version: u32,
    pub size: u32,
    pub vcpu_size: u32,
    pub thread_size: u32,
    pub ops_size: u32,
    pub boot_size: u32,
    pub virtio_size: u32,
    pub smp: u32,
    pub text_start: u64,
    pub text_end: u64,
    pub rodata_end: u64,
    pub data_end: u64,
    pub image_end: u64,
    pub rela_start: u64,
    pub rela_end: u64,
    pub start: u64,
    pub call: u64,
    pub enter: u64,
    pub trap_fault: u64,
    pub trap_invalid: u64,
    pub trap_interrupt: u64,
    pub banner: u64,
    pub extable_start: u64,
    pub extable_end: u64,
    pub struct_page_size: u64,
    pub program: u64,
    pub program_left: u64,
}

/// `struct pt_regs`, as a signal handler writes it for the trampolines.
#[repr(C)]
pub struct PtRegs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

pub const VIRTIO_EMPTY: u32 = 0;
pub const VIRTIO_PRESENT: u32 = 1;
pub const VIRTIO_BOUND: u32 = 2;
pub const VIRTIO_REMOVE: u32 = 3;
pub const VIRTIO_FAILED: u32 = 4;

/// `struct tane_virtio_queue`
#[repr(C)]
pub struct VirtioQueue {
    pub desc: AtomicU64,
    pub driver: AtomicU64,
    pub device: AtomicU64,
    pub size: u16,
    pub size_max: u16,
    pub ready: u8,
    pub pad: [u8; 3],
}

/// `struct tane_virtio`
#[repr(C)]
pub struct Virtio {
    pub state: AtomicU32,
    pub device_id: u32,
    pub status: AtomicU32,
    pub isr: AtomicU32,
    pub device_features: u64,
    pub driver_features: u64,
    pub config_generation: AtomicU32,
    pub config_size: u32,
    pub nr_queues: u32,
    pub error: u32,
    pub config: [u8; 256],
    pub queues: [VirtioQueue; MAX_QUEUES],
}
