//! The way in of programs and modules: code of its own that jumps to the gate as if
//! that were the instruction `syscall`, and finds every register as it was.

mod common;

use common::{boot, boot_image, boot_with, nap, syscall};
use std::arch::{asm, global_asm};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tane_host::{Kernel, Program, Virtual, BELOW};
use tane_test_support::skip;

const RED_ZONE: usize = 128;

/// All registers that a program has, in the order that the assembly knows.
#[repr(C, align(32))]
#[derive(Clone, Copy, PartialEq, Debug)]
struct Registers {
    rax: u64,
    rbx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    rbp: u64,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rcx: u64,
    rsp: u64,
    ymm: [[u64; 4]; 16],
    red_zone: [u64; RED_ZONE / 8],
}

const FIRST: u64 = 0x1111_2222_3333_0000;

impl Registers {
    /// Of a call: each other register has a value of its own.
    fn of(nr: i64, args: [u64; 6]) -> Self {
        let mut next = FIRST;
        let mut some = || {
            next += 1;
            next
        };
        let ymm = std::array::from_fn(|_| std::array::from_fn(|_| some()));
        let red_zone = std::array::from_fn(|_| some());
        Self {
            rax: nr as u64,
            rdi: args[0],
            rsi: args[1],
            rdx: args[2],
            r10: args[3],
            r8: args[4],
            r9: args[5],
            rbx: some(),
            rbp: some(),
            r11: some(),
            r12: some(),
            r13: some(),
            r14: some(),
            r15: some(),
            rcx: 0,
            rsp: 0,
            ymm,
            red_zone,
        }
    }
}

// act_as_program(before, after): everything of `before` into the processor, through the
// gate, and everything into `after`. What `before` has for rcx and rsp is filled in. Two
// words at the GS base, which are the program's, are where to find the way back.
global_asm!(
    "
    .globl tane_test_act_as_program
tane_test_act_as_program:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    sub rsp, 8
    mov gs:[0], rsp
    push rsi
    lea rcx, [rip + 2f]
    mov [rdi + 14*8], rcx
    mov [rdi + 15*8], rsp
    mov rcx, 16
1:  mov rax, [rdi + 16*8 + 512 + rcx*8 - 8]
    lea rdx, [rcx*8 - 8]
    mov [rsp + rdx - 128], rax
    dec rcx
    jnz 1b
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqa ymm\\n, [rdi + 16*8 + \\n*32]
    .endr
    mov rax, [rdi]
    mov rbx, [rdi + 8]
    mov rdx, [rdi + 2*8]
    mov rsi, [rdi + 3*8]
    mov rbp, [rdi + 5*8]
    mov r8, [rdi + 6*8]
    mov r9, [rdi + 7*8]
    mov r10, [rdi + 8*8]
    mov r11, [rdi + 9*8]
    mov r12, [rdi + 10*8]
    mov r13, [rdi + 11*8]
    mov r14, [rdi + 12*8]
    mov r15, [rdi + 13*8]
    mov rcx, [rdi + 14*8]
    mov rdi, [rdi + 4*8]
    jmp qword ptr gs:[{gate}]
2:  mov gs:[8], rdi
    mov rdi, gs:[0]
    mov rdi, [rdi - 8]
    mov [rdi], rax
    mov [rdi + 8], rbx
    mov [rdi + 2*8], rdx
    mov [rdi + 3*8], rsi
    mov [rdi + 5*8], rbp
    mov [rdi + 6*8], r8
    mov [rdi + 7*8], r9
    mov [rdi + 8*8], r10
    mov [rdi + 9*8], r11
    mov [rdi + 10*8], r12
    mov [rdi + 11*8], r13
    mov [rdi + 12*8], r14
    mov [rdi + 13*8], r15
    mov [rdi + 14*8], rcx
    mov [rdi + 15*8], rsp
    mov rax, gs:[8]
    mov [rdi + 4*8], rax
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqa [rdi + 16*8 + \\n*32], ymm\\n
    .endr
    mov rsp, gs:[0]
    mov rcx, 16
1:  lea rdx, [rcx*8 - 8]
    mov rax, [rsp + rdx - 136]
    mov [rdi + 16*8 + 512 + rcx*8 - 8], rax
    dec rcx
    jnz 1b
    vzeroupper
    add rsp, 8
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    ",
    gate = const Program::GATE,
);

extern "C" {
    fn tane_test_act_as_program(before: *mut Registers, after: *mut Registers);
}

/// A program on this thread: nothing but the memory around its GS base.
struct Actor {
    program: Option<Program>,
    memory: u64,
}

const MEMORY: usize = BELOW + 4096;

impl Actor {
    fn new(k: &Kernel) -> Self {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), MEMORY, prot, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let base = Virtual(memory as u64 + BELOW as u64);
        // SAFETY: those pages are for it.
        let program = unsafe { k.program(base, None) }.unwrap_or_else(|e| panic!("{e}"));
        Self {
            program: Some(program),
            memory: memory as u64,
        }
    }

    /// The result of a call, after which every register but that one is as it was.
    fn call(&mut self, nr: i64, args: &[u64]) -> i64 {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        let mut before = Registers::of(nr, six);
        let mut after = Registers::of(0, [0; 6]);
        let program = self.program.as_mut().expect("it is there until the end");
        // SAFETY: the assembly goes through the gate and does nothing else; the call's
        // pointers are its test's.
        unsafe { program.run(|| tane_test_act_as_program(&raw mut before, &raw mut after)) };
        let ret = after.rax as i64;
        assert_eq!(
            after,
            Registers {
                rax: after.rax,
                ..before
            },
            "call {nr}"
        );
        ret
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.program = None;
        // SAFETY: mapped by new(), and the program is gone.
        unsafe { libc::munmap(self.memory as *mut _, MEMORY) };
    }
}

/// Where vector registers have 32 bytes and programs set the GS base.
fn can() -> bool {
    // SAFETY: it only reads.
    let can = unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0;
    let can = can && std::is_x86_feature_detected!("avx");
    if !can {
        skip("no AVX, or no FSGSBASE on this host");
    }
    can
}

/// More than enough calls in a row for the thread to keep its CPU.
const MANY: usize = 5_000;

#[test]
fn a_programs_call_changes_no_register_but_its_result() {
    if !can() {
        return;
    }
    let k = boot();
    let mut actor = Actor::new(&k);
    for _ in 0..MANY {
        assert_eq!(actor.call(libc::SYS_getppid, &[]), 0);
        assert_eq!(actor.call(libc::SYS_getpid, &[]), 1);
    }
    assert_eq!(actor.call(100_000, &[]), -i64::from(libc::ENOSYS));
    assert_eq!(actor.call(-1, &[]), -i64::from(libc::ENOSYS));
    // Vector registers in the kernel, and a host function.
    let mut random = [0u8; 300_000];
    let args = [random.as_mut_ptr() as u64, random.len() as u64, 0];
    for _ in 0..10 {
        assert_eq!(actor.call(libc::SYS_getrandom, &args), 300_000);
    }
    let mut time = [0u64; 2];
    let args = [libc::CLOCK_MONOTONIC as u64, time.as_mut_ptr() as u64];
    assert_eq!(actor.call(libc::SYS_clock_gettime, &args), 0);
}

#[test]
fn nor_does_one_that_waits() {
    if !can() {
        return;
    }
    let k = boot();
    let mut actor = Actor::new(&k);
    let time = [0u64, 2_000_000];
    for _ in 0..50 {
        assert_eq!(
            actor.call(libc::SYS_nanosleep, &[time.as_ptr() as u64, 0]),
            0
        );
        for _ in 0..100 {
            assert_eq!(actor.call(libc::SYS_getppid, &[]), 0);
        }
    }
}

static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// What any function of the host's may do to vector registers.
fn forget_vectors(_: &str) {
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: it is named what the instruction changes; the test has looked for AVX.
    unsafe { asm!("vzeroall", clobber_abi("sysv64")) };
}

#[test]
fn nor_does_one_by_a_cpu_that_its_host_kept_for_it() {
    if !can() {
        return;
    }
    // It is kept after some calls in a row, and given up by one more: any number of them,
    // in a kernel that has not learnt yet that this does not pay.
    for calls in (1..30).chain(1..30) {
        let k = boot_with(|builder| builder.log = Some(Box::new(forget_vectors)));
        let mut actor = Actor::new(&k);
        let program = actor.program.as_mut().expect("it is there until the end");
        for _ in 0..calls {
            // SAFETY: no pointers; on the program's thread.
            assert_eq!(unsafe { program.syscall(libc::SYS_getppid, [0; 6]) }, 0);
        }
        // What Linux says to that the host gets, in that function.
        let [root, tmpfs, option] = [c"/", c"tmpfs", c"nosuch=1"].map(|s| s.as_ptr() as u64);
        let before = FORGOTTEN.load(Ordering::Relaxed);
        let answer = actor.call(libc::SYS_mount, &[0, root, tmpfs, 0, option]);
        assert_eq!(answer, -i64::from(libc::EINVAL));
        assert_ne!(FORGOTTEN.load(Ordering::Relaxed), before);
    }
}

#[test]
fn programs_and_the_library_take_turns_at_the_cpus() {
    if !can() {
        return;
    }
    let k = boot_image("smp", |builder| builder.cpus = 2);
    let mut pipe = [0i32; 2];
    assert_eq!(
        syscall(&k, libc::SYS_pipe2, &[pipe.as_mut_ptr() as u64, 0]),
        0
    );
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut actor = Actor::new(&k);
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        assert_eq!(actor.call(libc::SYS_getppid, &[]), 0);
                    }
                    let mut byte = 7u8;
                    let byte = &raw mut byte as u64;
                    assert_eq!(actor.call(libc::SYS_write, &[pipe[1] as u64, byte, 1]), 1);
                    assert_eq!(actor.call(libc::SYS_read, &[pipe[0] as u64, byte, 1]), 1);
                    calls.fetch_add(102, Ordering::Relaxed);
                    // The same thread, as itself.
                    assert_eq!(syscall(&k, libc::SYS_getppid, &[]), 0);
                }
            });
        }
        nap(&k, 500);
        std::thread::sleep(Duration::from_millis(500));
        done.store(true, Ordering::Relaxed);
    });
    println!("{calls:?} calls");
    assert!(calls.into_inner() > 1000);
}

#[test]
fn a_programs_call_ends_with_its_kernel() {
    if !can() {
        return;
    }
    let k = boot();
    let mut actor = Actor::new(&k);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            k.halt();
        });
        let time = [1000u64, 0];
        let ret = actor.call(libc::SYS_nanosleep, &[time.as_ptr() as u64, 0]);
        assert_eq!(ret, -i64::from(libc::ESHUTDOWN));
    });
    assert_eq!(
        actor.call(libc::SYS_getppid, &[]),
        -i64::from(libc::ESHUTDOWN)
    );
}
