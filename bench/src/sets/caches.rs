//! Two threads that write the same or separate buffers, on CPUs that share a
//! cache or do not: what false sharing and thrashing cost on this machine.

use super::bed::Buffer;
use crate::promise::{size, Promise, Set};
use crate::race::{race, Contestant};
use crate::report::Report;
use crate::target::Target;
use crate::topology::{self, Cache};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The part of a cache that a buffer takes: name, label, level, of four.
const BUFFERS: [(&str, &str, u32, usize); 4] = [
    ("l1-quarter", "¼ L1", 1, 1),
    ("l2-quarter", "¼ L2", 2, 1),
    ("l3-quarter", "¼ L3", 3, 1),
    ("l3-double", "2 × L3", 3, 8),
];
/// Where the two threads are: the level of the nearest cache they share.
const PLACES: [(&str, &str, u32); 4] = [
    ("core", "two CPUs that share L1", 1),
    ("l2", "two CPUs that share L2", 2),
    ("l3", "two CPUs that share L3", 3),
    ("apart", "two CPUs that share no cache", 0),
];
const LINE: usize = 64;
const TIME: Duration = Duration::from_millis(20);
/// Writes between two looks at the clock.
const STRIDE: usize = 4096;

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for (place, place_text, _) in PLACES {
        for (buffer, label, _, _) in BUFFERS {
            let what = format!("buffers of {label}, {place_text}: one write");
            let name = format!("caches-{buffer}-{place}");
            rows.push(Promise::new(name, Set::Caches, what, "ns", Target::None));
        }
    }
    rows
}

pub fn measure(promise: &Promise, report: &mut Report) -> Result<(), String> {
    if let Err(why) = try_measure(promise, report) {
        report.miss(promise, "two threads", &why);
    }
    Ok(())
}

const ALONE: &str = "one thread";

fn try_measure(promise: &Promise, report: &mut Report) -> Result<(), String> {
    let caches = topology::read(Path::new("/sys/devices/system/cpu"))?;
    let find = |part: &str| promise.name.contains(part);
    let (_, _, level, quarters) = *BUFFERS.iter().find(|b| find(b.0)).ok_or("no buffer")?;
    let end = promise.name.rsplit('-').next().unwrap_or_default();
    let (_, place, shared) = *PLACES.iter().find(|p| p.0 == end).ok_or("no place")?;
    let bytes = buffer_size(&caches, level, quarters)?;
    let cpus = topology::pair(&caches, &allowed(), shared)
        .ok_or_else(|| format!("there are no {place} here"))?;
    let (first, second) = (&Buffer::new(bytes)?, &Buffer::new(bytes)?);
    let note = format!("{}, CPUs {} and {}", size(bytes), cpus.0, cpus.1);
    let whole = |buffer| Share { buffer, word: 0 };
    let own = Share {
        buffer: first,
        word: 4,
    };
    let with = |other| move || together(cpus, whole(first), Some(other));
    let contestants = vec![
        Contestant::new(ALONE, move || together(cpus, whole(first), None)).noted(note),
        Contestant::new("separate buffers", with(whole(second))),
        Contestant::new("own words of lines", with(own)),
        Contestant::new("same words", with(whole(first))),
    ];
    race(promise, report.runs, contestants, report);
    Ok(())
}

fn buffer_size(caches: &[Cache], level: u32, quarters: usize) -> Result<usize, String> {
    let bytes = topology::bytes(caches, level);
    let bytes = bytes.ok_or_else(|| format!("sysfs tells of no L{level} cache"))?;
    let wanted = (bytes * quarters / 4).next_multiple_of(LINE * STRIDE / 64);
    let free = crate::memory::kib_of("/proc/meminfo", "MemAvailable:")? as usize * 1024;
    match 2 * wanted < free / 2 {
        true => Ok(wanted),
        false => Err(format!(
            "too little memory for two buffers of {}",
            size(wanted)
        )),
    }
}

/// The CPUs that this process may run on.
fn allowed() -> Vec<usize> {
    // SAFETY: room for a set; the bits are read by the macro.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let is_set = |cpu: &usize| libc::CPU_ISSET(*cpu, &set);
        (0..libc::CPU_SETSIZE as usize).filter(is_set).collect()
    }
}

fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: a set on the stack, of this thread.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    match failed {
        0 => Ok(()),
        _ => Err(format!("CPU {cpu}: {}", std::io::Error::last_os_error())),
    }
}

/// What a thread writes: the word of this number in each line of a buffer.
#[derive(Clone, Copy)]
struct Share<'a> {
    buffer: &'a Buffer,
    word: usize,
}

/// ns that a write takes the first thread, on average of both if there are two.
fn together(cpus: (usize, usize), a: Share, b: Option<Share>) -> Result<f64, String> {
    let start = &Barrier::new(1 + usize::from(b.is_some()));
    let times = std::thread::scope(|scope| {
        let one = scope.spawn(move || sweep(cpus.0, a, start));
        let other = b.map(|b| scope.spawn(move || sweep(cpus.1, b, start)));
        let threads = [Some(one), other].into_iter().flatten();
        let times = threads.map(|t| t.join().unwrap_or(Err("a thread panicked".into())));
        times.collect::<Result<Vec<f64>, String>>()
    })?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

/// Writes line after line, round and round; ns for each.
fn sweep(cpu: usize, share: Share, start: &Barrier) -> Result<f64, String> {
    let pinned = pin(cpu);
    let lines = share.buffer.bytes() / LINE;
    let mut at = 0;
    // Once untimed, to have it in the caches as far as it fits.
    write(share, &mut at, lines, lines.min(1 << 20));
    start.wait();
    pinned?;
    let begin = Instant::now();
    let (mut writes, mut elapsed) = (0, Duration::ZERO);
    while elapsed < TIME {
        write(share, &mut at, lines, STRIDE);
        writes += STRIDE;
        elapsed = begin.elapsed();
    }
    Ok(elapsed.as_nanos() as f64 / writes as f64)
}

#[inline]
fn write(share: Share, at: &mut usize, lines: usize, count: usize) {
    let word = share.word * 8;
    for _ in 0..count {
        // SAFETY: within the buffer. Others may write the same words, so this is
        // volatile and nobody relies on what is there.
        unsafe {
            let place = share.buffer.pointer().add(*at * LINE + word).cast::<u64>();
            place.write_volatile(place.read_volatile().wrapping_add(1));
        }
        *at += 1;
        if *at == lines {
            *at = 0;
        }
    }
}
