//! The same calls from several threads, each on a file of its own: how much
//! more gets done, and whether each gets its share. And bytes that go to and
//! fro between two threads, which have to wake each other.

use super::bed::{Bed, Fs, HostSide};
use super::pair::Pair;
use crate::kernel::{boot, boot_with, Host, Kernel, RAM};
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::race::{batches, race, Contestant, BATCHES};
use crate::report::{Report, HOST, TANE};
use crate::target::Target::{self, AtLeast, Faster};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const CALLS: [(&str, &str); 4] = [
    ("getppid", "getppid"),
    ("pread-4k", "pread of 4 KiB"),
    ("pwrite-4k", "pwrite of 4 KiB"),
    ("open-close", "open and close"),
];
/// More threads than CPUs.
const CROWD: usize = 4;
const TIME: Duration = Duration::from_millis(30);
/// Calls between two looks at the clock.
const STRIDE: u64 = 64;

/// 1, 2, 4, … and as many as there are CPUs; 2 in any case.
fn counts() -> Vec<usize> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut counts: Vec<usize> = (0..4).map(|i| 1 << i).collect();
    counts.retain(|n| *n <= cpus.max(2));
    if !counts.contains(&cpus) && cpus <= 8 {
        counts.push(cpus);
    }
    counts
}

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for (call, text) in CALLS {
        for n in counts() {
            let threads = match n {
                1 => "one thread".into(),
                n => format!("{n} threads with a file each"),
            };
            let what = format!("{text} on ramfs, {threads}: time for one of all calls");
            let name = format!("threads-{call}-{n}");
            let row = Promise::new(name, Set::Threads, what, "ns", Target::None);
            rows.push(row.at(text, n as f64, 0));
        }
    }
    for (call, text) in &CALLS[1..3] {
        let what = format!("{text} on independent files: two threads to one");
        let target = AtLeast(1.9);
        rows.push(Promise::new(
            format!("scale-{call}"),
            Set::Threads,
            what,
            "×",
            target,
        ));
    }
    for (call, text) in CALLS {
        let what = format!("{text}, two threads: calls of the slower to the faster");
        rows.push(Promise::new(
            format!("fair-{call}"),
            Set::Threads,
            what,
            "%",
            Target::None,
        ));
    }
    let what =
        format!("pread of 4 KiB, {CROWD} threads on two CPUs: calls of the slowest to the fastest");
    rows.push(Promise::new(
        "crowd-pread-4k",
        Set::Threads,
        what,
        "%",
        Target::None,
    ));
    for (kind, text, target) in [
        ("pipe", "1 B through two pipes", Faster(1.0)),
        ("eventfd", "a count of 1 by eventfds", Target::None),
        ("unix", "1 B over a Unix socket", Target::None),
        ("udp", "4 B by UDP over loopback", Target::None),
        ("tcp", "1 B by TCP over loopback", Target::None),
    ] {
        let what = format!("{text} to another thread and back");
        rows.push(Promise::new(
            format!("pingpong-{kind}"),
            Set::Threads,
            what,
            "ns",
            target,
        ));
    }
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let (what, rest) = promise.name.split_once('-').unwrap_or_default();
    if what == "pingpong" {
        return ping_pong(promise, rest, paths, report);
    }
    let cpus = report.machine.cpus;
    if cpus < 2 && !promise.name.ends_with("-1") {
        return Err("this machine has one CPU".into());
    }
    let most = counts().into_iter().max().unwrap_or(2).max(CROWD);
    let inside_cpus = match what {
        "crowd" => 2,
        _ => cpus.min(8) as u32,
    };
    let ours = boot(paths, "smp", inside_cpus, RAM)?;
    let host_side = HostSide::new(paths, Fs::Ramfs)?;
    host_side.mirror(&ours, Fs::Ramfs)?;
    let (inside, host) = (
        Crew::new(&ours, &host_side, most)?,
        Crew::new(&Host, &host_side, most)?,
    );
    let figure = |crew: &dyn Works| -> Result<f64, String> {
        match what {
            "scale" => {
                let alone = sum(&crew.work(rest, 1)?);
                Ok(sum(&crew.work(rest, 2)?) / alone)
            }
            "fair" => Ok(fairness(&crew.work(rest, 2)?)),
            "crowd" => Ok(fairness(&crew.work(rest, CROWD)?)),
            _ => {
                let (call, n) = rest.rsplit_once('-').unwrap_or_default();
                let n = n.parse().map_err(|_| "not a number of threads")?;
                Ok(1.0 / sum(&crew.work(call, n)?))
            }
        }
    };
    let mut contestants = vec![
        Contestant::new(TANE, || figure(&inside)).noted("smp image"),
        Contestant::new(HOST, || figure(&host)).noted(&host_side.note),
    ];
    if what == "scale" {
        // CPUs may share a core, or its caches: what they gain without any kernel.
        contestants.push(Contestant::new("memcpy", || figure(&Copiers)));
    }
    race(promise, report.runs, contestants, report);
    Ok(())
}

fn sum(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// The slowest, in percent of the fastest.
fn fairness(rates: &[f64]) -> f64 {
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    100.0 * slowest / fastest
}

trait Works {
    /// Calls per ns of each of `n` threads at work together.
    fn work(&self, call: &str, n: usize) -> Result<Vec<f64>, String>;
}

/// A file for each thread.
struct Crew<'a, K: Kernel> {
    beds: Vec<Bed<'a, K>>,
}

impl<'a, K: Kernel> Crew<'a, K> {
    fn new(kernel: &'a K, host_side: &HostSide, most: usize) -> Result<Self, String> {
        let bed = |i| Bed::new(kernel, &host_side.point, &format!("file-{i}"), 4096);
        let beds = (0..most).map(bed).collect::<Result<_, _>>()?;
        Ok(Self { beds })
    }
}

impl<K: Kernel> Works for Crew<'_, K> {
    fn work(&self, call: &str, n: usize) -> Result<Vec<f64>, String> {
        let beds = self.beds.get(..n).ok_or("too few files")?;
        together(beds, |bed, start| {
            let once: Box<dyn Fn() -> i64> = match call {
                // SAFETY: takes no pointers.
                "getppid" => Box::new(|| unsafe { bed.kernel.call(libc::SYS_getppid, [0; 6]) }),
                "pread-4k" => Box::new(|| bed.read(4096)),
                "pwrite-4k" => Box::new(|| bed.write(4096)),
                "open-close" => Box::new(|| bed.open_close()),
                _ => return Err(format!("no call is called {call}")),
            };
            steady(once, start)
        })
    }
}

/// Threads that copy 4 KiB of their own.
struct Copiers;

impl Works for Copiers {
    fn work(&self, _: &str, n: usize) -> Result<Vec<f64>, String> {
        together(&vec![(); n], |(), start| {
            let (from, mut to) = ([1u8; 4096], [0u8; 4096]);
            let copy = || {
                to.copy_from_slice(black_box(&from));
                i64::from(black_box(&to)[0])
            };
            steady(copy, start)
        })
    }
}

/// A thread for each bed, which all start to work at once.
fn together<B: Sync>(
    beds: &[B],
    work: impl Fn(&B, &Barrier) -> Result<f64, String> + Sync,
) -> Result<Vec<f64>, String> {
    let start = Barrier::new(beds.len());
    std::thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let worker = |bed| scope.spawn(move || work(bed, start));
        let workers: Vec<_> = beds.iter().map(worker).collect();
        let rates = workers.into_iter().map(|w| w.join());
        rates
            .map(|r| r.unwrap_or(Err("a thread panicked".into())))
            .collect()
    })
}

/// Calls per ns, over some time in which all the others are at work too.
fn steady(mut once: impl FnMut() -> i64, start: &Barrier) -> Result<f64, String> {
    let mut worst = (0..STRIDE).map(|_| once()).min().unwrap_or(0);
    start.wait();
    let begin = Instant::now();
    let (mut calls, mut elapsed) = (0, Duration::ZERO);
    while elapsed < TIME {
        for _ in 0..STRIDE {
            worst = worst.min(once());
        }
        calls += STRIDE;
        elapsed = begin.elapsed();
    }
    if worst < 0 {
        return Err(format!("a call failed with error {}", -worst));
    }
    Ok(calls as f64 / elapsed.as_nanos() as f64)
}

fn ping_pong(
    promise: &Promise,
    kind: &str,
    paths: &Paths,
    report: &mut Report,
) -> Result<(), String> {
    let ours = boot(paths, "default", 2, RAM)?;
    let one = boot(paths, "default", 1, RAM)?;
    let sleeping = boot_with(paths, "default", |builder| {
        builder.cpus = 2;
        builder.spin = false;
    })?;
    std::thread::scope(|scope| {
        let inside = Echo::new(&ours, kind, scope)?;
        let host = Echo::new(&Host, kind, scope)?;
        let one = Echo::new(&one, kind, scope)?;
        let sleeping = Echo::new(&sleeping, kind, scope)?;
        let contestants = vec![
            Contestant::new(TANE, batches(|| inside.round_trip())).noted("2 CPUs"),
            Contestant::new(HOST, batches(|| host.round_trip())),
            Contestant::new("tane, 1 CPU", batches(|| one.round_trip())),
            // Threads look for their answer before they sleep, unless told not to.
            Contestant::new("tane, sleeps at once", batches(|| sleeping.round_trip()))
                .noted("2 CPUs"),
        ];
        race(promise, report.runs * BATCHES, contestants, report);
        Ok(())
    })
}

/// A thread that sends back what it gets, until nothing more can come.
struct Echo<'a, K: Kernel> {
    kernel: &'a K,
    there: Pair,
    back: Pair,
    len: usize,
}

impl<'a, K: Kernel> Echo<'a, K> {
    fn new<'s>(
        kernel: &'a K,
        kind: &str,
        scope: &'s std::thread::Scope<'s, 'a>,
    ) -> Result<Self, String> {
        let pair = || match kind {
            "eventfd" => Pair::eventfd(kernel),
            "unix" => Pair::unix(kernel),
            "udp" => Pair::udp(kernel),
            "tcp" => Pair::tcp(kernel),
            _ => Pair::pipe(kernel),
        };
        let len = match kind {
            "eventfd" => 8,
            "udp" => 4,
            _ => 1,
        };
        let (there, back) = (pair()?, pair()?);
        scope.spawn(move || {
            let goes_on = |message| message == Ok(MORE);
            while goes_on(receive(kernel, there, len)) && send(kernel, back, len, MORE) > 0 {}
            there.close(kernel);
            back.close(kernel);
        });
        Ok(Self {
            kernel,
            there,
            back,
            len,
        })
    }

    fn round_trip(&self) -> i64 {
        match send(self.kernel, self.there, self.len, MORE) {
            sent if sent < 0 => sent,
            _ => receive(self.kernel, self.back, self.len).map_or_else(|errno| errno, |_| 0),
        }
    }
}

impl<K: Kernel> Drop for Echo<'_, K> {
    fn drop(&mut self) {
        send(self.kernel, self.there, self.len, LAST);
    }
}

/// What a message begins with; an eventfd is raised by it.
const MORE: u8 = 1;
const LAST: u8 = 2;
const LONGEST: usize = 8;

fn send<K: Kernel>(kernel: &K, pair: Pair, len: usize, what: u8) -> i64 {
    let mut buffer = [0u8; LONGEST];
    buffer[0] = what;
    let args = [
        pair.into as u64,
        buffer.as_ptr() as u64,
        len as u64,
        0,
        0,
        0,
    ];
    // SAFETY: at most the buffer.
    unsafe { kernel.call(libc::SYS_write, args) }
}

/// One message: what it begins with, or the call's error.
fn receive<K: Kernel>(kernel: &K, pair: Pair, len: usize) -> Result<u8, i64> {
    let mut buffer = [0u8; LONGEST];
    let at = buffer.as_mut_ptr() as u64;
    // SAFETY: at most the buffer.
    let got = unsafe { kernel.call(libc::SYS_read, [pair.out as u64, at, len as u64, 0, 0, 0]) };
    match got {
        error if error < 0 => Err(error),
        got if got == len as i64 => Ok(buffer[0]),
        _ => Err(-i64::from(libc::EIO)),
    }
}
