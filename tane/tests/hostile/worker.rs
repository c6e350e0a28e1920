//! The process that meets damaged images: one line of JSON for each, on stdout.
//! It may die of one or never come back; its watcher then starts another.

use super::finding::{self, Outcome};
use super::foreign::As;
use super::kinds::Kind;
use super::{bases, boot, foreign, limit, Log};
use crate::exercise::exercise;
use crate::medium::Random;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tane::images::{Access, Raw};
use tane::{DiskOptions, Kernel};
use tane_hostile::Base;

/// So many images meet the same kernel, if it lives.
const REUSE: u32 = 64;

/// Tells the watchdog what begins: a seed and the kernel that gets it.
type Dog = Sender<Option<(u64, Kernel)>>;

fn say(line: &serde_json::Value) {
    // Past the harness, which would keep it to itself.
    let mut out = File::options()
        .append(true)
        .open("/proc/self/fd/1")
        .expect("stdout");
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

/// Cuts what takes too long: the kernel is halted, which answers its callers.
/// If even that does not help the process ends, and the watcher knows why.
fn watchdog() -> Dog {
    let (sender, receiver) = channel::<Option<(u64, Kernel)>>();
    std::thread::spawn(move || {
        let mut current: Option<(u64, Kernel)> = None;
        loop {
            match receiver.recv_timeout(limit()) {
                Ok(next) => current = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let Some((seed, kernel)) = &current else {
                        continue;
                    };
                    say(&json!({"seed": seed, "hang": "over the limit"}));
                    kernel.halt();
                    match receiver.recv_timeout(Duration::from_secs(60)) {
                        Ok(next) => current = next,
                        Err(RecvTimeoutError::Disconnected) => return,
                        Err(RecvTimeoutError::Timeout) => std::process::abort(),
                    }
                }
            }
        }
    });
    sender
}

struct Bench {
    log: Log,
    kernel: Kernel,
    uses: u32,
}

impl Bench {
    fn new() -> Bench {
        let log = Log::default();
        let kernel = boot(Some(log.clone()));
        Bench {
            log,
            kernel,
            uses: 0,
        }
    }

    fn take_log(&self) -> String {
        let mut log = self.log.lock().unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut *log)
    }

    fn meet(&mut self, seed: u64, what: As, image: &File, dog: &Dog) -> Outcome {
        self.take_log();
        self.uses += 1;
        let next = Some((seed, self.kernel.clone()));
        dog.send(next).expect("the watchdog");
        let access = Access {
            write: true,
            direct: false,
        };
        let file = image.try_clone().expect("a descriptor");
        let disk = Raw::from_file(file, access).expect("a disk");
        let disk = std::sync::Arc::new(disk);
        let start = Instant::now();
        let result = self
            .kernel
            .add_disk(disk, &DiskOptions::new())
            .and_then(|disk| {
                let options = what.mount_options(&self.kernel, &disk);
                let result = options
                    .and_then(|options| exercise(&self.kernel, &disk, &options, seed % 2 == 1));
                let removed = disk.remove();
                result.and_then(|errors| removed.map(|()| errors))
            });
        dog.send(None).expect("the watchdog");
        let took = start.elapsed();
        finding::outcome(&self.kernel, result, took, &self.take_log())
    }
}

/// What this process holds of the host: threads, descriptors.
fn held() -> [usize; 2] {
    let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
    ["/proc/self/task", "/proc/self/fd"].map(count)
}

fn memory_file() -> File {
    use std::os::fd::FromRawFd;
    // SAFETY: a fresh descriptor is ours alone.
    unsafe {
        let fd = libc::memfd_create(c"tane-hostile".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    }
}

/// Meet the images of these seeds, of the bases in `dir`, which are made if they
/// are not there.
pub fn work(dir: &Path, kinds: &[Kind], seeds: std::ops::Range<u64>) {
    if !bases::make(dir, kinds) {
        say(&json!({"skip": "a tool is missing"}));
        return;
    }
    let bases = bases::load(dir, kinds);
    meet_all(seeds, |seed, image| {
        let (kind, what) = damaged(&bases, seed, image);
        (As::Kind(kind), what)
    });
}

/// Meet the images in `dir`, which somebody else made.
pub fn work_on_foreign(dir: &Path, seeds: std::ops::Range<u64>) {
    let images = foreign::load(dir);
    meet_all(seeds, |seed, to| {
        let image = &images[(seed / foreign::TIMES) as usize];
        image.store(to);
        let what = if seed % 2 == 1 { "written" } else { "read" };
        (As::Foreign(image), what.to_owned())
    });
}

fn meet_all<'a>(seeds: std::ops::Range<u64>, mut put: impl FnMut(u64, &File) -> (As<'a>, String)) {
    let before = held();
    let image = memory_file();
    let dog = watchdog();
    let mut bench = Bench::new();
    for seed in seeds {
        let (kind, what) = put(seed, &image);
        say(&json!({"seed": seed, "kind": kind.name(), "what": what}));
        let mut outcome = bench.meet(seed, kind, &image, &dog);
        if outcome.died() {
            // Whose fault is it: this image's, or of those before?
            bench = Bench::new();
            put(seed, &image);
            let again = bench.meet(seed, kind, &image, &dog);
            outcome.alone = Some(again.died());
        }
        say(&outcome.line(seed));
        if bench.uses >= REUSE || !bench.kernel.is_alive() {
            bench = Bench::new();
        }
    }
    drop((bench, dog, image));
    // Idle threads of the disk pool end after a while.
    tane_test_support::eventually("the process holds no more than before", || {
        held().iter().zip(before).all(|(now, then)| *now <= then)
    });
    say(&json!({"end": true}));
}

fn damaged<'a>(bases: &[(&'a Kind, Base)], seed: u64, to: &File) -> (&'a Kind, String) {
    let mut random = Random(seed);
    let (kind, base) = &bases[random.below(bases.len() as u64) as usize];
    let (image, what) = base.damaged(kind.fixup, &mut random);
    image.store(to).expect("memory");
    (kind, what)
}
