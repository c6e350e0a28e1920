//! What calls cost in a kernel that has a checkpoint, beside one that has none:
//! `cargo run --release -p tane --example checkpoint_calls -- IMAGE`. In pairs, one after the
//! other; and their instructions, counted by stepping.

use std::arch::asm;
use std::time::Instant;
use tane::{File, Kernel, OpenOptions, Result, Tree};

const ROUNDS: usize = 41;
const CALLS: usize = 4000;
/// Calls before the first that is counted, and those that are.
const WARM: usize = 200;
const COUNTED: usize = 7;
/// Seconds after which a child is given up.
const LATE: u32 = 20;
/// As ptrace(2) takes it.
const NONE: *mut u8 = std::ptr::null_mut();

/// A kernel, and something to call it about.
struct Bed {
    kernel: Kernel,
    tree: Tree,
    file: File,
}

impl Bed {
    fn new(image: &str) -> Result<Bed> {
        let kernel = Kernel::builder().image(image).boot()?;
        let tree = kernel.tree("/")?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = options.open(&tree, "file")?;
        Ok(Bed { kernel, tree, file })
    }
}

type Call = fn(&Bed);

const KINDS: [(&str, Call); 5] = [
    ("getppid", |bed| {
        // SAFETY: no memory involved.
        let parent = unsafe { bed.kernel.syscall(libc::SYS_getppid, [0; 6]) };
        assert_eq!(parent, 0);
    }),
    ("pread of 1 B", |bed| {
        let n = bed.file.read_at(&mut [0], 0).expect("reads");
        assert_eq!(n, 1);
    }),
    ("pwrite of 1 B", |bed| {
        let n = bed.file.write_at(&[1], 0).expect("writes");
        assert_eq!(n, 1);
    }),
    ("fstat", |bed| {
        bed.file.metadata().expect("is there");
    }),
    ("open and close", |bed| {
        drop(bed.tree.open("file").expect("opens"));
    }),
];

/// Ns for one call.
fn time(bed: &Bed, call: Call) -> f64 {
    (0..WARM).for_each(|_| call(bed));
    let began = Instant::now();
    (0..CALLS).for_each(|_| call(bed));
    began.elapsed().as_secs_f64() * 1e9 / CALLS as f64
}

fn breakpoint() {
    // SAFETY: whoever traces this process has it go on.
    unsafe { asm!("int3") };
}

/// In a child: calls, each between two breakpoints.
fn step(image: &str, kind: usize, checkpoint: bool) -> Result<()> {
    let bed = Bed::new(image)?;
    bed.file.write_at(&[1], 0).expect("writes");
    let _checkpoint = checkpoint.then(|| bed.kernel.checkpoint()).transpose()?;
    let call = KINDS[kind].1;
    // Until the thread may keep its CPU, and does.
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..COUNTED {
        (0..WARM).for_each(|_| call(&bed));
        breakpoint();
        call(&bed);
        breakpoint();
    }
    Ok(())
}

/// Stop the other threads of a child for good: for theirs each step is an age, in which timers
/// are due.
fn freeze_others(child: i32) {
    let tasks = std::fs::read_dir(format!("/proc/{child}/task"));
    let names = tasks.into_iter().flatten().flatten();
    let tids = names.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    for tid in tids.filter(|tid| *tid != child) {
        // SAFETY: a thread of our child.
        unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, tid, NONE, NONE);
            libc::ptrace(libc::PTRACE_INTERRUPT, tid, NONE, NONE);
            libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// The fewest instructions of a call in a child.
fn count(image: &str, kind: usize, checkpoint: bool) -> Option<u64> {
    // SAFETY: the child runs on alone; a process of one thread forks here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: whoever is traced stops where it is told to; if it never does, it ends.
        unsafe {
            libc::alarm(LATE);
            libc::ptrace(libc::PTRACE_TRACEME, 0, NONE, NONE);
        }
        let done = step(image, kind, checkpoint);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut least = None;
    let (mut steps, mut within, mut alone) = (0, false, false);
    loop {
        let (mut status, mut info) = (0, std::mem::MaybeUninit::<libc::siginfo_t>::zeroed());
        // SAFETY: a child of ours, and room for what is told of it.
        unsafe {
            // Its end is told after that of its other threads.
            while libc::waitpid(-1, &raw mut status, libc::__WALL) != child {}
            if !libc::WIFSTOPPED(status) {
                return least;
            }
            let mut signal = libc::WSTOPSIG(status);
            if signal == libc::SIGTRAP {
                signal = 0;
                libc::ptrace(libc::PTRACE_GETSIGINFO, child, NONE, info.as_mut_ptr());
                // Its own breakpoint, and no step.
                if info.assume_init().si_code == 0x80 {
                    if !std::mem::replace(&mut alone, true) {
                        freeze_others(child);
                    }
                    least = least.into_iter().chain(within.then_some(steps)).min();
                    (steps, within) = (0, !within);
                } else {
                    steps += 1;
                }
            }
            let how = if within {
                libc::PTRACE_SINGLESTEP
            } else {
                libc::PTRACE_CONT
            };
            libc::ptrace(how, child, NONE, i64::from(signal));
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let image = std::env::args()
        .nth(1)
        .ok_or("usage: checkpoint_calls IMAGE")?;
    // Before there is a second thread.
    let counts: Vec<_> = (0..KINDS.len())
        .map(|kind| [false, true].map(|checkpoint| count(&image, kind, checkpoint)))
        .collect();
    let (without, with) = (Bed::new(&image)?, Bed::new(&image)?);
    for bed in [&without, &with] {
        bed.file.write_all_at(&[1], 0)?;
    }
    let _checkpoint = with.kernel.checkpoint()?;
    println!(
        "ns (least, median) and instructions: without a checkpoint | with one | the pairs apart"
    );
    for ((name, call), counts) in KINDS.into_iter().zip(counts) {
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let pair = [time(&without, call), time(&with, call)];
            times[0].push(pair[0]);
            times[1].push(pair[1]);
            times[2].push(pair[1] - pair[0]);
        }
        times.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
        let [a, b, d] = times.map(|all| (all[0], all[ROUNDS / 2]));
        let [i, j] = counts.map(|n| n.map_or("?".into(), |n| n.to_string()));
        println!(
            "{name:16} {:6.0} {:6.0} {i:>6} | {:6.0} {:6.0} {j:>6} | {:+6.1}",
            a.0, a.1, b.0, b.1, d.1
        );
    }
    Ok(())
}
