//! Reads and writes of a file in memory, beside the host's and beside a plain
//! memcpy of as much: faster than that no copy can be.

use super::bed::{Bed, Buffer, Fs, HostSide};
use crate::kernel::{boot, Host, Kernel, RAM};
use crate::paths::Paths;
use crate::promise::{short_size, size, Promise, Set};
use crate::race::{batches, race, Contestant, BATCHES};
use crate::report::{Report, HOST, MEMCPY, TANE};
use crate::target::Target;

const KIB: usize = 1 << 10;
const SIZES: [usize; 12] = [
    1,
    64,
    256,
    KIB,
    4 * KIB,
    16 * KIB,
    64 * KIB,
    200 * KIB,
    256 * KIB,
    KIB * KIB,
    4 * KIB * KIB,
    16 * KIB * KIB,
];

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for fs in [Fs::Ramfs, Fs::Tmpfs] {
        for call in ["pread", "pwrite"] {
            for len in SIZES {
                rows.push(row(fs, call, len));
            }
        }
    }
    rows
}

fn row(fs: Fs, call: &str, len: usize) -> Promise {
    let prefix = match fs {
        Fs::Ramfs => "",
        Fs::Tmpfs => "tmpfs-",
    };
    let target = match (fs, len) {
        (Fs::Tmpfs, _) => Target::None,
        (_, 1) => Target::Faster(10.0),
        (_, len) if len == 4 * KIB => Target::Faster(6.0),
        (_, len) if (64 * KIB..=4 * KIB * KIB).contains(&len) => Target::Bulk {
            host: 2.0,
            memcpy: 0.95,
        },
        _ => Target::None,
    };
    let name = format!("{prefix}{call}-{}", short_size(len));
    let what = format!("{call} of {} on {}", size(len), fs.name());
    let panel = format!("{call} on {}", fs.name());
    Promise::new(name, Set::Ramfs, what, "ns", target).at(&panel, len as f64, len as u64)
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let tmpfs = promise.name.starts_with("tmpfs-");
    let fs = if tmpfs { Fs::Tmpfs } else { Fs::Ramfs };
    let point = promise.point.as_ref().ok_or("no size")?;
    let (len, write) = (point.bytes as usize, promise.name.contains("pwrite"));
    let ours = boot(paths, "default", 1, RAM)?;
    let host_side = HostSide::new(paths, fs)?;
    host_side.mirror(&ours, fs)?;
    let inside = Bed::new(&ours, &host_side.point, "file", len)?;
    let host = Bed::new(&Host, &host_side.point, "file", len)?;
    let (from, to) = (Buffer::new(len)?, Buffer::new(len)?);
    let contestants = vec![
        Contestant::new(TANE, batches(|| transfer(&inside, write, len))),
        Contestant::new(HOST, batches(|| transfer(&host, write, len))).noted(&host_side.note),
        Contestant::new(MEMCPY, batches(|| copy(&from, &to, len))),
    ];
    race(promise, report.runs * BATCHES, contestants, report);
    Ok(())
}

#[inline]
fn transfer<K: Kernel>(bed: &Bed<K>, write: bool, len: usize) -> i64 {
    if write {
        bed.write(len)
    } else {
        bed.read(len)
    }
}

#[inline]
fn copy(from: &Buffer, to: &Buffer, len: usize) -> i64 {
    // SAFETY: both are at least so long and two mappings.
    unsafe { libc::memcpy(to.pointer().cast(), from.pointer().cast(), len) };
    std::hint::black_box(to.pointer());
    0
}
