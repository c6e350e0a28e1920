//! What is counted while threads work, who ends the process when one of them
//! does not come back, and who takes CPUs away.

use super::shared::has_ended;
use crate::medium::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tane::Kernel;
use tane_test_support::PATIENCE;

/// What a thread is doing, since when.
pub type Doing = Mutex<(&'static str, Instant)>;

pub fn doing() -> Doing {
    Mutex::new(("nothing", Instant::now()))
}

/// A thread inside the kernel cannot be ended, so a stall ends the process.
pub fn stalls(all: &[Doing], done: &AtomicBool, what: &str) {
    while !done.load(Ordering::Relaxed) {
        for (me, doing) in all.iter().enumerate() {
            let (deed, since) = *doing.lock().unwrap_or_else(|e| e.into_inner());
            if since.elapsed() > PATIENCE && deed != "nothing" {
                eprintln!("stalled: {what}: thread {me} in {deed}");
                std::process::abort();
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// CPUs but the first go and come, until told to stop; then all are there. How
/// often one went.
pub fn hotplug(kernel: &Kernel, cpus: u32, random: &mut Random, stop: &AtomicBool) -> u64 {
    let switch = |cpu: u32, on: bool| -> std::io::Result<()> {
        let sys = kernel.tree("/sys")?;
        let path = format!("devices/system/cpu/cpu{cpu}/online");
        let value: &[u8] = if on { b"1" } else { b"0" };
        Ok(sys.write(&path, value)?)
    };
    let mut gone = 0;
    let mut work = || -> std::io::Result<()> {
        while !stop.load(Ordering::Relaxed) && cpus > 1 {
            let cpu = 1 + random.below(u64::from(cpus) - 1) as u32;
            switch(cpu, false)?;
            gone += 1;
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            switch(cpu, true)?;
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
        }
        Ok(())
    };
    match work() {
        Err(error) if !has_ended(&error) => panic!("{error}\n{}", kernel.dmesg()),
        _ => gone,
    }
}

/// Deeds done, by name.
#[derive(Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn count(&mut self, deed: &'static str) {
        *self.0.entry(deed).or_default() += 1;
    }

    pub fn add(&mut self, other: Tally) {
        for (deed, count) in other.0 {
            *self.0.entry(deed).or_default() += count;
        }
    }

    /// Without what is in brackets, which no thread did to the file system.
    pub fn all(&self) -> u64 {
        let deeds = self.0.iter().filter(|(deed, _)| !deed.starts_with('('));
        deeds.map(|(_, count)| count).sum()
    }

    pub fn text(&self) -> String {
        let each: Vec<_> = self
            .0
            .iter()
            .map(|(deed, n)| format!("{deed} {n}"))
            .collect();
        each.join(", ")
    }

    pub fn of(&self, deed: &str) -> u64 {
        self.0.get(deed).copied().unwrap_or(0)
    }
}
