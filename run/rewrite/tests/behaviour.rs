//! Code that is rewritten does what it did: all registers, flags and the memory below the
//! stack pointer are the same after it, from wherever it is entered. The processor and
//! the host's kernel are the oracle.

#[path = "rig/gate.rs"]
mod gate;
mod scratch;

use gate::GATES;
use proptest::prelude::*;
use scratch::{ground, resume_by, run, traps, Scratch, Values, LEAVE, ROOM, TEXT};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use tane_rewrite::{find, live, Class, Layout, Plan};

const LAYOUT: Layout = Layout {
    distance: TEXT as i64,
    room: ROOM,
    gates: GATES,
};

/// Traps are the process's, so tests take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls that have no effect, and one that there is not.
const CALLS: [u32; 5] = [39, 110, 102, 186, 1023];

/// Instructions that leave rax, rsp and r11 to r9 alone, or go through the red zone.
const FILLERS: [&[u8]; 16] = [
    &[0x90],
    &[0x48, 0x89, 0xd3],             // mov rbx, rdx
    &[0x48, 0x01, 0xcb],             // add rbx, rcx
    &[0x4c, 0x31, 0xdd],             // xor rbp, r11
    &[0x48, 0x8d, 0x74, 0x1e, 0x07], // lea rsi, [rsi + rbx + 7]
    &[0x48, 0x85, 0xc0],             // test rax, rax
    &[0x48, 0x39, 0xcb],             // cmp rbx, rcx
    &[0x48, 0x89, 0x44, 0x24, 0xf8], // mov [rsp - 8], rax
    &[0x4c, 0x8b, 0x64, 0x24, 0xf8], // mov r12, [rsp - 8]
    &[0x4c, 0x89, 0x5c, 0x24, 0x80], // mov [rsp - 128], r11
    &[0x49, 0x89, 0xcd],             // mov r13, rcx
    &[0x53],                         // push rbx
    &[0x5b],                         // pop rbx
    &[0xf8],                         // clc
    &[0x4d, 0x11, 0xdf],             // adc r15, r11
    &[0x0f, 0x1f, 0x44, 0x00, 0x00], // nop
];

#[derive(Clone, Debug)]
enum Part {
    Filler(usize),
    /// mov eax, number; syscall
    Number(usize),
    /// mov eax, number; a filler; syscall; cmp rax, -4095 or -4096
    Error(usize, bool),
    /// mov eax, number; nop; syscall; fillers
    Other(usize, usize, usize),
    /// The same; test eax, eax; a jump over a filler, with a condition
    Tested(usize, u8, usize),
    /// mov eax, number; mov [rsp - 16], r11; syscall; lea rsi, [rip]
    Before(usize),
    /// A jump over a filler, with a condition.
    Jump(u8, usize),
}

/// Offsets of all instructions that the code may be entered at, and the code.
fn assemble(parts: &[Part]) -> (Vec<usize>, Vec<u8>) {
    let (mut starts, mut code) = (Vec::new(), Vec::new());
    let mut put = |bytes: &[u8]| {
        starts.push(code.len());
        code.extend_from_slice(bytes);
    };
    let number = |n: usize| {
        let [a, b, c, d] = CALLS[n].to_le_bytes();
        [0xb8, a, b, c, d]
    };
    for part in parts {
        match *part {
            Part::Filler(f) => put(FILLERS[f]),
            Part::Number(n) => {
                put(&number(n));
                put(&[0x0f, 0x05]);
            }
            Part::Error(n, second) => {
                put(&number(n));
                put(&[0x90]);
                put(&[0x0f, 0x05]);
                put(&[0x48, 0x3d, u8::from(second), 0xf0, 0xff, 0xff]);
            }
            Part::Other(n, first, second) => {
                put(&number(n));
                put(&[0x90]);
                put(&[0x0f, 0x05]);
                put(FILLERS[first]);
                put(FILLERS[second]);
            }
            Part::Tested(n, condition, f) => {
                put(&number(n));
                put(&[0x90]);
                put(&[0x0f, 0x05]);
                put(&[0x48, 0x85, 0xc0]);
                put(&[0x70 | condition, FILLERS[f].len() as u8]);
                put(FILLERS[f]);
            }
            Part::Before(n) => {
                put(&number(n));
                put(&[0x4c, 0x89, 0x5c, 0x24, 0xf0]);
                put(&[0x0f, 0x05]);
                // lea rsi, [rip]: it cannot be moved.
                put(&[0x48, 0x8d, 0x35, 0, 0, 0, 0]);
            }
            Part::Jump(condition, f) => {
                put(&[0x70 | condition, FILLERS[f].len() as u8]);
                put(FILLERS[f]);
            }
        }
    }
    let [a, b, c, d] = (LEAVE as u32).to_le_bytes();
    put(&[0x65, 0xff, 0x24, 0x25, a, b, c, d]);
    (starts, code)
}

fn part() -> impl Strategy<Value = Part> {
    let (f, n) = (0..FILLERS.len(), 0..CALLS.len());
    prop_oneof![
        f.clone().prop_map(Part::Filler),
        n.clone().prop_map(Part::Number),
        (n.clone(), any::<bool>()).prop_map(|(n, second)| Part::Error(n, second)),
        (n.clone(), f.clone(), f.clone()).prop_map(|(n, a, b)| Part::Other(n, a, b)),
        n.clone().prop_map(Part::Before),
        (n, 0..16u8, f.clone()).prop_map(|(n, c, f)| Part::Tested(n, c, f)),
        (0..16u8, f).prop_map(|(c, f)| Part::Jump(c, f)),
    ]
}

/// Number in rax, whatever in others; flags that can be set.
fn values() -> impl Strategy<Value = Values> {
    (any::<[u64; 16]>(), 0..CALLS.len()).prop_map(|(mut values, n)| {
        values[0] = CALLS[n].into();
        values[15] = values[15] & 0xcd5 & !0x100 | 2;
        values
    })
}

/// Registers, stack pointer and the stack after a run.
fn after(
    scratch: &mut Scratch,
    ground: &mut scratch::Ground,
    from: usize,
    values: Values,
) -> (Values, u64, Vec<u8>) {
    scratch.stack.fill(0x5a);
    let rsp = scratch.stack.as_ptr() as u64 + (32 << 10);
    // SAFETY: the code makes harmless calls, and writes around rsp only.
    let (values, rsp) = unsafe { run(ground, scratch.run as u64 + from as u64, rsp, values) };
    (values, rsp, scratch.stack.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rewritten_code_does_what_it_did_wherever_it_is_entered(
        parts in prop::collection::vec(part(), 1..12),
        values in values(),
    ) {
        let _alone = ALONE.lock();
        let (starts, code) = assemble(&parts);
        let mut scratch = Scratch::new();
        let ground = ground();
        scratch.put(0, &code);
        let before: Vec<_> = starts.iter().map(|at| after(&mut scratch, ground, *at, values)).collect();

        let sites = find(&code, 0, &[]);
        let proven: BTreeSet<u32> = sites.iter().map(|site| site.at).collect();
        let plan = Plan::new(&code, &sites, &proven, LAYOUT);
        prop_assert!(plan.without_room.is_empty());
        let mut patched = code.clone();
        let count = plan.apply(&mut patched).expect("the same code");
        let stay = sites.iter().filter(|site| matches!(site.class, Class::Stays(_))).count();
        prop_assert_eq!(count + stay, sites.len());
        scratch.put(0, &patched);
        scratch.put(TEXT, &plan.trampolines);
        resume_by(plan, scratch.run as u64, scratch.run as u64 + TEXT as u64);
        traps();
        for (at, expected) in starts.iter().zip(before) {
            let got = after(&mut scratch, ground, *at, values);
            prop_assert_eq!(got.0, expected.0, "from {}", at);
            prop_assert_eq!(got.1, expected.1);
            prop_assert!(got.2 == expected.2, "memory below the stack pointer");
        }
        scratch.free();
    }
}

#[test]
fn sites_are_patched_under_threads_that_run_them() {
    // getppid by class c of both kinds, at any place within eight bytes.
    let _alone = ALONE.lock();
    const SITES: usize = 2000;
    let mut code = Vec::new();
    for n in 0..SITES {
        code.extend_from_slice(&[0xb8, 110, 0, 0, 0]);
        code.extend(std::iter::repeat_n(0x90, 1 + n % 9));
        if n % 2 == 0 {
            code.extend_from_slice(&[0x0f, 0x05, 0x48, 0x01, 0xc3]); // add rbx, rax
        } else {
            // mov [rsp - 16], r11; syscall; lea rsi, [rip]; add rbx, rax
            code.extend_from_slice(&[0x4c, 0x89, 0x5c, 0x24, 0xf0, 0x0f, 0x05]);
            code.extend_from_slice(&[0x48, 0x8d, 0x35, 0, 0, 0, 0, 0x48, 0x01, 0xc3]);
        }
    }
    let [a, b, c, d] = (LEAVE as u32).to_le_bytes();
    code.extend_from_slice(&[0x65, 0xff, 0x24, 0x25, a, b, c, d]);
    let sites = find(&code, 0, &[]);
    assert_eq!(sites.len(), SITES);
    let scratch = Scratch::new();
    let plan = Plan::new(&code, &sites, &BTreeSet::new(), LAYOUT);
    scratch.put(0, &code);
    scratch.put(TEXT, &plan.trampolines);
    resume_by(
        plan.clone(),
        scratch.run as u64,
        scratch.run as u64 + TEXT as u64,
    );
    traps();
    live::register_sync_core().expect("membarrier(2)");
    let done = AtomicBool::new(false);
    let parent = std::os::unix::process::parent_id();
    let text = scratch.run as u64;
    std::thread::scope(|scope| {
        let work = || {
            let ground = ground();
            let stack = vec![0u8; 64 << 10];
            let rsp = stack.as_ptr() as u64 + (32 << 10);
            let mut last = false;
            while !last {
                last = done.load(Ordering::Acquire);
                // SAFETY: the code makes harmless calls, and has a stack.
                let (values, _) = unsafe { run(ground, text, rsp, [0; 16]) };
                assert_eq!(values[1], u64::from(parent) * SITES as u64);
            }
            ground.area.counts[2]
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        for patch in &plan.patches {
            // SAFETY: the view that is written, by us alone.
            let outcome = unsafe { live::write(scratch.write, patch, live::sync_core) };
            assert_eq!(outcome.expect("membarrier(2)"), live::Outcome::Written);
        }
        done.store(true, Ordering::Release);
        for worker in workers {
            let calls = worker.join().expect("the right sum");
            assert!(calls >= SITES as u64, "{calls} calls through trampolines");
        }
    });
    scratch.free();
}
