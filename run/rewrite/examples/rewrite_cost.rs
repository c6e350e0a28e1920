//! What interception costs, in ns a call: `rewrite_cost`. Each way is measured in turn with the
//! others, for 401 rounds; the median and the least.
//!
//! Run it pinned to one processor, by a build with optimisation.

#[path = "../tests/rig/gate.rs"]
mod gate;
#[path = "../tests/scratch/mod.rs"]
mod scratch;

use gate::{Area, GATES};
use scratch::{ground, run, Ground, Scratch, LEAVE, ROOM, TEXT};
use std::arch::global_asm;
use std::collections::BTreeSet;
use std::time::Instant;
use tane_rewrite::trap::{self, Cause};
use tane_rewrite::{find, Layout, Plan};

// A gate that answers itself: what is left is the way there and back.
global_asm!(
    ".globl empty_gate",
    "empty_gate:",
    "jmp *%rcx",
    options(att_syntax)
);
extern "C" {
    fn empty_gate();
}

const ROUNDS: usize = 401;
/// Calls of a batch; few where they are slow, so that a batch is not interrupted.
const MANY: u32 = 2000;
const FEW: u32 = 50;
const RUNTIME: u64 = 0x3000_0000_0000;

/// A loop of this many of `site`, with rbx as its counter.
fn repeated(calls: u32, number: i64, site: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = calls.to_le_bytes();
    let mut code = vec![0xbb, a, b, c, d];
    let start = code.len();
    let [a, b, c, d] = (number as u32).to_le_bytes();
    code.extend_from_slice(&[0xb8, a, b, c, d]);
    code.extend_from_slice(site);
    code.extend_from_slice(&[0xff, 0xcb, 0x0f, 0x85]); // dec ebx; jnz
    let back = start as i32 - (code.len() as i32 + 4);
    code.extend_from_slice(&back.to_le_bytes());
    let [a, b, c, d] = (LEAVE as u32).to_le_bytes();
    code.extend_from_slice(&[0x65, 0xff, 0x24, 0x25, a, b, c, d]);
    code
}

const CLASS_A: &[u8] = &[0x0f, 0x05];
const CLASS_B: &[u8] = &[0x90, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
const NOTHING: &[u8] = &[];

struct Way {
    name: &'static str,
    scratch: Scratch,
    gates: [u64; 3],
    calls: u32,
}

fn way(name: &'static str, number: i64, site: &[u8], gate: Option<u64>) -> Way {
    let calls = if name.contains("trapped") { FEW } else { MANY };
    let mut code = repeated(calls, number, site);
    let scratch = Scratch::new();
    if gate.is_some() {
        let layout = Layout {
            distance: TEXT as i64,
            room: ROOM,
            gates: GATES,
        };
        let plan = Plan::new(&code, &find(&code, 0, &[]), &BTreeSet::new(), layout);
        assert_eq!(plan.apply(&mut code), Ok(1), "{name}");
        scratch.put(TEXT, &plan.trampolines);
    }
    scratch.put(0, &code);
    let gates = [gate.unwrap_or(0); 3];
    Way {
        name,
        scratch,
        gates,
        calls,
    }
}

fn measure(ground: &mut Ground, ways: &[Way]) {
    let host = ground.area;
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut times) {
            ground.area = Area {
                gates: [way.gates[0], way.gates[1], way.gates[2], 0],
                ..host
            };
            let rsp = way.scratch.stack.as_ptr() as u64 + (32 << 10);
            let start = Instant::now();
            // SAFETY: a loop of calls without effect.
            unsafe { run(ground, way.scratch.run as u64, rsp, [0; 16]) };
            times.push(start.elapsed().as_nanos() as f64 / f64::from(way.calls));
        }
    }
    for (way, times) in ways.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!(
            "{:<52} {:>9.2} {:>9.2}",
            way.name,
            times[ROUNDS / 2],
            times[0]
        );
    }
}

unsafe extern "C" fn caught(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel gave them; the gate is at its place.
    unsafe {
        if let Some(Cause::Call(_)) = trap::cause(signal, info, context) {
            let back = trap::get(context, libc::REG_RIP);
            trap::enter(context, RUNTIME + gate::at::toy_net(), back);
        }
    }
}

unsafe extern "C" fn answered(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel gave them.
    unsafe {
        match trap::get(context, libc::REG_RAX) as i64 {
            libc::SYS_gettid => trap::answer(context, 1),
            _ => caught(signal, info, context),
        }
    }
}

/// Puts the gate at its place, and this process under the net.
fn enter_the_net(handler: trap::Handler) {
    let (code, back) = (gate::code(), trap::return_code());
    let restorer = RUNTIME + code.len() as u64;
    // SAFETY: a new mapping; the handlers do what handlers may.
    unsafe {
        let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let page = libc::mmap(RUNTIME as *mut _, 4096, rwx, fixed, -1, 0).cast::<u8>();
        assert!(page as i64 != -1, "{}", std::io::Error::last_os_error());
        page.copy_from_nonoverlapping(code.as_ptr(), code.len());
        page.add(code.len())
            .copy_from_nonoverlapping(back.as_ptr(), back.len());
        trap::install(libc::SIGSYS, handler, restorer).expect("a handler");
    }
    let net = tane_jail::Net {
        runtime: RUNTIME..restorer + back.len() as u64,
        memory: vec![1000],
        bells: vec![1, 2],
        interrupt: libc::SIGUSR1,
    };
    net.enter().expect("a filter");
}

/// In a process of its own, since a net is for good.
fn apart(work: impl FnOnce()) {
    // SAFETY: there are no other threads.
    unsafe {
        match libc::fork() {
            0 => {
                work();
                libc::_exit(0);
            }
            child => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                assert_eq!(status, 0, "a process under the net");
            }
        }
    }
}

fn main() {
    println!("{:<52} {:>9} {:>9}", "", "median", "least");
    // Once: the gate cannot change the base that it goes by.
    let ground = ground();
    let toy = |at: u64| Some(gate::code().as_ptr() as u64 + at);
    let empty = Some(empty_gate as *const () as u64);
    let gettid = libc::SYS_gettid;
    measure(
        ground,
        &[
            way("the loop alone", gettid, NOTHING, None),
            way(
                "class a, a gate that comes back at once",
                gettid,
                CLASS_A,
                empty,
            ),
            way(
                "class b, a gate that comes back at once",
                gettid,
                CLASS_B,
                empty,
            ),
            way("gettid(2) of the host", gettid, CLASS_A, None),
            way(
                "gettid(2), class a, toy gate",
                gettid,
                CLASS_A,
                toy(gate::at::toy_a()),
            ),
            way(
                "gettid(2), class b, toy gate",
                gettid,
                CLASS_B,
                toy(gate::at::toy_b()),
            ),
        ],
    );
    apart(|| {
        let inside = Some(RUNTIME + gate::at::toy_a());
        let ways = [
            way(
                "under the net: gettid(2) of the runtime",
                gettid,
                CLASS_A,
                inside,
            ),
            way(
                "under the net: trapped, gettid(2) by the gate",
                gettid,
                CLASS_A,
                None,
            ),
        ];
        enter_the_net(caught);
        measure(ground, &ways);
    });
    apart(|| {
        let ways = [way(
            "under the net: trapped, answered by the handler",
            gettid,
            CLASS_A,
            None,
        )];
        enter_the_net(answered);
        measure(ground, &ways);
    });
}
