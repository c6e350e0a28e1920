//! Calls of modules that are written here byte by byte: what they find, what they may name, and
//! what ends them.

use std::arch::asm;
use std::time::Duration;
use tane_checked::{Export, Layout, Module};
use tane_checked_run::{Error, Instance, Trap};

const HEAP: u64 = 1 << 16;

fn can_run() -> bool {
    match tane_checked_run::lacks() {
        Some(what) => tane_test_support::skip(what),
        None => return true,
    }
    false
}

/// A module of this code, with functions at these places.
fn module(code: &[u8], exports: &[(&str, u32)]) -> Vec<u8> {
    let export = |&(name, at)| Export { name, at };
    let module = Module {
        code,
        table: vec![0],
        read_only: &[],
        data: &[],
        zeroes: 0,
        imports: Vec::new(),
        exports: exports.iter().map(export).collect(),
        heights: Vec::new(),
        types: None,
        layout: Layout::new(code.len() as u64, 1, 0, 0).expect("it is small"),
    };
    module.to_bytes()
}

fn instance(code: &[u8], exports: &[(&str, u32)]) -> Instance {
    let file = module(code, exports);
    Instance::new(&file, HEAP, Vec::new()).unwrap_or_else(|e| panic!("{e:?}"))
}

/// All bits of all vector registers are set.
fn fill_vector_registers() {
    // SAFETY: it computes, and says what it changes.
    unsafe {
        asm!(
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "vcmptrueps ymm\\n, ymm\\n, ymm\\n",
            ".endr",
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nomem, nostack)
        );
    }
}

#[test]
fn a_module_finds_nothing_of_the_hosts_in_vector_registers() {
    if !can_run() {
        return;
    }
    for n in 0..16_u8 {
        let (high, field) = (n / 8, n % 8 * 8);
        // movq %xmmN,%rax; ret; and behind it vextractf128 $1,%ymmN,%xmm0; movq; ret
        let lower = [0x66, 0x48 | high << 2, 0x0f, 0x7e, 0xc0 | field, 0xc3];
        let upper = [0xc4, 0xe3 & !(high << 7), 0x7d, 0x19, 0xc0 | field, 1];
        let code = [&lower[..], &upper, &[0x66, 0x48, 0x0f, 0x7e, 0xc0, 0xc3]].concat();
        let mut instance = instance(&code, &[("lower", 0), ("upper", 6)]);
        for name in ["lower", "upper"] {
            let function = instance.function(name).expect("exported");
            fill_vector_registers();
            let found = instance.call_function(function, &[]).expect("a call");
            assert_eq!(found, Ok(0), "{name} half of register {n}");
        }
    }
}

#[test]
fn a_function_is_called_in_the_instance_that_it_is_of() {
    if !can_run() {
        return;
    }
    // nop; ret, and mov $0x00c3050f,%eax; ret, which has a syscall in it at 1.
    let one = instance(&[0x90, 0xc3], &[("f", 1)]);
    let mut other = instance(&[0xb8, 0x0f, 0x05, 0xc3, 0, 0xc3], &[("f", 0)]);
    let (of_one, its_own) = (one.function("f"), other.function("f"));
    let called = other.call_function(of_one.expect("exported"), &[]);
    assert!(matches!(called, Err(Error::Function)), "{called:?}");
    let called = other.call_function(its_own.expect("exported"), &[]);
    assert_eq!(called.expect("a call"), Ok(0x00c3_050f));
}

#[test]
fn more_heap_than_a_window_has_is_refused() {
    if !can_run() {
        return;
    }
    let file = module(&[0xc3], &[("f", 0)]);
    for heap in [1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX - 4095, u64::MAX] {
        let made = Instance::new(&file, heap, Vec::new());
        assert!(matches!(made, Err(Error::Host(_))), "{heap:#x}");
    }
    let some = 1 << 31;
    assert!(Instance::new(&file, some, Vec::new()).is_ok());
}

#[test]
fn a_thread_that_is_in_no_call_is_left_alone_when_calls_are_stopped() {
    if !can_run() {
        return;
    }
    let mut instance = instance(&[0xc3], &[("f", 0)]);
    instance.limit(Duration::from_secs(60)).expect("a thread");
    instance.stopper().expect("it has a limit").stop();
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    // SAFETY: a structure that the call reads. Any signal ends it.
    let slept = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    assert_eq!(slept, 0, "it was interrupted");
}

#[test]
fn calls_that_were_stopped_end_at_their_beginning() {
    if !can_run() {
        return;
    }
    // jmp .
    let mut instance = instance(&[0xeb, 0xfe], &[("f", 0)]);
    instance.limit(Duration::from_secs(60)).expect("a thread");
    instance.stopper().expect("it has a limit").stop();
    assert_eq!(instance.call("f", &[]).expect("exported"), Err(Trap::Time));
}
