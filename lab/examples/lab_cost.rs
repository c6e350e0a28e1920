//! What looking costs: a call of the kernel's alone and under each kind of probe, the
//! least of many batches, in ns.
//!
//! `cargo run --release -p tane-lab --example lab_cost -- IMAGE [PROGRAM.o]`: of the program of
//! BPF, each hit of what it has at sys_getppid.

use std::time::Instant;
use tane::Kernel;
use tane_lab::{Lab, Probe, Result, Trace};

const CALLS: u32 = 1000;
const BATCHES: u32 = 60;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let image = std::env::args().nth(1).ok_or("usage: cost IMAGE")?;
    let began = Instant::now();
    let kernel = Kernel::builder().image(image).boot()?;
    println!("{:>9.1} ms  boot", began.elapsed().as_secs_f64() * 1e3);
    let lab = kernel.trace()?;
    let alone = getppid(&kernel);
    println!("{alone:>9.1} ns  getppid alone");
    let report = |name: &str, with: f64| println!("{:>9.1} ns  {name}", with - alone);

    let probe = lab.probe("sys_getppid", "")?;
    report("an event at its entry", getppid(&kernel));
    drop(probe);
    let probe = lab.return_probe("sys_getppid", "value=$retval")?;
    report("an event at its return", getppid(&kernel));
    drop(probe);
    for (switch, name) in [("1", "jump"), ("0", "breakpoint")] {
        kernel
            .tree("/proc")?
            .write("sys/debug/kprobes-optimization", switch)?;
        let probe = inside(&lab)?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        report(&format!("an event inside, by {name}"), getppid(&kernel));
        drop(probe);
    }
    if let Some(path) = std::env::args().nth(2) {
        let programs = lab.programs(&path, &std::fs::read(&path)?)?;
        programs.start()?;
        report("a program of BPF", getppid(&kernel));
        programs.stop();
        report("a program of BPF that does not run", getppid(&kernel));
    }
    let graph = lab.graph().buffer(32 << 20);
    let (with, calls) = graph.run(|| getppid(&kernel))?;
    let functions = calls.calls.len() as f64 / f64::from(CALLS * BATCHES);
    report(&format!("the graph of its {functions:.1} functions"), with);

    let functions = lab.functions()?;
    let began = Instant::now();
    let probes = functions.iter().filter_map(|f| lab.probe(f, "").ok());
    let probes: Vec<_> = probes.take(1000).collect();
    let took = began.elapsed().as_secs_f64() * 1e3;
    println!("{took:>9.1} ms  to put {} probes", probes.len());
    let began = Instant::now();
    drop(probes);
    println!(
        "{:>9.1} ms  to take them out",
        began.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

fn inside(lab: &Lab) -> Result<Probe<'_>> {
    let mut found = lab.probe("sys_getppid+5", "");
    for offset in 6..16 {
        if found.is_err() {
            found = lab.probe(&format!("sys_getppid+{offset}"), "");
        }
    }
    found
}

/// One call in ns.
fn getppid(kernel: &Kernel) -> f64 {
    const GETPPID: i64 = 110;
    let batch = || {
        let began = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: the call has no arguments.
            unsafe { kernel.syscall(GETPPID, [0; 6]) };
        }
        began.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::MAX, f64::min)
}
